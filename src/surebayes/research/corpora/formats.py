"""Readers of the publishers' formats and of Parquet files, which return records in chronological order.

Readers raise `MalformedCorpus` with the file and the line of the error.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from surebayes.datasets.sources import Source
from surebayes.datasets.tables import TABLES
from surebayes.errors import BadInput, MalformedCorpus


class Item(NamedTuple):
    """A document with its publisher's metadata."""

    id: str
    document: str | bytes
    label: str | tuple[str, ...]
    split: str | None = None
    fold: int | None = None
    extra: Mapping[str, Any] = {}


class Layout(NamedTuple):
    """A publisher's format: file patterns in its folder, the reader, and whether the patterns identify the format."""

    markers: tuple[str, ...]
    read: Callable[[Path], list[Item]]
    distinctive: bool = True


def _text(path: Path) -> str:
    raw = path.read_bytes()
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _number(name: str) -> tuple[int, str]:
    digits = re.match(r"\d+", name)
    return (int(digits.group()) if digits else -1, name)


def _files(folder: Path) -> list[Path]:
    """Return the documents of a folder, with numeric names in numeric order."""
    documents = (
        path for path in folder.iterdir() if path.is_file() and not path.name.startswith(".") and path.name != "cmds"
    )
    return sorted(documents, key=lambda path: _number(path.name))


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def _some(records: list[Item], path: Path, what: str) -> list[Item]:
    if not records:
        raise MalformedCorpus(f"{path} has no documents. Expected {what}.")
    return records


# Dates of messages and articles ------------------------------------------------------------------------------------


def _epoch(date: str) -> int | None:
    from email.utils import mktime_tz, parsedate_tz

    try:
        parsed = parsedate_tz(date)
        return None if parsed is None else int(mktime_tz(parsed))
    except (ValueError, OverflowError, IndexError, TypeError):
        return None


def head_and_body(raw: bytes) -> tuple[bytes, bytes]:
    """Split a message or an article at its first blank line."""
    blank_line = re.search(rb"\r?\n\r?\n", raw)
    return (raw[: blank_line.start()], raw[blank_line.end() :]) if blank_line else (raw, b"")


def header(head: bytes, name: str) -> str | None:
    """Return the first header field with a name, unfolded; None if there is none."""
    field = re.search(rb"(?im)^" + name.encode("ascii") + rb":((?:.*)(?:\r?\n[ \t].*)*)", head)
    return None if field is None else " ".join(field.group(1).decode("latin-1").split())


def received(raw: bytes) -> int | None:
    """Return the time in the topmost Received field, else in Date, in seconds since 1970; None without either."""
    head = head_and_body(raw)[0]
    for name in ("Received", "Date"):
        value = header(head, name)
        time = None if value is None else _epoch(value.rpartition(";")[2].strip())
        if time is not None:
            return time
    return None


def _by_time(records: Iterable[Item], key: str) -> list[Item]:
    """Sort by a time in ``extra``, missing times last; ties keep their order."""
    return sorted(records, key=lambda r: (r.extra[key] is None, r.extra[key] or 0))


# Folders -------------------------------------------------------------------------------------------------------------


def read_newsgroups(folder: Path, split: str | None = None) -> list[Item]:
    """Read newsgroups, with one folder per group and one file per article, in the order of their Date fields."""
    records = []
    for group in _folders(folder):
        for path in _files(group):
            raw = path.read_bytes()
            time = _epoch(header(head_and_body(raw)[0], "Date") or "")
            records.append(Item(f"{group.name}/{path.name}", raw, group.name, split, extra={"time": time}))
    records.sort(key=lambda r: r.id)
    return _some(_by_time(records, "time"), folder, "a folder for each newsgroup")


def _read_bydate(folder: Path) -> list[Item]:
    both = read_newsgroups(folder / "20news-bydate-train", "train")
    return _by_time(both + read_newsgroups(folder / "20news-bydate-test", "test"), "time")


def _read_webkb(folder: Path) -> list[Item]:
    """Read pages from class/university/page, where file names are URLs."""
    records = [
        Item(f"{kind.name}/{place.name}/{page.name}", page.read_bytes(), kind.name, extra={"university": place.name})
        for kind in _folders(folder)
        for place in _folders(kind)
        for page in _files(place)
    ]
    return _some(records, folder, "class/university/page")


def _read_tree(folder: Path) -> list[Item]:
    """Read a tree of folders in which each folder that holds files is a class."""
    records = []
    for place in sorted(path for path in folder.rglob("*") if path.is_dir()):
        label = place.relative_to(folder).as_posix()
        records += [Item(f"{label}/{path.name}", path.read_bytes(), label) for path in _files(place)]
    return _some(records, folder, "a folder for each class")


def _read_reviews(folder: Path) -> list[Item]:
    """Read files cvNNN_*.txt in neg and pos; the first digit of NNN is the publisher's fold."""
    top = folder / "txt_sentoken" if (folder / "txt_sentoken").is_dir() else folder
    records = []
    for label in ("neg", "pos"):
        for path in _files(top / label):
            numbered = re.match(r"cv(\d)\d\d_", path.name)
            if not numbered:
                raise MalformedCorpus(
                    f"{path}: a review's name must start with cv, three digits and _, for example cv000_29416.txt."
                )
            records.append(Item(f"{label}/{path.stem}", _text(path), label, fold=int(numbered.group(1))))
    records.sort(key=lambda r: r.id.partition("/")[2][:5])  # cv000 of both classes, then cv001, ...
    return _some(records, top, "neg and pos")


def _read_spamassassin(folder: Path) -> list[Item]:
    """Read the messages of all folders with "ham" or "spam" in their names, in the order of arrival."""
    records = []
    for place in _folders(folder):
        label = "ham" if "ham" in place.name else "spam" if "spam" in place.name else None
        if label:
            for path in _files(place):
                raw = path.read_bytes()
                extra = {"received": received(raw)}
                records.append(Item(f"{place.name}/{path.name}", raw, label, extra=extra))
    return _some(_by_time(records, "received"), folder, "easy_ham, easy_ham_2, hard_ham, spam, spam_2")


def _read_enron(folder: Path) -> list[Item]:
    """Read enron1 to enron6 in the order of the numbers in file names, which are common to ham and spam."""
    records = []
    for place in _folders(folder):
        part = re.fullmatch(r"enron(\d+)", place.name)
        if part:
            mails = []
            for label in ("ham", "spam"):
                if not (place / label).is_dir():
                    raise MalformedCorpus(f"{place} has no folder {label!r}; each part has ham and spam.")
                for path in _files(place / label):
                    extra = {"part": int(part.group(1))}
                    record = Item(f"{place.name}/{label}/{path.name}", path.read_bytes(), label, extra=extra)
                    mails.append((_number(path.name)[0], record))
            records += [record for _, record in sorted(mails, key=lambda pair: (pair[0], pair[1].id))]
    return _some(records, folder, "enron1 to enron6")


def _read_lingspam(folder: Path) -> list[Item]:
    """Read bare/part1 to part10, where spmsg* files are spam; the texts in lemm_stop, if any, become an extra."""
    top = folder / "lingspam_public" if (folder / "lingspam_public").is_dir() else folder
    records = []
    for place in sorted(_folders(top / "bare"), key=lambda path: _number(path.name.removeprefix("part"))):
        part = re.fullmatch(r"part(\d+)", place.name)
        if part:
            for path in sorted(place.glob("*.txt")):
                other = top / "lemm_stop" / place.name / path.name
                extra = {"text_lemm_stop": _text(other) if other.is_file() else None}
                label = "spam" if path.name.startswith("spmsg") else "ham"
                records.append(Item(f"{place.name}/{path.name}", _text(path), label, None, int(part.group(1)), extra))
    return _some(records, top / "bare", "part1 to part10")


# Single files --------------------------------------------------------------------------------------------------------


def read_trec(index: Path) -> list[Item]:
    """Read a TREC index (lines such as ``spam ../data/000/000``) and its message files, in the order of the index."""
    records = []
    for number, line in enumerate(_text(index).splitlines(), 1):
        fields = line.split()
        if not fields:
            continue
        if len(fields) != 2 or fields[0].lower() not in ("ham", "spam"):
            raise MalformedCorpus(f"{index}, line {number}: expected 'ham PATH' or 'spam PATH', got {line!r}.")
        path = index.parent / fields[1]
        if not path.is_file():
            raise MalformedCorpus(f"{index}, line {number}: there is no message file {path}.")
        records.append(Item(fields[1], path.read_bytes(), fields[0].lower()))
    return _some(records, index, "lines 'ham PATH' or 'spam PATH'")


def _read_sms(path: Path) -> list[Item]:
    """Read lines of label, TAB and text."""
    if path.is_dir():
        path = path / "SMSSpamCollection"
    records = []
    for number, line in enumerate(_text(path).split("\n"), 1):
        label, tab, text = line.rstrip("\r").partition("\t")
        if not line.strip():
            continue
        if not tab or label not in ("ham", "spam"):
            raise MalformedCorpus(f"{path}, line {number}: expected 'ham', TAB, text (or 'spam'), got {line[:60]!r}.")
        records.append(Item(f"sms.{number}", text, label))
    return _some(records, path, "lines of label, TAB, text")


def _read_ynat(folder: Path) -> list[Item]:
    path = folder / "ynat-v1.1_train.json"
    try:
        rows = json.loads(_text(path))
        records = [Item(row["guid"], row["title"], row["label"], "train") for row in rows]
    except (ValueError, KeyError, TypeError) as error:
        raise MalformedCorpus(f"{path} is not a JSON list of objects with guid, title and label: {error!r}.") from error
    return _some(records, path, "headlines")


def _tf_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the label and the ``term:count`` pairs of each line of a .tf file (1 is spam, -1 is ham)."""
    names = {"1": "spam", "+1": "spam", "-1": "ham"}
    for number, line in enumerate(_text(path).splitlines(), 1):
        label, _, rest = line.strip().partition(" ")
        if not label:
            continue
        if label not in names:
            hint = " (0 is unlabelled: the labelled inboxes end in _lab.tf)" if label == "0" else ""
            raise MalformedCorpus(f"{path}, line {number}: the class must be 1 or -1, got {label!r}{hint}.")
        pairs = rest.split()
        bad = next((pair for pair in pairs if not re.fullmatch(r"\d+:\d+", pair)), None)
        if bad is not None:
            raise MalformedCorpus(f"{path}, line {number}: expected word:count in integers, got {bad!r}.")
        yield names[label], " ".join(pairs)


def ecml_place(task: str, part: str) -> tuple[str, int | None] | None:
    """Return the split and the inbox of a file of the challenge; None if it belongs to another task."""
    letter, tune = task[5], task.endswith("_tune")
    if part == f"task_{letter}_labeled_{'tune' if tune else 'train'}":
        return "train", None
    inbox = re.fullmatch(rf"task_{letter}_u(\d\d)_{'tune' if tune else 'eval_lab'}", part)
    return ("test", int(inbox.group(1))) if inbox else None


def _ecml_reader(task: str) -> Callable[[Path], list[Item]]:
    def read(folder: Path) -> list[Item]:
        records = []
        for path in sorted([*folder.glob("*.tf"), *folder.glob("*/*.tf")]):
            place = ecml_place(task, path.stem)
            if place:
                for number, (label, text) in enumerate(_tf_lines(path), 1):
                    records.append(Item(f"{path.stem}/{number}", text, label, *place, {"part": path.stem}))
        records.sort(key=lambda r: (r.split != "train", r.fold or 0))
        return _some(records, folder, f"files task_{task[5]}_*.tf")

    return read


# Tables with files for each split ------------------------------------------------------------------------------------

TOXIC = 0.5
"""Minimum share of annotators at which a comment of Civil Comments counts as toxic."""


def _injection(label: str) -> str | None:
    return {"0": "legitimate", "1": "injection"}.get(label)


def _toxicity(label: str) -> str | None:
    try:
        share = float(label)
    except ValueError:
        return None
    return None if not 0 <= share <= 1 else "toxic" if share >= TOXIC else "other"


def _table_reader(label: str, name_of: Callable[[str], str | None], expected: str) -> Callable[[Path], list[Item]]:
    """Return a reader of Parquet, CSV or JSON files train*, validation* and test*, in the folder or its ``data``.

    Parameters
    ----------
    label : str
        The column of labels; the column of texts is ``text``.
    name_of : callable
        A function that returns the class of a label, or None for an invalid label.
    expected : str
        Description of valid labels, for the error message.
    """

    def read(folder: Path) -> list[Item]:
        records: list[Item] = []
        for split in ("train", "validation", "test"):
            for path in _tables_of(folder, split):
                try:
                    for row in Source(path, label_column=label):
                        named = name_of(str(row.label))
                        if named is None:
                            raise MalformedCorpus(f"{row.name}: {label} must be {expected}. Got {row.label!r}.")
                        records.append(Item(f"{split}/{len(records)}", str(row.content), named, split))
                except BadInput as error:
                    raise MalformedCorpus(str(error)) from error
        return _some(records, folder, "tables train*, validation*, test*")

    return read


def _tables_of(folder: Path, split: str) -> list[Path]:
    """Return the files of a split, sorted by name and all of one format; files in ``data`` take precedence."""
    for place in (folder / "data", folder):
        for format in TABLES.values():
            found = {path for end in format.suffixes for path in place.glob(f"{split}*{end}*") if path.is_file()}
            if found:
                return sorted(found)
    return []


# Reuters SGML --------------------------------------------------------------------------------------------------------

_CONTROL = {code: None for code in range(32) if chr(code) not in "\n\t"}


def _between(text: str, tag: str) -> str | None:
    start = text.find(f"<{tag}>")
    end = text.find(f"</{tag}>", start) if start >= 0 else -1
    return text[start + len(tag) + 2 : end] if end >= 0 else None


def _clean(text: str | None) -> str | None:
    return None if text is None else html.unescape(text.replace("&#3;", "").replace("&#2;", "")).translate(_CONTROL)


def _listed(story: str, tag: str) -> list[str]:
    return [html.unescape(item) for item in re.findall(r"<D>([^<]*)</D>", _between(story, tag) or "")]


def _split(attributes: Mapping[str, str]) -> str:
    """Return the ModApte split of a story: LEWISSPLIT if TOPICS is "YES", else "unused"."""
    used = {"TRAIN": "train", "TEST": "test"} if attributes["TOPICS"] == "YES" else {}
    return used.get(attributes["LEWISSPLIT"], "unused")


def _story(story: str, where: str) -> Item:
    attributes = dict(re.findall(r'(\w+)="([^"]*)"', story[: story.find(">")]))
    missing = [name for name in ("TOPICS", "LEWISSPLIT", "NEWID") if name not in attributes]
    if missing:
        raise MalformedCorpus(f"{where}: the <REUTERS> tag has no {' and no '.join(missing)}.")
    opening = re.search(r"<TEXT(?: TYPE=\"(\w+)\")?>", story)
    if opening is None or "</TEXT>" not in story:
        raise MalformedCorpus(f"{where}: story {attributes['NEWID']} has no <TEXT> ... </TEXT>.")
    inner = story[opening.end() : story.rfind("</TEXT>")]
    title, body = _clean(_between(inner, "TITLE")), _clean(_between(inner, "BODY"))
    if title is None and body is None:  # TYPE="UNPROC": text without any tags
        body = _clean(inner)
    text = "\n".join(part for part in (title, body) if part is not None)
    topics = _listed(story, "TOPICS")
    extra = {
        **{"title": title, "body": body, "topics": topics, "lewissplit": attributes["LEWISSPLIT"]},
        **{"text_type": opening.group(1) or "NORM", "date": (_between(story, "DATE") or "").strip()},
    }
    return Item(attributes["NEWID"], text, tuple(dict.fromkeys(topics)), _split(attributes), extra=extra)


def read_reuters(folder: Path) -> list[Item]:
    """Read all stories of reut2-*.sgm in the order of their NEWID, which is chronological."""
    records = []
    for path in sorted(folder.glob("reut2-*.sgm")):
        text, place, line = path.read_bytes().decode("latin-1").replace("\r\n", "\n"), 0, 1
        while (start := text.find("<REUTERS", place)) >= 0:
            end = text.find("</REUTERS>", start)
            following = text.find("<REUTERS", start + 8)
            line += text.count("\n", place, start)
            where = f"{path}, line {line}"
            if end < 0 or 0 <= following < end:
                raise MalformedCorpus(f"{where}: a <REUTERS> story without its </REUTERS>.")
            records.append(_story(text[start:end], where))
            place = start + 1
    records.sort(key=lambda r: _number(r.id))
    return _some(records, folder, "reut2-000.sgm to reut2-021.sgm")


LAYOUTS: Mapping[str, Layout] = {
    "reuters": Layout(("reut2-*.sgm",), read_reuters),
    "newsgroups": Layout(("sci.space",), read_newsgroups),
    "newsgroups_bydate": Layout(("20news-bydate-train",), _read_bydate),
    "sraa": Layout(("*sim*",), read_newsgroups, distinctive=False),
    "webkb": Layout(("course/*",), _read_webkb),
    "tree": Layout(("*/*",), _read_tree, distinctive=False),
    "reviews": Layout(("txt_sentoken/pos", "pos"), _read_reviews),
    "spamassassin": Layout(("*_ham*",), _read_spamassassin),
    "enron": Layout(("enron[0-9]*",), _read_enron),
    "lingspam": Layout(("bare/part*", "lingspam_public/bare/part*"), _read_lingspam),
    "sms": Layout(("SMSSpamCollection",), _read_sms),
    "ynat": Layout(("ynat-v1.1_train.json",), _read_ynat),
    "prompt_injections": Layout(
        ("data/train*", "train*"), _table_reader("label", _injection, "0 or 1"), distinctive=False
    ),
    "civil_comments": Layout(
        ("data/train*", "train*"), _table_reader("toxicity", _toxicity, "a share from 0 to 1"), distinctive=False
    ),
    "trec": Layout(("full/index",), lambda folder: read_trec(folder / "full" / "index")),
    **{
        f"ecml_{task}": Layout((f"task_{task[0]}_*.tf", f"*/task_{task[0]}_*.tf"), _ecml_reader(f"ecml_{task}"))
        for task in ("a", "a_tune", "b", "b_tune")
    },
}


# Parquet -------------------------------------------------------------------------------------------------------------


def read_parquet(path: Path, fold: str = "fold", task: str | None = None) -> list[Item]:
    """Read a Parquet file with columns for the document (raw or text), its label or labels, and further fields.

    If every list of labels has one item, the labels become plain strings.
    """
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise ImportError(
            f"Reading {path} needs pyarrow: install the extra with `pip install 'surebayes[corpora]'`, or unpack the "
            "corpus in its publisher's format next to it."
        ) from error
    try:
        columns = parquet.read_table(path).to_pydict()
    except (OSError, ValueError) as error:
        raise MalformedCorpus(f"{path} can't be read as Parquet: {error}") from error
    document = next((name for name in ("raw", "text") if name in columns), None)
    label = next((name for name in ("labels", "label") if name in columns), None)
    missing = [name for name, column in (("raw or text", document), ("labels or label", label)) if column is None]
    missing += [name for name in ("id", "order") if name not in columns]
    if document is None or label is None or missing:
        raise MalformedCorpus(f"{path} has no column {', no column '.join(missing)}; it has {', '.join(columns)}.")
    labels = columns[label]
    if label == "labels":
        single = all(len(names) == 1 for names in labels)
        labels = [names[0] if single else tuple(names) for names in labels]
    known = {document, label, "id", "order", "split", fold}
    others = [name for name in columns if name not in known]
    folds, records = columns.get(fold), []
    for row in sorted(range(len(labels)), key=columns["order"].__getitem__):
        extra = {name: columns[name][row] for name in others}
        split = columns["split"][row] if "split" in columns else None
        place = folds[row] if folds else None
        records.append(Item(columns["id"][row], columns[document][row], labels[row], split, place, extra))
    return _ecml_part(records, task, path) if task else records


def _ecml_part(records: list[Item], task: str, path: Path) -> list[Item]:
    chosen = []
    for record in records:
        place = ecml_place(task, record.extra["part"])
        if place:
            chosen.append(record._replace(split=place[0], fold=place[1]))
    chosen.sort(key=lambda r: (r.split != "train", r.fold or 0))
    return _some(chosen, path, f"parts of {task}")
