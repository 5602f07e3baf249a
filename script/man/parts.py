# SPDX-License-Identifier: Apache-2.0
"""What a header's comment says of a function, sorted into the parts of a manual page."""
import re

from headers import sentences

# Sentences that tell what comes back, and those that tell how a call fails.
RETURNS = re.compile(r"(Returns?\b|Never NULL|One reference\b|True:|False:)")
FAILS = re.compile(r"(Fails?\b|Also fails\b|Adds:|Later also\b|The (futures?|batch) fails?\b"
                   r"|Otherwise (fails )?like|FERRY_E_\w+(,|: ))")
LIKE = re.compile(r"(?:\b[Oo]therwise (?:fails )?like|^Like|the same as|are like|[Ss]ee) (ferry_\w+)")
NEVER = re.compile(r",? but never with (FERRY_E_\w+)")
STATUS = re.compile(r"FERRY_E_[A-Z_]+")
# What led to the next status, and what only joins a reason to its status.
SPLICE = re.compile(r"(?:,? or with a status that its function adds)?(?:,|;| and| or| later)*"
                    r"(?: with)?[,;:. ]*$")
JOIN = re.compile(r"^,? ?and (?=the )")


def split_outside(text, separator):
    """Splits at a separator that stands in no parentheses."""
    parts, depth, part = [], 0, ""
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and letter == separator:
            parts.append(part.strip())
            part = ""
        else:
            part += letter
    return parts + [part.strip()]


def heads_of(text):
    """The text in pieces, each from a status that stands in no parentheses to the next."""
    begins, depth = [], 0
    for i, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and text.startswith("FERRY_E_", i):
            begins.append(i)
    return [text[begin:end] for begin, end in zip(begins, begins[1:] + [len(text)])]


def statuses_of(sentence):
    """(status, when) for each status that a sentence names: 'FERRY_E_BUSY if ...; FERRY_E_X'."""
    sentence = NEVER.sub("", sentence)
    for head in heads_of(sentence):
        name = STATUS.match(head).group()
        when = SPLICE.sub("", head[len(name):]).strip(" :")
        if when.startswith("(") and when.endswith(")"):
            when = when[1:-1]
        yield name, JOIN.sub("", when)


class Parts:
    """description: blocks; returned: sentences; failures: {status: [when, ...]}."""

    def __init__(self, function, headers, is_whole=True):
        self.description, self.returned, self.failures = [], [], {}
        self.like = []
        is_list_of_statuses = False
        for kind, content in function.blocks:
            if kind == "text":
                is_list_of_statuses = self.take_text(content)
            elif kind == "statuses":
                for status, when in content:
                    self.add([(status, when.split(" FERRY_E_")[0])])
            elif kind == "list" and is_list_of_statuses:
                self.take_list(content)
            else:
                self.description.append((kind, content))
        self.take_rules(function, headers)
        if is_whole:
            self.take_likeness(function, headers)

    def add(self, statuses):
        for status, when in statuses:
            reasons = self.failures.setdefault(status, [])
            when = when.rstrip(". ")
            if when and when not in reasons:
                reasons.append(when)

    def take_text(self, text):
        """Returns whether a list that follows tells of statuses."""
        kept, last = [], ""
        for last in sentences(text):
            self.like += LIKE.findall(last)
            if last in ("Returns", "Fails with"):
                continue
            if FAILS.match(last) and "FERRY_E_" in last:
                self.add(statuses_of(last))
                has_other = any("FERRY_E_" not in clause for clause in split_outside(last, ";"))
                if "like" in last or has_other:
                    kept.append(last)
            elif RETURNS.match(last):
                self.take_return(last)
            else:
                self.take_mention(last)
                kept.append(last)
        if kept and re.match(r"Statuses, in addition|The future fails with$", kept[-1]):
            kept.pop()
        if kept:
            self.description.append(("text", " ".join(kept)))
        return last == "Returns" or last.startswith("Statuses, in addition")

    def take_mention(self, sentence):
        """A sentence that tells more than a failure stays, and counts."""
        for status in re.findall(r"(?:fails? (?:at once )?with|it resolves) (FERRY_E_\w+)", sentence):
            self.add([(status, "")])
        for clause in split_outside(sentence, ";"):
            if clause.startswith("FERRY_E_"):
                self.add(statuses_of(clause))

    def take_return(self, sentence):
        """'Returns FERRY_OK; FERRY_E_INVALID for a NULL' is both."""
        told = []
        for clause in split_outside(sentence.rstrip("."), ";"):
            before, colon, statuses = clause.partition(": FERRY_E_")
            if re.match(r"(Returns )?FERRY_E_", clause):
                self.add(statuses_of(clause))
            elif colon:
                told.append(before)
                self.add(statuses_of("FERRY_E_" + statuses))
            else:
                self.take_mention(clause)
                told.append(clause)
        if told:
            self.returned.append("; ".join(told) + ".")

    def take_list(self, items):
        for item in items:
            names, colon, when = item.partition(": ")
            if not item.startswith("FERRY_E_"):
                self.returned.append(item)
            elif colon and ";" not in names:
                text, *others = re.split(r"; (?=FERRY_E_)", when)
                self.add([(name, text) for name in STATUS.findall(names)])
                for other in others:
                    self.add(statuses_of(other))
            else:
                self.add(statuses_of(item))

    def take_rules(self, function, headers):
        """Functions that return a future also fail as the rules of their header say."""
        first = function.types[0] if function.types else ""
        header = headers.rules_of(function.header)
        if function.returns != "ferry_future *" or header is None:
            return
        if header.family == "group" and first != "ferry_group *":
            return
        for kind, content in header.rules():
            for sentence in sentences(content) if kind == "text" else []:
                if re.match(r"(An operation fails|The future fails)", sentence):
                    self.add(statuses_of(sentence))

    def take_likeness(self, function, headers):
        for name in self.like:
            other = headers.functions.get(name)
            if other is not None and other is not function:
                for status, reasons in Parts(other, headers, False).failures.items():
                    self.add([(status, reason) for reason in reasons or [""]])
        for kind, content in function.blocks:
            for status in NEVER.findall(str(content)):
                self.failures.pop(status, None)

    def return_text(self, function, headers):
        """What RETURN VALUE says, as a list of sentences."""
        returned = list(self.returned)
        if function.returns == "void":
            return ["The function returns nothing."]
        if function.returns == "ferry_future *" and headers.rules_of(function.header):
            return returned or ["A future with one reference, which the caller releases with "
                                "ferry_future_release. Never NULL: what cannot begin gives a future "
                                "that has already failed."]
        if not returned:
            text = next(content for kind, content in function.blocks if kind == "text")
            returned = [sentences(text)[0]]
        if self.failures:
            returned.append("On failure one of the statuses under ERRORS.")
        return returned


def mentioned(function, known):
    """Names of functions and types that its comment and its parameters mention."""
    text = " ".join(str(content) for kind, content in function.blocks) + " ".join(function.types)
    names = set(re.findall(r"\bferry_[a-z_0-9]+\b", text)) | {s.name for s in function.sisters}
    return sorted(name for name in names if name in known and name != function.name)
