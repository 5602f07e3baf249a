# SPDX-License-Identifier: Apache-2.0
"""stage.py ROOT XML STAGE VERSION: what mkdocs makes the site of, in STAGE.

The pages are those of docs/ and of the root. A link that stands alone in its line and leads to a program
becomes the program's text, or that of the function after its "#"; so pages can't differ from what the
tests run. Links to other files of the tree get a page with the file. A link that leads nowhere is an error.
"""
import os
import re
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "man"))
from examples import Examples, blocks_of  # noqa: E402
from headers import Headers  # noqa: E402
from reference import Reference  # noqa: E402

ROOT_PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md",
              "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "reporting.md",
              "bench/results/README.md": "results.md", "python/README.md": "python.md"}
LINK = re.compile(r"(!?\[[^\]]*\])\(([^)\s]+)\)")
ALONE = re.compile(r"^\[[^\]]*\]\(([^)#]+\.(?:c|cpp))(?:#(\w+))?\)$")
LANGUAGES = {".c": "c", ".h": "c", ".cpp": "cpp", ".hpp": "cpp", ".py": "python", ".md": "markdown"}


class Stage:
    def __init__(self, root, folder, reference):
        self.root = root
        self.folder = folder
        self.reference = reference
        self.problems = []
        self.pages = dict(ROOT_PAGES)
        for path in sorted((root / "docs").rglob("*.md")):
            inside = str(path.relative_to(root / "docs"))
            self.pages[f"docs/{inside}"] = re.sub(r"README\.md$", "index.md", inside)
        self.files = {}  # of the tree, that pages link to, by their page

    def write(self, page, text):
        path = self.folder / page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def target(self, source, link):
        """The staged page of a link in a page of the tree, with what follows "#"; None: no page."""
        name, mark, anchor = link.partition("#")
        path = os.path.normpath(os.path.join(os.path.dirname(source), name))
        if name == "":
            return link
        if path in self.pages:
            return self.pages[path] + mark + anchor
        whole = self.root / path
        if path.startswith("..") or not whole.exists():
            self.problems.append(f"{source}: {link} leads nowhere")
        elif path.endswith(".svg"):
            shutil.copy(whole, self.folder / whole.name)
            return whole.name
        elif whole.is_file():
            self.files[path] = f"files/{path}.md"
            return self.files[path]
        return None

    def links(self, source, line):
        page = self.pages[source]

        def rewrite(match):
            text, link = match.groups()
            if re.match(r"[a-z]+:", link):
                return match.group()
            target = self.target(source, link)
            if target is None:
                return text[1:-1]
            if not target.startswith("#"):
                target = os.path.relpath(target, os.path.dirname(page) or ".")
            return f"{text}({target})"
        return LINK.sub(rewrite, line)

    def functions(self, source, line):
        """Code spans that name a function or a type lead to the reference."""
        folder = os.path.relpath("reference", os.path.dirname(self.pages[source]) or ".") + "/"

        def rewrite(match):
            name = match.group(1)
            if name not in self.reference.home:
                return match.group()
            return self.reference.link(name, match.group(), folder)
        # Those that are a link's text already stay.
        return re.sub(r"(?<!\[)`(ferry_\w+)(?:\(3\))?`(?!\])", rewrite, line)

    def included(self, source, path, function):
        path = os.path.normpath(os.path.join(os.path.dirname(source), path))
        whole = self.root / path
        if not whole.is_file():
            self.problems.append(f"{source}: {path} is not there")
            return []
        lines = whole.read_text().rstrip("\n").split("\n")[1:]  # without the licence
        if function:
            blocks = [block.lines for block in blocks_of(whole, path)
                      if re.search(rf"\b{function}\(", block.lines[0])]
            if len(blocks) != 1:
                self.problems.append(f"{source}: {path} has {len(blocks)} functions {function}")
                return []
            lines = blocks[0]
        caption = self.links(source, f"[{path}]({os.path.relpath(path, os.path.dirname(source))})")
        return [f"From {caption}:", "", f"```{LANGUAGES[whole.suffix]}", *lines, "```"]

    def page(self, source):
        out, is_code = [], False
        for line in (self.root / source).read_text().split("\n"):
            if line.startswith("```"):
                is_code = not is_code
            alone = ALONE.match(line)
            if is_code or line.startswith(("```", "    ", "#", "<!--")):
                out.append(line)
            elif alone:
                out += self.included(source, *alone.groups())
            else:
                out.append(self.functions(source, self.links(source, line)))
        self.write(self.pages[source], "\n".join(out))

    def file_pages(self):
        for path, page in sorted(self.files.items()):
            text = (self.root / path).read_text(errors="replace")
            language = LANGUAGES.get(Path(path).suffix, "text")
            self.write(page, f"# {path}\n\n````{language}\n{text}````\n")


def nav_of(reference, pages):
    """mkdocs' list of pages, as YAML. Pages that have no place of their own come under "How it works"."""
    lines = ["nav:", "  - Home: index.md", "  - Guide: guide.md", "  - Cookbook:"]
    cookbook = ["index", "event-to-peer", "kv-blocks", "kv-window", "kv-plan", "own-epoll", "libuv",
                "deadline-quiet", "scope", "reduction", "dead-peer", "back-pressure", "completion-queue", "file-into-span",
                "find-slow", "other-library"]
    lines += [f"    - cookbook/{name}.md" for name in cookbook]
    lines.append("  - Coming from:")
    for name in ("index", "nixl", "nccl", "cuda-streams", "libuv", "mpi"):
        lines.append(f"    - coming-from/{name}.md")
    lines.append("  - API reference:")
    lines.append("    - Overview: reference/index.md")
    lines += [f"    - reference/{header.family}.md" for header in reference.headers.headers]
    lines.append("  - How it works:")
    project = ["changelog.md", "contributing.md"]
    first = ["design.md", "threading.md", "limits.md", "security.md", "hardware.md", "performance.md"]
    text = "\n".join(lines)
    others = [page for page in pages if page not in text and page not in project + first]
    lines += [f"    - {page}" for page in first + sorted(others) if page != "reporting.md"]
    lines.append("  - Project:")
    lines += [f"    - {page}" for page in project] + ["    - Vulnerabilities: reporting.md"]
    return "\n".join(lines) + "\n"


def colours():
    """Those of code; without Pygments mkdocs shows code without any."""
    try:
        from pygments.formatters import HtmlFormatter
    except ImportError:
        return ""
    return HtmlFormatter(style="friendly").get_style_defs(".codehilite") + "\n"


def theme_scripts(folder):
    """Debian's mkdocs 1.4 has jQuery under an older name than its theme asks for, and lacks a script that
    only marks tables, which style.css does without."""
    scripts = folder / "js"
    scripts.mkdir()
    if Path("/usr/share/javascript/jquery/jquery.min.js").exists():
        shutil.copy("/usr/share/javascript/jquery/jquery.min.js", scripts / "jquery-3.6.0.min.js")
    (scripts / "theme_extra.js").write_text("/* See script/web/stage.py. */\n")


def main():
    root, xml, folder, version = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.argv[4]
    pages = folder / "pages"
    pages.mkdir(parents=True)
    reference = Reference(Headers(xml), Examples(root))
    stage = Stage(root, pages, reference)
    for source in stage.pages:
        stage.page(source)
    for header in reference.headers.headers:
        stage.write(f"reference/{header.family}.md", reference.page(header))
    stage.write("reference/index.md", reference.index())
    stage.file_pages()
    here = Path(__file__).resolve().parent
    stage.write("style.css", (here / "style.css").read_text() + colours())
    settings = (here / "mkdocs.yml").read_text().replace("@VERSION@", version)
    theme_scripts(pages)
    (folder / "mkdocs.yml").write_text(settings + nav_of(reference, stage.pages.values()))
    for problem in stage.problems:
        print(f"script/site: {problem}", file=sys.stderr)
    sys.exit(1 if stage.problems else 0)


if __name__ == "__main__":
    main()
