"""A question in words as a comparison: what it asks about, what it compares that with, and in which cases.

Names of policies, machines and networks are found as whole words, the longest first. Those behind "than", "versus",
"compared with", "instead of" and their like are what is compared with, whether or not the question names what it asks
about; names of another kind restrict the cases. A question that names something outside the study, or compares with
something unknown, is not understood.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pandas as pd

from dsascape.experiments.report.frames import names_in, policies_in
from dsascape.hw_models import preset_names
from dsascape.scheduler import policy_types
from dsascape.workloads import zoo_names

KINDS = ("policy", "hardware", "model")
"""Columns of the names that a question may compare."""
_POLAR = re.compile(r"^\W*(does|do|did|is|are|was|were|can|could|will|would|should|has|have)(n't)?(?= )")
_CONDITION = re.compile(r"\b(when|if|where|while|once|even|on|for|with|at|under|in|as)\b")
_MARK = "\N{SECTION SIGN}"
"""Stands before the number of a name in a question whose names have been replaced."""
_FILLER = (
    r"(?:(?:the|a|an|both|all|either|using|plain|policy|policies|machine|machines|network|networks|gpu|cpu|npu|that|of"
    r"|those|usual|default|which|is|kernels|from|under|with|on)\s+){0,3}"
)
_NAMES = rf"(?P<names>{_FILLER}{_MARK}\d+(?:\s*(?:,|\band\b|\bor\b|,\s*and\b|,\s*or\b)\s*{_FILLER}{_MARK}\d+)*)"
_STRONG = (
    r"than|versus|vs\.?|against|compared\s+(?:with|to)|in\s+comparison\s+(?:with|to)|relative\s+to|instead\s+of"
    r"|in\s+place\s+of|beats?|beating|outperform(?:s|ed|ing)?|outpaces?|surpass(?:es)?|as\s+(?:fast|quick)\s+as"
    r"|los(?:e|es|ing)\s+(?:to|against)|lost\s+(?:to|against)"
)
_COMPARED = re.compile(rf"\b(?P<word>{_STRONG}|over|behind|replac(?:e|es|ing)|from)\s+{_NAMES}")
_OPEN = re.compile(rf"\b(?:{_STRONG})(?=\s|$)")
_REPLACED = ("replace", "replaces", "replacing", "from")
"""Words before what is compared with, behind which the subject follows."""
_WEAK = ("over", "behind", *_REPLACED)
_OTHERS = re.compile(r"^\s*(?:(?:all|any|every|each|of|the)\s+)*(?:others?|everything|anything|all|rest|any)\b")
_NUMBER = re.compile(r"\s*[\d.]")
_BASELINE = re.compile(r"^\s*(?:the\s+|our\s+)?(?:baseline|default|reference)\b")
_LED = re.compile(
    r"^(?P<clause>(?:compared\s+(?:with|to)|in\s+comparison\s+(?:with|to)|relative\s+to|against|versus|instead\s+of"
    r"|on|for|under|with|at|in)\s[^,]+),\s*(?P<rest>.+)$"
)
_OWN = re.compile(r"\b(my|mine|our|ours|your|yours|this|that|it|its|they|these|new|custom|own)\b")
_ANY = re.compile(r"\b(any|some|another|other|anything|something|one)\b")
_TIME_BEFORE = re.compile(r"\b(years?|months?|weeks?|days?|hours?|while|long|time)\s+$")
_ON_CHIP = re.compile(r"\bon[- ]?chip\b")
_LEAST_FAMILY = 3
"""Letters that a network's family has at least, to be found by it."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A name in a question: of a policy with all its variants, of a family of networks, or of one thing."""

    kind: str
    names: tuple[str, ...]
    """Names in the study; empty for something known that is not in it."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question of yes or no: the names it compares, and the words left."""

    words: str
    """Its text, names replaced by numbers."""
    subject: str
    """The part before what is compared with and before the first condition."""
    kind: str = ""
    """Column of the compared names; empty where the subject is none."""
    asked: tuple[tuple[str, ...], ...] = ()
    """What the question is about: each of these stands with its fastest name."""
    against: tuple[str, ...] = ()
    """Compared with the fastest of these; empty: with all others."""
    only: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names to which the question restricts the cases, by column."""


def understood(question: str, points: pd.DataFrame) -> Question | None:
    """Return a question of yes or no as a comparison; None for another one, and where its names remain unclear."""
    text = " ".join(question.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").replace(_MARK, " ").split())
    text = _ON_CHIP.sub("onchip", text[: text.find("?")] if "?" in text else text)
    led = _LED.match(text)
    text, mentions = _marked(f"{led['rest']} {led['clause']}" if led else text, points)
    polar = _POLAR.match(text)
    if polar is None or not all(mention.names for mention in mentions):
        return None
    text = text[: polar.end()].replace("n't", "") + text[polar.end() :]
    compared = _compared(text, mentions)
    if compared is not None:
        objects = _numbers(compared["names"])
        kind = mentions[objects[0]].kind
        if len({mentions[number].kind for number in objects}) > 1 or _OPEN.search(text, compared.end()):
            return None
        against = tuple(dict.fromkeys(name for number in objects for name in mentions[number].names))
        before, behind = text[: compared.start()], text[compared.end() :]
        if compared["word"] in _REPLACED:
            before, behind = behind, before
        return _with_subject(text, before, behind, mentions, kind, against)
    opened = next((each for each in _OPEN.finditer(text) if not _NUMBER.match(text[each.end() :])), None)
    if opened is not None:
        before, behind = text[: opened.start()], text[opened.end() :]
        if _BASELINE.match(behind):
            return _with_subject(text, before, behind, mentions, "policy", policies_in(points)[:1])
        if behind.strip() and not _OTHERS.match(behind):
            return None
    else:
        condition = _CONDITION.search(text, polar.end())
        at = condition.start() if condition else len(text)
        before, behind = text[:at], text[at:]
    first = next((mentions[number].kind for number in _numbers(before)), "")
    return _with_subject(text, before, behind, mentions, first, ())


def of_own(question: Question, points: pd.DataFrame) -> tuple[tuple[str, ...], ...]:
    """Return what a question compares that names only what it compares with: "my policy", "it", "any policy".

    That is the only other name, or the only one that does not come along; of any, all others. Empty if unclear.
    """
    others = [name for name in names_in(points, question.kind) if name not in question.against]
    if _ANY.search(question.subject):
        return (tuple(others),) if others else ()
    if not _OWN.search(question.subject):
        return ()
    known = {"policy": policy_types, "hardware": preset_names, "model": zoo_names}[question.kind]()
    foreign = [name for name in others if name.partition("(")[0] not in known]
    chosen = others if len(others) == 1 else foreign
    return (tuple(chosen),) if len(chosen) == 1 else ()


def _compared(text: str, mentions: Sequence[Mention]) -> re.Match[str] | None:
    """Return the part of a question that says what is compared with, if names do.

    "over" and its like count only before names of the kind of the first one.
    """
    kinds = [mention.kind for mention in mentions]
    for found in _COMPARED.finditer(text):
        if found["word"] not in _WEAK or kinds[_numbers(found["names"])[0]] == kinds[0]:
            return found
    return None


def _with_subject(
    text: str, before: str, behind: str, mentions: Sequence[Mention], kind: str, against: tuple[str, ...]
) -> Question | None:
    """Return the question with its subject from the part ``before`` what is compared with; None where it is unclear."""
    own = [number for number in _numbers(before) if mentions[number].kind == kind]
    if any(mentions[number].kind == kind for number in _numbers(behind)):
        return None
    if own[1:] and not re.search(_joined(own), before):
        return None
    only: dict[str, tuple[str, ...]] = {}
    for part in (before, behind):
        for number in _numbers(part):
            other = mentions[number]
            if other.kind != kind and only.setdefault(other.kind, other.names) != other.names:
                return None
    condition = _CONDITION.search(before, len(before) - len(before.lstrip()))
    subject = before[: condition.start()] if condition else before
    asked = tuple(dict.fromkeys(mentions[number].names for number in own))
    if {name for names in asked for name in names} & set(against):
        return None
    return Question(text, subject, kind, asked, against, only)


def _joined(numbers: Sequence[int]) -> str:
    """Return the pattern of names in a list that ends with "and"."""
    marks = [f"{_MARK}{number}" for number in numbers]
    return rf"\s*(?:,|\band\b|,\s*and\b)\s*{_FILLER}".join(marks)


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(rf"{_MARK}(\d+)", text)]


def _marked(text: str, points: pd.DataFrame) -> tuple[str, list[Mention]]:
    """Return the question with numbers in place of names, and what each number stands for, in order of the text."""
    known: dict[str, Mention] = {}
    for name, mention in _known(points):
        if name not in known or not known[name].names:
            known[name] = mention
    places: dict[int, tuple[int, Mention]] = {}
    rest = text
    for name in sorted(known, key=len, reverse=True):
        for place in re.finditer(_pattern(name), rest):
            if name != "ago" or not _TIME_BEFORE.search(text[: place.start()]):
                places[place.start()] = place.end(), known[name]
                rest = rest[: place.start()] + "\0" * len(place[0]) + rest[place.end() :]
    mentions: list[Mention] = []
    told, end = "", 0
    for start in sorted(places):
        told += f"{text[end:start]}{_MARK}{len(mentions)}"
        end = places[start][0]
        mentions.append(places[start][1])
    variants = {each.names[0] for each in mentions if len(each.names) == 1 and "(" in each.names[0]}
    bare = [replace(each, names=tuple(name for name in each.names if name not in variants)) for each in mentions]
    return told + text[end:], [own if own.names else each for own, each in zip(bare, mentions, strict=True)]


def _known(points: pd.DataFrame) -> Iterator[tuple[str, Mention]]:
    """Yield names in lower case with what they stand for: those of the study first, then others that come along."""
    for kind in KINDS:
        for name in names_in(points, kind):
            yield name.lower(), Mention(kind, (name,))
    labels = names_in(points, "policy")
    for base in dict.fromkeys(label.partition("(")[0] for label in labels):
        yield base.lower(), Mention("policy", tuple(label for label in labels if label.partition("(")[0] == base))
    networks = names_in(points, "model")
    for family in dict.fromkeys(map(_family, networks)):
        if len(family) >= _LEAST_FAMILY:
            yield family, Mention("model", tuple(name for name in networks if _family(name) == family))
    for kind, names in zip(KINDS, (tuple(policy_types()), preset_names(), zoo_names()), strict=True):
        for name in names:
            own = [each for each in networks if each.startswith(f"{name}-")] if kind == "model" else []
            yield name, Mention(kind, tuple(own))


def _family(network: str) -> str:
    letters = re.match(r"[^\W\d_]+", network.lower())
    return letters[0] if letters else ""


def _pattern(name: str) -> str:
    """Return the pattern of a name as a whole word: hyphens may be spaces or missing, brackets may have spaces."""
    told = ""
    for part in re.findall(r"[-_ ]+|[(),=]|\d+|[^-_ (),=\d]+", name):
        if part[0] in "-_ ":
            told += "[-_ ]?"
        elif part in "(),=":
            told += rf"\s*{re.escape(part)}\s*" if part != ")" else rf"\s*{re.escape(part)}"
        else:
            hyphen = "[- ]?" if re.search(r"[^\W\d_]{3}$", told) else "-?" if re.search(r"\w$", told) else ""
            told += f"{hyphen}{re.escape(part)}"
    return rf"(?<![\w-]){told}(?![\w-])"
