# SPDX-License-Identifier: Apache-2.0
"""The API reference as Markdown: a page for each header, from the same texts as the manual."""
import re

from pages import declaration_of, failure_text, lower
from parts import Parts


class Reference:
    def __init__(self, headers, examples):
        self.headers = headers
        self.examples = examples
        self.home = {}
        for header in headers.headers:
            for member in header.functions + header.types:
                if headers.types.get(member.name, member) is member:
                    self.home[member.name] = header.family

    def link(self, name, text=None, folder=""):
        return f"[{text or f'`{name}`'}]({folder}{self.home[name]}.md#{name})"

    def words(self, text, own_name=""):
        text = re.sub(r"([*_<|\[\]])", r"\\\1", text.replace("`", ""))

        def mark(match):
            name = match.group().replace("\\_", "_")
            return self.link(name) if name in self.home and name != own_name else f"`{name}`"
        return re.sub(r"\b(?:ferry|FERRY)(?:\\_[A-Za-z0-9]+)+\b", mark, text)

    def blocks(self, blocks, own_name=""):
        lines = []
        for kind, content in blocks:
            if kind == "text":
                lines += [self.words(content, own_name), ""]
            elif kind == "list":
                lines += [f"- {self.words(item, own_name)}" for item in content] + [""]
            elif kind == "kept":
                lines += ["```text", *content.split("\n"), "```", ""]
            else:
                lines += table(("", ""), [(f"`{names}`", self.words(text, own_name))
                                          for names, text in content])
        return lines

    def function(self, function):
        parts = Parts(function, self.headers)
        lines = [f"### {function.name} {{#{function.name}}}", "", "```c",
                 *function.prototype().split("\n"), "```", ""]
        lines += self.blocks(parts.description or [("text", function.brief + ".")], function.name)
        returned = " ".join(parts.return_text(function, self.headers))
        lines += [f"**Return value.** {self.words(returned, function.name)}", ""]
        if parts.failures:
            rows = [(f"`{status}`", self.words(failure_text(meaning, parts.failures[status])))
                    for status, meaning in self.headers.statuses.items() if status in parts.failures]
            lines += ["**Errors**", "", *table(("status", "meaning"), rows)]
        path, code = self.examples.find(function.name)
        lines += [f"**Example**, from {path}:", "", "```c", *code, "```", ""]
        return lines

    def type(self, type_):
        lines = [f"### {type_.name} {{#{type_.name}}}", "", "```c", *declaration_of(type_), "```", ""]
        lines += self.blocks(type_.blocks, type_.name)
        rows = []
        for name, blocks in type_.fields:
            text = " ".join(content for kind, content in blocks if kind == "text")
            if text:
                rows.append((f"`{name}`", self.words(text)))
        return lines + (table(("field" if type_.kind == "struct" else "value", ""), rows)
                        if rows else [])

    def page(self, header):
        lines = [f"# ferry/{header.name}", "", *self.blocks(header.blocks)]
        for title, members, render in (("Functions", header.functions, self.function),
                                       ("Types", header.types, self.type)):
            members = [m for m in members if self.headers.types.get(m.name, m) is m]
            if members:
                lines += [f"## {title}", ""]
                lines += table(("", ""), [(self.link(m.name), self.words(lower(m.brief)))
                                          for m in members])
                for member in members:
                    lines += render(member)
        return "\n".join(lines) + "\n"

    def index(self):
        rows = [(f"[{header.name}]({header.family}.md)", self.words(header.brief))
                for header in self.headers.headers]
        lines = ["# API reference", "", "Made from the comments of the public headers, like the "
                 "manual pages (`man ferry_copy`). `<ferry/ferry.h>` includes all of them.", "",
                 *table(("header", "about"), rows), "## Functions", ""]
        for name in sorted(self.headers.functions):
            lines.append(f"- {self.link(name)}: {self.words(lower(self.headers.functions[name].brief))}")
        return "\n".join(lines) + "\n"


def table(head, rows):
    # Python's Markdown takes an escaped bar in a code span as it stands.
    lines = [f"| {' | '.join(head)} |", "|" + " --- |" * len(head)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows] + [""]
