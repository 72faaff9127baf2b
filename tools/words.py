"""Words that this project doesn't use, found in its docs, templates, docstrings, comments and messages.

`python tools/words.py` lists them; `--check` fails where a file has more than `tools/words_pending.txt` grants it, and
`--keep` lowers that list, or moves its entries after files were renamed; it never raises the total. `--count` prints
how many words of prose the docs have, without code, tables and generated parts.

To add a phrase, add a line to `BANNED`; to excuse one, add a line to `EXCEPTIONS`.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PENDING = Path(__file__).with_name("words_pending.txt")

COMPOUNDS = (
    "server|system|program|reader|filter|client|folder|gateway|administrator|agent|box|service|parser|pool|corpus|suite"
    "|header|address|list|kernel|exchanger|domain|thread|format|field"
)
"""What may follow "a mail"."""

BANNED = {
    r"anew": "again, or leave it out",
    r"seldom": "rarely, less often",
    r"take note|takes note": "record, mark",
    r"noted": "recorded",
    r"told": "labelled, reported, notified, distinguished",
    r"said": "the noun: verdict, label, default",
    r"unless said otherwise": "by default",
    r"goes|going on": "passes, continues",
    r"standing": "base, current",
    r"stands? (?:up)?on": "is based on, has ... as its base",
    r"lacks|lacking": "is missing, has no",
    r"lets? go(?: of)?": "release, drop",
    r"others": "the noun: the other classes, the remaining files",
    r"own lessons?": "the person's lessons, the layer's lessons",
    r"of which|whichever": "the noun, or two sentences",
    r"nobody named|nobody has (?:told|said)": "unknown, unlabelled",
    r"rooms|doors?|deeds?|faces?|lean": "packages, listeners, actions, the noun",
    r"lives?|lived": "is in, is stored in",
    r"take care|take heed": "maintain, check",
    r"dear(?:er|est)": "more expensive, most expensive",
    r"by the clock": "elapsed, wall-clock",
    r"persons": "people, users",
    r"mails": "messages",
    rf"(?:a|one|each|every|another|per|this|that|no|half a) mail(?! (?:{COMPOUNDS})s?\b)": "message",
    r"truths": "correct labels",
    r"what (?:it|they|he|she) (?:says?|holds?|tells?|is|are|knows?) (?:of|about)": "the noun",
    r"[Ww]hat (?:an?|the|every|each) \w+ (?:says|sees|knows|holds)": "the noun",
    r"all the same": "still, nevertheless",
    r"can't come back": "cannot be undone",
    r"heard of again|heard again": "alarms resume",
    r"(?:return|print|yield|measure)s? what": "the noun",
    r"an? \w+ of (?:its|their) own": "a separate ...",
    r"(?:that|which) tells? most": "the most informative",
    r"speaks? (?:for|against|of|TLS)|spoken": "evidence for, mentions, uses TLS",
    r"hears?|deaf": "receives, the noun",
    r"voices?": "weight, coverage, influence",
    r"stays? as (?:they are|it is)": "remains unchanged",
    r"steers?": "controls",
    r"or the like": "or similar",
    r"one after the other": "one by one, in sequence",
    r"(?:isn't|aren't|is not|are not) there": "is missing",
    r"mend(?:s|ed|ing)?": "repair, fix",
    r"meanwhile": "in the meantime, since, concurrently",
    r"commonest|likelier|unheard-of": "most common, more likely, unknown",
    r"foreign (?:pages?|forms?|files?|sites?)": "of another site, from elsewhere",
    r"those (?:that|who)": "the noun",
    r"beside (?:ours|theirs|it|them|that of|those)": "next to, and",
    r"(?:read|checked|written|comes? out) whole": "in full",
    r"whole numbers?": "integer, integers",
    r"from which on": "the minimum",
    r"order of time": "chronological order",
    r"held-out ones": "held-out documents, messages, rows",
    r"hearken|thereof|thereby|wherein|whereof|hereby": "plain words",
}
"""Pattern of whole words, and the advice that a finding prints."""

EXCEPTIONS: set[tuple[str, str]] = {
    ("src/surebayes/mail/html.py", "face"),  # an attribute of HTML
    ("src/surebayes/kernels/mail/html.h", "face"),
    ("tools/newcomer.py", "mails"),  # a script in a string
    ("src/surebayes/filter/verdicts/listing.py", "told"),  # a column of the database, and a JSON key
}
"""Beginning of a path, and the words that it may keep, in lower case."""
SQL = re.compile(r"\b(?:SELECT|UPDATE|INSERT|DELETE|CREATE|AND|WHERE)\b")
PARAMETER = re.compile(r"^ +\w[\w, ]* : ")
"""The first line of a parameter in a docstring, such as "mails : int"."""

MODULE_OPENING = re.compile(r"(?:What|How|Which|Whether|Where|When|Why|Who)\b")
PATTERN = re.compile("|".join(rf"(?P<b{i}>\b(?:{pattern})\b)" for i, pattern in enumerate(BANNED)), re.IGNORECASE)
ADVICE = list(BANNED.values())

SKIPPED = ("docs/reproduction/", "tests/", "fuzz/regressions/")
"""Beginnings of paths that are not read: results of experiments in the words of the papers, tests."""

FENCE = re.compile(r"^\s*(```|~~~)")
GENERATED = re.compile(r"<!-- \[\[\[cog.*?\]\]\] -->.*?<!-- \[\[\[end\]\]\] -->", re.DOTALL)
MARKUP = re.compile(r"\{[{%#].*?[#%}]\}|<(?:script|style).*?</(?:script|style)>|<[^>]*>", re.DOTALL)
C_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
CODE = re.compile(r"`[^`\n]*`|\]\([^)\n]*\)|(?<![\w-])--\w[\w-]*")
EXPRESSION = re.compile(r"\{[^{}\n]*\}")


class Passage(NamedTuple):
    """Text for people in a file, and the line where it begins."""

    line: int
    text: str


class Finding(NamedTuple):
    """A word that isn't used here."""

    path: str
    line: int
    words: str
    advice: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.words!r}: {self.advice}"


def files() -> list[Path]:
    """Return every file that is read: docs, templates, sources, tools and examples."""
    found = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "ARCHITECTURE.md")]
    found += [*ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md"), *ROOT.glob("changes/*.md")]
    found += [*ROOT.glob("examples/**/*.py"), *ROOT.glob("tools/*.py"), *ROOT.glob("benchmarks/**/*.py")]
    found += [path for kind in ("py", "html", "c", "h") for path in ROOT.glob(f"src/surebayes/**/*.{kind}")]
    names = {path: path.relative_to(ROOT).as_posix() for path in found if path.is_file()}
    mine = {"tools/words.py", "src/surebayes/_version.py"}
    return sorted(path for path, name in names.items() if name not in mine and not name.startswith(SKIPPED))


def passages(path: Path) -> Iterator[Passage]:
    """Return the text of a file that people read: no code, no names, no markup."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield from enumerated(_blanked(CODE, prose(_blanked(GENERATED, text))))
    elif path.suffix == ".html":
        yield from enumerated(_blanked(MARKUP, text))
    elif path.suffix in {".c", ".h"}:
        for match in C_COMMENT.finditer(text):
            yield Passage(text.count("\n", 0, match.start()) + 1, match[0])
    else:
        yield from _of_python(text)


def prose(markdown: str) -> str:
    r"""Blank out the fenced blocks of a page; lines keep their numbers.

    Examples
    --------
    >>> prose("one\n```\nsaid\n```\ntwo").split()
    ['one', 'two']
    """
    lines, inside = [], False
    for line in markdown.split("\n"):
        fence = FENCE.match(line) is not None
        lines.append("" if inside or fence else line)
        inside ^= fence
    return "\n".join(lines)


def enumerated(text: str) -> Iterator[Passage]:
    """Return the lines that aren't empty."""
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield Passage(number, line)


def _blanked(pattern: re.Pattern[str], text: str) -> str:
    """Replace matches by as many line ends as they have."""
    return pattern.sub(lambda match: " " + "\n" * match[0].count("\n"), text)


def _of_python(text: str) -> Iterator[Passage]:
    """Return comments, docstrings, and strings of several words."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, IndentationError, SyntaxError):  # an edit that isn't finished
        return
    for token in tokens:
        if token.type == tokenize.COMMENT:
            yield Passage(token.start[0], token.string)
        elif token.type in STRINGS and re.search(r"\S\s\S", token.string) and not SQL.search(token.string):
            is_format = "f" in token.string[: token.string.index(token.string[-1])].lower()
            text_only = CODE.sub(" ", EXPRESSION.sub(" ", token.string) if is_format else token.string)
            for offset, line in enumerate(text_only.split("\n")):
                if not line.lstrip().startswith((">>>", "...")) and not PARAMETER.match(line):
                    yield Passage(token.start[0] + offset, line)


STRINGS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}


def findings(path: Path, name: str) -> list[Finding]:
    """Return the banned words of a file.

    Examples
    --------
    >>> findings(PENDING, "x") == []
    True
    """
    found = [
        Finding(name, passage.line, match[0], ADVICE[int(str(match.lastgroup)[1:])])
        for passage in passages(path)
        for match in PATTERN.finditer(passage.text)
        if not any(name.startswith(start) and match[0].lower() == words for start, words in EXCEPTIONS)
    ]
    if path.suffix == ".py":
        about = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        if opening := MODULE_OPENING.match(about):
            found.append(Finding(name, 1, opening[0] + " ...", "open with a noun phrase or a verb"))
    return found


def everything() -> list[Finding]:
    """Return the findings of all files."""
    return [finding for path in files() for finding in findings(path, path.relative_to(ROOT).as_posix())]


def granted() -> Counter[str]:
    """Return how many findings each file that isn't clean yet may have."""
    lines = PENDING.read_text(encoding="utf-8").splitlines() if PENDING.exists() else []
    counts: Counter[str] = Counter()
    for line in lines:
        if line[:1].isdigit():  # a merge leaves two lines for a file that two branches changed
            count, name = line.split(" ", 1)
            counts[name] = max(counts[name], int(count))
    return counts


def excess(found: Iterable[Finding], may: Counter[str]) -> list[Finding]:
    """Return the findings of every file that has more of them than it may."""
    listed = list(found)
    counts = Counter(finding.path for finding in listed)
    return [finding for finding in listed if counts[finding.path] > may[finding.path]]


def keep(found: Iterable[Finding]) -> int:
    """Write the counts of today; return 1, and write nothing, where their sum grew."""
    counts = Counter(finding.path for finding in found)
    if PENDING.exists() and counts.total() > granted().total():
        print(
            f"{counts.total()} findings, {granted().total()} are granted: the list only gets shorter", file=sys.stderr
        )
        return 1
    head = "# Files with words that aren't used here, and how many: `python tools/words.py --keep` lowers this list.\n"
    PENDING.write_text(head + "".join(f"{count} {name}\n" for name, count in sorted(counts.items())), encoding="utf-8")
    return 0


def word_count() -> Counter[str]:
    """Return how many words of prose each page has: no code, tables, generated parts or results."""
    counts: Counter[str] = Counter()
    for path in sorted(ROOT.glob("docs/**/*.md")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(SKIPPED):
            lines = prose(GENERATED.sub("", path.read_text(encoding="utf-8"))).split("\n")
            counts[name] = sum(len(line.split()) for line in lines if not line.startswith("|"))
    return counts


def main() -> int:
    """List what was found, check it, keep it, or count words."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="fail where a file has more than it may")
    what.add_argument("--keep", action="store_true", help="lower the list of what each file may have")
    what.add_argument("--count", action="store_true", help="count the words of the docs")
    parser.add_argument("path", nargs="*", help="only files whose path begins so")
    arguments = parser.parse_args()
    if arguments.count:
        counts = word_count()
        for name, count in counts.most_common():
            print(f"{count:7,}  {name}")
        print(f"{counts.total():7,}")
        return 0
    found = everything()
    if arguments.keep:
        return keep(found)
    shown = excess(found, granted()) if arguments.check else found
    for finding in shown:
        if not arguments.path or finding.path.startswith(tuple(arguments.path)):
            print(finding)
    return 1 if arguments.check and shown else 0


if __name__ == "__main__":
    sys.exit(main())
