# SPDX-License-Identifier: Apache-2.0
"""pages.py XML ROOT FOLDER VERSION: the manual's section 3 in FOLDER, from Doxygen's XML of the headers.

A page for each function, type and header. The headers' comments are the one source of their words, and
programs that the tests run of their examples.
"""
import datetime
import os
import re
import sys
import textwrap
from pathlib import Path

from examples import Examples
from headers import Headers
from parts import Parts, mentioned


def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    text = text.replace("^", "\\(ha").replace("~", "\\(ti")
    text = re.sub(r"[^\x00-\x7f]", lambda match: f"\\[u{ord(match.group()):04X}]", text)
    return re.sub(r"(?m)^\.", "\\&.", text)


class Page:
    """The lines of a page in man(7), a sentence begins a line."""

    def __init__(self, name, brief, version, known):
        self.known = known
        self.name = name
        moment = int(os.environ.get("SOURCE_DATE_EPOCH", 0))
        day = (datetime.datetime.fromtimestamp(moment, datetime.timezone.utc).date() if moment
               else datetime.date.today())
        self.lines = [f'.TH "{escape(name)}" 3 "{day}" "ferry {version}" "ferry"', ".SH NAME",
                      f"{escape(name)} \\- {escape(lower(brief))}"]

    def section(self, title):
        self.lines.append(f".SH {title}")
        self.is_first = True

    def words(self, text):
        """Words in lines of a sentence each; names of pages are bold."""
        def mark(match):
            name = match.group()
            if name == self.name or name not in self.known:
                return name
            return f"\\fB{name}\\fP(3)"
        out = []
        for sentence in re.split(r"(?<=[.;]) ", text):
            marked = re.sub(r"(?<!sizeof\()\bferry_[a-z_0-9]+\b(?!\.[a-z])(?!\()", mark, escape(sentence))
            out += textwrap.wrap(marked, 78, break_long_words=False, break_on_hyphens=False)
        return [f"\\&{line}" if line.startswith(".") else line for line in out]

    def paragraph(self, text):
        if not self.is_first:
            self.lines.append(".PP")
        self.is_first = False
        self.lines += self.words(text)

    def tagged(self, tag, text):
        self.is_first = False
        self.lines += [".TP", f".B {escape(tag)}"] + self.words(text)

    def code(self, lines, is_bold=False):
        if not self.is_first:
            self.lines.append(".PP")
        self.is_first = False
        self.lines += [".in +4n", ".nf"] if not is_bold else [".nf"]
        for line in lines:
            line = escape(line)
            self.lines.append((f"\\fB{line}\\fP" if is_bold and line else line) or "\\&")
        self.lines += [".fi"] + ([] if is_bold else [".in"])

    def blocks(self, blocks):
        for kind, content in blocks:
            if kind == "text":
                self.paragraph(content)
            elif kind == "list":
                for item in content:
                    self.is_first = False
                    self.lines += [".IP \\(bu 2"] + self.words(item)
            elif kind == "kept":
                self.code(content.split("\n"))
            else:
                for names, text in content:
                    self.tagged(names, text)

    def see_also(self, names):
        self.section("SEE ALSO")
        names = list(dict.fromkeys(names))
        for i, name in enumerate(names):
            self.lines.append(f".BR {escape(name)} (3){',' if i + 1 < len(names) else ''}")

    def write(self, folder):
        (folder / f"{self.name}.3").write_text("\n".join(self.lines) + "\n")


def failure_text(meaning, reasons):
    """What a status means, and when this function gives it."""
    reasons = [reason.removeprefix(meaning.split(";")[0] + ": ") for reason in reasons]
    text = meaning[0].upper() + meaning[1:]
    return text + (": " + "; ".join(reasons) if reasons else "") + "."


def lower(text):
    """The beginning of a sentence as it stands after a dash."""
    word = text.split(" ")[0]
    return text if re.search(r"[A-Z_].*[A-Z_]", word) else text[:1].lower() + text[1:]


class Manual:
    def __init__(self, headers, examples, folder, version):
        self.headers = headers
        self.examples = examples
        self.folder = folder
        self.version = version
        self.known = {*headers.functions, *headers.types}

    def page(self, name, brief):
        return Page(name, brief, self.version, self.known)

    def family_page(self, header):
        return "ferry" if header.family == "ferry" else f"ferry-{header.family}"

    def synopsis(self, page, lines):
        page.section("SYNOPSIS")
        page.code(["#include <ferry/ferry.h>"] + ([""] + lines if lines else []), is_bold=True)

    def function_page(self, function):
        parts = Parts(function, self.headers)
        page = self.page(function.name, function.brief)
        self.synopsis(page, function.prototype().split("\n"))
        page.section("DESCRIPTION")
        page.blocks(parts.description or [("text", function.brief + ".")])
        rules = self.headers.rules_of(function.header)
        if function.returns == "ferry_future *" and rules:
            page.blocks([("text", f"The rules that all these functions share are in "
                                  f"ferry-{rules.family}(3).")])
        page.section("RETURN VALUE")
        page.paragraph(" ".join(parts.return_text(function, self.headers)))
        page.section("ERRORS")
        self.errors(page, function, parts)
        self.example(page, function)
        page.see_also(mentioned(function, self.known) + ["ferry_status",
                      self.family_page(function.header), "ferry"])
        page.write(self.folder)

    def errors(self, page, function, parts):
        if not parts.failures:
            page.paragraph("It reports no status.")
            return
        if function.returns == "ferry_future *":
            page.paragraph("The future fails, at once or later, with")
        for status in [name for name in self.headers.statuses if name in parts.failures]:
            page.tagged(status, failure_text(self.headers.statuses[status], parts.failures[status]))

    def example(self, page, function):
        page.section("EXAMPLE")
        found = self.examples.find(function.name)
        if found is None:
            raise SystemExit(f"pages: no example calls {function.name}")
        path, lines = found
        page.paragraph(f"From {path}, which the tests build and run:")
        page.code(lines)

    def type_page(self, type_):
        page = self.page(type_.name, type_.brief or f"a type of ferry/{type_.header.name}")
        self.synopsis(page, declaration_of(type_))
        page.section("DESCRIPTION")
        page.blocks(type_.blocks or [("text", f"See ferry-{type_.header.family}(3).")])
        told = [(name, blocks) for name, blocks in type_.fields if blocks]
        if told:
            page.section("FIELDS" if type_.kind == "struct" else "VALUES")
            for name, blocks in told:
                page.tagged(name, " ".join(content for kind, content in blocks if kind == "text"))
        users = [f.name for f in self.headers.functions.values()
                 if any(re.search(rf"\b{type_.name}\b", words) for words in f.types + [f.returns])]
        page.see_also(users[:12] + [self.family_page(type_.header), "ferry"])
        page.write(self.folder)

    def header_page(self, header):
        page = self.page(self.family_page(header), header.brief)
        prototypes = [line for f in header.functions for line in f.prototype().split("\n")]
        self.synopsis(page, prototypes)
        page.section("DESCRIPTION")
        page.blocks(header.blocks)
        if header.macros:
            page.section("MACROS")
            for macro in header.macros:
                text = " ".join(content for kind, content in macro.blocks if kind == "text")
                page.tagged(macro.name, text or macro.value.replace(" \\ ", " "))
        for title, members in (("TYPES", header.types), ("FUNCTIONS", header.functions)):
            if members:
                page.section(title)
                for member in members:
                    page.tagged(f"{member.name}(3)", member.brief + ".")
        others = [self.family_page(other) for other in self.headers.headers if other is not header]
        page.see_also(others)
        page.write(self.folder)

    def write(self):
        for function in self.headers.functions.values():
            self.function_page(function)
        for type_ in self.headers.types.values():
            self.type_page(type_)
        for header in self.headers.headers:
            self.header_page(header)


def declaration_of(type_):
    if type_.kind == "typedef":
        return [type_.declaration]
    if type_.kind == "struct":
        fields = [f"    {declaration};" for declaration, blocks in type_.fields]
        return [f"typedef struct {type_.name} {{"] + fields + [f"}} {type_.name};"]
    fields = [f"    {name}," for name, blocks in type_.fields]
    return [f"typedef enum {type_.name} {{"] + fields + [f"}} {type_.name};"]


def main():
    xml, root, folder, version = sys.argv[1:]
    manual = Manual(Headers(xml), Examples(root), Path(folder), version)
    manual.write()


if __name__ == "__main__":
    main()
