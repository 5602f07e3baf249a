# SPDX-License-Identifier: Apache-2.0
"""check.py SITE: every link of the site's pages to the site itself leads to a page, and to a place in it; and
nothing is fetched from elsewhere when a page is shown."""
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "embed": "src"}


class Page(HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.fetched = set(), [], []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.ids.update(filter(None, (values.get("id"), values.get("name"))))
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        is_style = tag == "link" and values.get("rel") in ("stylesheet", "icon", "shortcut icon")
        address = values.get("href") if is_style else values.get(FETCHED.get(tag, ""))
        if address:
            self.fetched.append(address)


def is_outside(address):
    parts = urlsplit(address)
    return bool(parts.scheme or parts.netloc) and parts.scheme != "data"


def main():
    site = Path(sys.argv[1]).resolve()
    pages = {path: Page(path) for path in site.rglob("*.html")}
    problems, count = [], 0
    for path, page in pages.items():
        name = path.relative_to(site)
        problems += [f"{name} fetches {address}" for address in page.fetched if is_outside(address)]
        for address in page.links + page.fetched:
            parts = urlsplit(address)
            if is_outside(address) or parts.scheme == "data":
                continue
            count += 1
            target = path if parts.path == "" else (path.parent / unquote(parts.path)).resolve()
            if parts.path.startswith("/"):
                target = site / unquote(parts.path).lstrip("/")
            if target.is_dir():
                target /= "index.html"
            if not target.is_file():
                problems.append(f"{name}: {address} leads nowhere")
            elif parts.fragment and target in pages and parts.fragment not in pages[target].ids:
                problems.append(f"{name}: there is no place {address}")
    for style in site.rglob("*.css"):
        text = style.read_text(errors="replace")
        if "url(http" in text.replace('"', "").replace("'", "") or "@import" in text:
            problems.append(f"{style.relative_to(site)} fetches from elsewhere")
    for problem in sorted(set(problems)):
        print(f"script/site: {problem}", file=sys.stderr)
    if not pages or count < 100:
        problems.append("hardly any pages")
    print(f"script/site: {len(pages)} pages, {count} links, {len(problems)} problems")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
