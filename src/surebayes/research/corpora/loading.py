"""Lookup and loading of corpora: the catalogue, the corpora in a folder, and the documents of a corpus."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from surebayes.errors import CorpusMissing, UnknownCorpus
from surebayes.research.corpora.entries import ENTRIES, Entry
from surebayes.research.corpora.formats import LAYOUTS, Item, read_parquet
from surebayes.research.corpora.formats import read_trec as _read_trec
from surebayes.research.corpora.plain_text import newsgroup_text, web_text


@dataclass(frozen=True, slots=True)
class Corpus:
    """Documents with their labels, in chronological order if they have dates.

    Attributes
    ----------
    name : str
        The name in the catalogue.
    documents : list of bytes or list of str
        The documents as published: raw messages, articles and pages are bytes.
    labels : list of str, or list of tuple of str
        One label per document, or any number in a multi-label corpus.
    ids : list of str
        The publisher's identifier of each document.
    order : list of int
        The position of each document in the whole corpus.
    split : list of str or None
        "train", "test" or "unused", if the publisher defines a split.
    folds : list of int or None
        The publisher's folds, or the inboxes of ECML/PKDD 2006 (None for its training file).
    extra : mapping from str to list
        Further fields of each document: title, body, university, time, ...
    multilabel : bool
        Whether a document may have none or several labels.
    source : Path or None
        The file or folder it was read from.

    Examples
    --------
    >>> from surebayes.corpora import Corpus
    >>> corpus = Corpus("mine", ["a", "b", "a"], ["x", "y", "x"], ["1", "2", "3"], [0, 1, 2])
    >>> len(corpus), corpus.classes, corpus.take([2, 0]).ids
    (3, ['x', 'y'], ['3', '1'])
    >>> corpus.without_duplicates().ids
    ['1', '2']
    """

    name: str
    documents: list[Any]
    labels: list[Any]
    ids: list[str]
    order: list[int]
    split: list[str | None] | None = None
    folds: list[int | None] | None = None
    extra: Mapping[str, list[Any]] | None = None
    multilabel: bool = False
    source: Path | None = None

    def __len__(self) -> int:
        return len(self.documents)

    @property
    def class_counts(self) -> dict[str, int]:
        """The number of documents of each class, sorted by name."""
        names = (name for names in self.labels for name in names) if self.multilabel else self.labels
        return dict(sorted(Counter(names).items()))

    @property
    def classes(self) -> list[str]:
        """The names of the classes, sorted."""
        return list(self.class_counts)

    def take(self, rows: Iterable[int]) -> Corpus:
        """Return the documents of these rows, in this order."""
        rows = list(rows)

        def pick(items: list[Any]) -> list[Any]:
            return [items[row] for row in rows]

        return replace(
            self,
            documents=pick(self.documents),
            labels=pick(self.labels),
            ids=pick(self.ids),
            order=pick(self.order),
            split=None if self.split is None else pick(self.split),
            folds=None if self.folds is None else pick(self.folds),
            extra=None if self.extra is None else {name: pick(items) for name, items in self.extra.items()},
        )

    def part(self, split: str) -> Corpus:
        """Return the documents of one split, for example "train"."""
        if self.split is None or split not in self.split:
            known = "none" if self.split is None else ", ".join(sorted({str(name) for name in self.split}))
            raise ValueError(f"The corpus {self.name!r} has no split {split!r}. Its splits: {known}.")
        return self.take(row for row, name in enumerate(self.split) if name == split)

    def of_classes(self, names: Sequence[str]) -> Corpus:
        """Return the documents of these classes; in a multi-label corpus all documents, with these labels only."""
        unknown = sorted(set(names) - set(self.classes))
        if unknown:
            raise ValueError(
                f"The corpus {self.name!r} has no class {unknown[0]!r}{_nearest(unknown[0], self.classes)}"
            )
        keep = set(names)
        if self.multilabel:
            return replace(self, labels=[tuple(name for name in labels if name in keep) for labels in self.labels])
        return self.take(row for row, label in enumerate(self.labels) if label in keep)

    def without_duplicates(self) -> Corpus:
        """Return the corpus without copies of earlier documents, ignoring white space at both ends."""
        first: dict[Any, int] = {}
        for row, document in enumerate(self.documents):
            first.setdefault(document.strip(), row)
        return self.take(first.values())


@dataclass(frozen=True, slots=True)
class Check:
    """The counts of a corpus, and their differences from the published ones; `duplicates` counts repeated documents."""

    name: str
    source: Path | None
    documents: int
    classes: Mapping[str, int]
    splits: Mapping[str, int]
    duplicates: int
    differences: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether every count equals the published one."""
        return not self.differences


def _nearest(name: str, names: Iterable[str]) -> str:
    close = get_close_matches(str(name), list(names), n=1, cutoff=0.4)
    return f"; did you mean {close[0]!r}?" if close else "."


def _entry(name: str) -> Entry:
    if name not in ENTRIES:
        raise UnknownCorpus(f"The catalogue has no corpus {name!r}{_nearest(name, ENTRIES)}")
    return ENTRIES[name]


def _folder(folder: str | os.PathLike[str] | None, hint: str = "") -> Path:
    named = folder if folder is not None else os.environ.get("SUREBAYES_DATA")
    if not named:
        raise CorpusMissing(
            f"No folder with corpora was given. Pass `folder`, or set the environment variable SUREBAYES_DATA.{hint}"
        )
    path = Path(named)
    if not path.is_dir():
        raise CorpusMissing(f"{path} is not a folder. Give the folder that contains the corpora.{hint}")
    return path


def _find(entry: Entry, root: Path, itself: bool) -> tuple[Path | None, list[str]]:
    """Search for a corpus; return its path, or None, and all places searched.

    The root may be the corpus itself if it has the right name, or if it was given for this corpus (``itself``) and the
    layout is distinctive.
    """
    looked = [str(root / entry.parquet)] if entry.parquet else []
    if entry.parquet and (root / entry.parquet).is_file():
        return root / entry.parquet, looked
    if entry.layout:
        layout = LAYOUTS[entry.layout]
        places = [root / name for name in entry.folders]
        if root.name in entry.folders or (itself and layout.distinctive):
            places.append(root)
        for place in places:
            looked.append(str(place / layout.markers[0]))
            if place.is_file() or any(True for marker in layout.markers for _ in place.glob(marker)):
                return place, looked
    return None, looked


def catalogue() -> Mapping[str, Entry]:
    """Return all corpora of the papers and their substitutes, by name.

    Examples
    --------
    >>> from surebayes.corpora import catalogue
    >>> [name for name, entry in catalogue().items() if not entry.obtainable]
    ['hotmail', 'koreannews2002', 'trec_ap']
    """
    return ENTRIES


def available(folder: str | os.PathLike[str] | None = None) -> dict[str, Path]:
    r"""Return the corpora in a folder, by name, with the file or folder of each.

    Parameters
    ----------
    folder : path, optional
        The folder that contains the corpora; by default the value of SUREBAYES_DATA. Without either, the
        result is empty.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from surebayes import corpora
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "SMSSpamCollection").write_text("ham\tsee you at six\n")
    ...     list(corpora.available(folder))
    ['sms_spam']
    """
    if folder is None and not os.environ.get("SUREBAYES_DATA"):
        return {}
    root = _folder(folder)
    paths = {name: _find(entry, root, itself=False)[0] for name, entry in ENTRIES.items()}
    return {name: path for name, path in paths.items() if path}


def load(name: str, folder: str | os.PathLike[str] | None = None) -> Corpus:
    r"""Read a corpus, from its Parquet file or in its publisher's format.

    Parameters
    ----------
    name : str
        A name of the catalogue.
    folder : path, optional
        The folder that contains the corpora, or the folder of this corpus; by default the value of SUREBAYES_DATA.

    Returns
    -------
    Corpus

    Raises
    ------
    UnknownCorpus
        If the catalogue has no such name.
    CorpusMissing
        If it isn't in the folder, or was never published.
    MalformedCorpus
        If a file is malformed; the message names the file and the line.
    ImportError
        If it is a Parquet file, and pyarrow is not installed.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from surebayes import corpora
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "SMSSpamCollection").write_text("ham\tsee you at six\nspam\tfree prize\n")
    ...     corpora.load("sms_spam", folder).labels
    ['ham', 'spam']
    """
    entry = _entry(name)
    if not entry.parquet and not entry.layout:
        raise CorpusMissing(f"{entry.title} {entry.obtain}.")
    root = _folder(folder, f" Where to get {entry.title}: {entry.obtain}.")
    path, looked = _find(entry, root, itself=folder is not None)
    if path is None:
        raise CorpusMissing(
            f"{root} doesn't contain {entry.title}. Searched: {', '.join(looked)}. Where to get it: {entry.obtain}."
        )
    if path.suffix == ".parquet":
        task = entry.layout if entry.layout and entry.layout.startswith("ecml") else None
        records = read_parquet(path, entry.fold, task)
    else:
        assert entry.layout is not None
        records = LAYOUTS[entry.layout].read(path)
    return _corpus(name, records, path)


def read_trec(index: str | os.PathLike[str]) -> Corpus:
    """Read a corpus in TREC's layout: an index with lines such as ``spam ../data/000/000``, and its message files."""
    path = Path(index)
    if not path.is_file():
        raise CorpusMissing(f"No index at {path}. In TREC's spam corpora it is called full/index.")
    return _corpus(path.parent.parent.name or "trec", _read_trec(path), path)


def _corpus(name: str, records: Sequence[Item], source: Path) -> Corpus:
    def column(items: list[Any]) -> list[Any] | None:
        return None if all(item is None for item in items) else items

    extra = {key: [record.extra.get(key) for record in records] for key in records[0].extra}
    return Corpus(
        name=name,
        documents=[record.document for record in records],
        labels=[record.label for record in records],
        ids=[record.id for record in records],
        order=list(range(len(records))),
        split=column([record.split for record in records]),
        folds=column([record.fold for record in records]),
        extra=extra,
        multilabel=isinstance(records[0].label, tuple),
        source=source,
    )


def check(name: str, folder: str | os.PathLike[str] | None = None) -> Check:
    r"""Read a corpus and compare its counts with the published ones.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from surebayes import corpora
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "SMSSpamCollection").write_text("ham\tsee you at six\nspam\tfree prize\n")
    ...     print("\n".join(corpora.check("sms_spam", folder).differences))
    2 documents, 5,574 published
    class ham: 1 documents, 4,827 published
    class spam: 1 documents, 747 published
    """
    entry, corpus = _entry(name), load(name, folder)
    classes, splits = corpus.class_counts, dict(Counter(str(split) for split in corpus.split or []))
    differences = []
    if entry.documents is not None and len(corpus) != entry.documents:
        differences.append(f"{len(corpus):,} documents, {entry.documents:,} published")
    for what, counts, published in (("class", classes, entry.classes), ("split", splits, entry.splits)):
        for key in [*published, *(key for key in counts if published and key not in published)]:
            if counts.get(key, 0) != published.get(key, 0):
                differences.append(
                    f"{what} {key}: {counts.get(key, 0):,} documents, {published.get(key, 0):,} published"
                )
    copies = len(corpus) - len({document.strip() for document in corpus.documents})
    return Check(name, corpus.source, len(corpus), classes, splits, copies, tuple(differences), entry.notes)


# Documents in the forms of the papers' experiments --------------------------------------------------------------------


def mails(corpus: Corpus) -> list[bytes]:
    """Return the documents of a mail corpus as parsable messages.

    Enron-Spam's files lack the blank line after the Subject line; it is inserted.
    """
    kind = ENTRIES[corpus.name].kind if corpus.name in ENTRIES else "mail"
    if kind != "mail":
        raise ValueError(f"The documents of {corpus.name!r} are not messages but {kind}.")
    return [_as_mail(raw) for raw in corpus.documents] if corpus.name == "enron_spam" else list(corpus.documents)


def _as_mail(raw: bytes) -> bytes:
    subject, end, body = raw.partition(b"\n")
    return raw if body.startswith((b"\n", b"\r\n")) else subject + (end or b"\n") + b"\n" + body


def texts(corpus: Corpus, subject: bool = False) -> list[str]:
    """Return the documents as texts: article bodies, pages without tags, and unchanged texts.

    Parameters
    ----------
    corpus : Corpus
        Newsgroups, web pages or texts. For mail use ``surebayes.read_message``.
    subject : bool
        Whether to keep an article's subject, as Kolcz & Chowdhury do and Frank & Bouckaert do not.
    """
    kind = ENTRIES[corpus.name].kind if corpus.name in ENTRIES else "text"
    if kind == "newsgroup":
        return [newsgroup_text(raw, subject) for raw in corpus.documents]
    if kind == "html":
        return [web_text(raw) for raw in corpus.documents]
    if kind == "text":
        return list(corpus.documents)
    other = "messages: read them with surebayes.read_message" if kind == "mail" else "counts: use count_matrix"
    raise ValueError(f"The documents of {corpus.name!r} are {other}.")


def modapte(corpus: Corpus) -> tuple[Corpus, Corpus]:
    """Return Reuters-21578's ModApte training and test documents, with the categories common to both.

    All 9,603 and 3,299 documents stay, including those in none of the 90 categories.
    """
    train, test = corpus.part("train"), corpus.part("test")
    both = sorted(set(train.classes) & set(test.classes))
    return train.of_classes(both), test.of_classes(both)


def top_classes(corpus: Corpus, n: int = 10) -> list[str]:
    """Return the n classes with the most documents, largest first; ties by name.

    Examples
    --------
    >>> from surebayes.corpora import Corpus, top_classes
    >>> top_classes(Corpus("mine", ["a", "b", "c"], ["x", "y", "y"], ["1", "2", "3"], [0, 1, 2]), 1)
    ['y']
    """
    return sorted(corpus.classes, key=lambda name: (-corpus.class_counts[name], name))[:n]
