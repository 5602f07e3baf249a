# SPDX-License-Identifier: Apache-2.0
"""The public headers as Doxygen's XML tells them: headers, functions, types, and their texts.

A text is a list of blocks: ("text", words), ("list", [words...]), ("parameters", [(names, words)...]),
("statuses", [(name, words)...]) and ("kept", lines), which stands as it is.
"""
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

SENTENCE_END = re.compile(r'(?<=[.)])\s+(?=[A-Z"`])|(?<=\.)\s+(?=[a-z]+_[a-z_]+ )')


def words_of(element):
    return re.sub(r"\s+", " ", "".join(element.itertext())).strip()


def read_parameters(element):
    kind = "statuses" if element.get("kind") == "retval" else "parameters"
    items = []
    for item in element.findall("parameteritem"):
        names = ", ".join(words_of(name) for name in item.iter("parametername")).replace(",", ", ")
        names = names.replace(",  ", ", ")
        items.append((names, words_of(item.find("parameterdescription"))))
    return kind, items


def read_paragraph(paragraph):
    """The blocks of a <para>: text, broken by what is not text."""
    blocks, parts = [], [paragraph.text or ""]

    def end_text():
        words = re.sub(r"\s+", " ", "".join(parts)).strip()
        if words:
            blocks.append(("text", words))
        parts.clear()

    for child in paragraph:
        if child.tag == "itemizedlist":
            end_text()
            blocks.append(("list", [words_of(item) for item in child.findall("listitem")]))
        elif child.tag == "parameterlist":
            end_text()
            blocks.append(read_parameters(child))
        elif child.tag == "verbatim":
            end_text()
            kept = re.sub(r"(?m)^ *\* ?", "", child.text or "")
            blocks.append(("kept", kept.strip("\n").rstrip()))
        else:
            parts.append("".join(child.itertext()))
        parts.append(child.tail or "")
    end_text()
    return blocks


def read_text(element, is_one=True):
    """The brief and the detailed description as one list of blocks; is_one: of one comment."""
    blocks = []
    for part in ("briefdescription", "detaileddescription"):
        description = element.find(part)
        if description is not None:
            for paragraph in description.findall("para"):
                blocks += read_paragraph(paragraph)
    # Doxygen takes the first sentence apart from what follows it.
    if is_one and [kind for kind, content in blocks[:2]] == ["text", "text"]:
        blocks[:2] = [("text", f"{blocks[0][1]} {blocks[1][1]}")]
    return blocks


def sentences(words):
    return SENTENCE_END.split(words)


class Member:
    """What functions, types, macros and headers have in common."""

    def __init__(self, name, blocks, line=0):
        self.name = name
        self.blocks = blocks
        self.line = line

    @property
    def brief(self):
        """The first sentence, or its beginning where that says enough."""
        text = next((content for kind, content in self.blocks if kind == "text"), "")
        sentence = sentences(text)[0].rstrip(".:")
        parts = re.split(r"(?<=[:;]) ", sentence)
        taken = parts.pop(0)
        while parts and len(taken.split()) < 4:
            taken += " " + parts.pop(0)
        return taken.rstrip(":;")


class Function(Member):
    def __init__(self, element, header):
        super().__init__(element.findtext("name"), read_text(element), line_of(element))
        self.header = header
        self.returns = words_of(element.find("type"))
        self.types = [words_of(parameter.find("type")) for parameter in element.findall("param")]
        self.parameters = []
        for parameter, type_ in zip(element.findall("param"), self.types):
            name = parameter.findtext("declname") or ""
            space = "" if type_.endswith("*") or not name else " "
            self.parameters.append(type_ + space + name + (parameter.findtext("array") or ""))

    def prototype(self):
        """The declaration, broken at parameters to at most 78 columns."""
        space = "" if self.returns.endswith("*") else " "
        begin = f"{self.returns}{space}{self.name}("
        lines, line = [], begin
        for i, parameter in enumerate(self.parameters):
            word = parameter + (", " if i + 1 < len(self.parameters) else ");")
            if len(line) + len(word.rstrip()) > 78 and line.strip():
                lines.append(line.rstrip())
                line = " " * min(len(begin), 30)
            line += word
        return "\n".join(lines + [line.rstrip()])


class Type(Member):
    """A struct or an enum; fields are (declaration, blocks)."""

    def __init__(self, name, kind, blocks, fields, header, line):
        super().__init__(name, blocks, line)
        self.kind = kind
        self.fields = fields
        self.header = header


class Header(Member):
    def __init__(self, element):
        super().__init__(element.findtext("compoundname"), read_text(element, is_one=False))
        self.family = self.name.removesuffix(".h")
        self.functions, self.types, self.macros = [], [], []

    def rules(self):
        """The paragraphs that hold for several of its functions: the header says so in the first."""
        for i, (kind, content) in enumerate(self.blocks):
            if kind == "text" and content.startswith("Rules for all functions below"):
                return self.blocks[i:]
        return []


def line_of(element):
    return int(element.find("location").get("line"))


def field_of(member):
    arguments = member.findtext("argsstring") or ""
    type_, name = words_of(member.find("type")), member.findtext("name")
    if arguments.startswith(")"):  # a function pointer: its name stands inside the type
        return f"{type_}{name}{arguments}"
    return f"{type_}{'' if type_.endswith('*') else ' '}{name}{arguments}"


def read_enum(member, header):
    fields = [(value.findtext("name"), read_text(value)) for value in member.findall("enumvalue")]
    return Type(member.findtext("name"), "enum", read_text(member), fields, header, line_of(member))


def read_struct(folder, reference, header):
    element = ElementTree.parse(folder / f"{reference}.xml").getroot().find("compounddef")
    fields = [(field_of(member), read_text(member)) for member in element.iter("memberdef")
              if "private_" not in member.findtext("definition")]
    return Type(element.findtext("compoundname"), "struct", read_text(element), fields, header,
                line_of(element))


def read_header(folder, reference):
    element = ElementTree.parse(folder / f"{reference}.xml").getroot().find("compounddef")
    header = Header(element)
    for inner in element.findall("innerclass"):
        if "::" not in inner.text and "." not in inner.text:
            header.types.append(read_struct(folder, inner.get("refid"), header))
    known = {type_.name for type_ in header.types}
    known |= {member.findtext("name") for member in element.iter("memberdef")
              if member.get("kind") == "enum"}
    for member in element.iter("memberdef"):
        kind, name = member.get("kind"), member.findtext("name")
        if kind == "function" and name.startswith("ferry_") and member.get("inline") == "no":
            header.functions.append(Function(member, header))
        elif kind == "enum":
            header.types.append(read_enum(member, header))
        elif kind == "typedef" and name not in known:
            type_ = Type(name, "typedef", read_text(member), [], header, line_of(member))
            type_.declaration = re.sub(r"\(\* (\w+)\) \(", r" (*\1)(", member.findtext("definition"))
            header.types.append(type_)
        elif kind == "define" and not re.search(r"(_H|_MAP|_|_API|_ENUM)$", name):
            macro = Member(name, read_text(member), line_of(member))
            macro.value = words_of(member.find("initializer"))
            header.macros.append(macro)
    share_texts(header)
    return header


def share_texts(header):
    """A comment tells of all functions that follow it without a comment of their own."""
    for members in (header.functions, header.types):
        members.sort(key=lambda member: member.line)
    last = None
    for function in header.functions:
        function.sisters = []
        if function.blocks or last is None:
            last = function
        else:
            function.blocks = last.blocks
            for sister in [last] + last.sisters:
                sister.sisters.append(function)
                function.sisters.append(sister)


def read_statuses(header):
    """What each status means, from the list in status.h."""
    for macro in header.iter("memberdef"):
        if macro.findtext("name") == "FERRY_STATUS_MAP":
            text = "".join(macro.find("initializer").itertext())
            return dict(re.findall(r'X\((FERRY_\w+), *-?\d+, *"([^"]*)"\)', text))
    raise SystemExit("headers: status.h has no FERRY_STATUS_MAP")


class Headers:
    def __init__(self, folder):
        folder = Path(folder)
        references = sorted(path.stem for path in folder.glob("*_8h.xml"))
        self.headers = [read_header(folder, reference) for reference in references]
        self.headers = [header for header in self.headers if header.name != "export.h"]
        self.statuses = read_statuses(ElementTree.parse(folder / "status_8h.xml").getroot())
        self.functions = {f.name: f for header in self.headers for f in header.functions}
        self.types = {}
        for type_ in (t for header in self.headers for t in header.types):
            if type_.kind != "typedef" or type_.name not in self.types:
                self.types[type_.name] = type_
        if len(self.functions) < 40:
            raise SystemExit(f"headers: only {len(self.functions)} functions")

    def rules_of(self, header):
        """The header whose rules hold for a header's operations, or None: message.h has those of op.h."""
        family = "op" if header.family == "message" else header.family
        found = next(other for other in self.headers if other.family == family)
        return found if found.rules() else None
