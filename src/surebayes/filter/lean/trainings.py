"""`surebayes train` of a new filter by a script: what the command does, without the start-up of a command line.

The usual call names a folder and documents of each class, and its output goes to a file or a pipe. Whatever else a
command line says (tables, layers, persons, help, mistakes), and a filter that is there, is left to `surebayes.cli`,
before anything is read or done.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # neither typing nor click, dataclasses or json: together they are a tenth of a training
if TYPE_CHECKING:
    from surebayes.filter.session import Session

_VALUES = ("-m", "--model", "--ham", "--spam", "--class", "--reader", "--views", "--reserve")
_SWITCHES = ("--journal", "--no-journal", "--json")
_OTHERS = ("SUREBAYES_MODEL", "SUREBAYES_DATA")
"""Variables that a training takes from elsewhere, or not at all; any other may be one of its settings."""
_WIDTH = 2**22
TABLES = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".json", ".parquet")
"""How the names of tables end: a test holds it to the registry, which takes longer to import."""
COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
"""How the names of compressed files end; a table may be in them."""


def is_table(path: str) -> bool:
    """Whether a file is a table by the end of its name, compressed or not.

    Examples
    --------
    >>> is_table("news.CSV.gz"), is_table("2024.mbox.gz")
    (True, False)
    """
    name = path.lower()
    return name.removesuffix(next((end for end in COMPRESSED if name.endswith(end)), "")).endswith(TABLES)


class TrainCall:
    """A call of `train` by a script.

    Attributes
    ----------
    model : str
        The folder of the new filter.
    sources : list of (class, path)
        Where documents are.
    reader, views : str
        What documents are, and what the filter is.
    is_mail_by_default : bool
        Whether nobody said what documents are.
    reserve : float
        The share that is set aside.
    journal : bool
        Whether the journal keeps the documents.
    """

    __slots__ = ("is_mail_by_default", "journal", "model", "reader", "reserve", "sources", "views")

    def __init__(self, given: dict[str, list[str]]) -> None:
        def one(*options: str, default: str) -> str:
            return next((value for option in options for value in given.get(option, ())), default)

        self.model = one("-m", "--model", default=os.environ.get("SUREBAYES_MODEL", ""))
        self.reader, self.views = one("--reader", default="mail"), one("--views", default="pool")
        self.is_mail_by_default = "--reader" not in given
        self.reserve, self.journal = float(one("--reserve", default="0.2")), "--no-journal" not in given
        self.sources = [(label, path) for label in ("ham", "spam") for path in given.get(f"--{label}", ())]
        self.sources += [(label, path) for label, _, path in (word.partition("=") for word in given.get("--class", ()))]

    @classmethod
    def of(cls, argv: list[str]) -> TrainCall | None:
        """Read a command line; None for one that isn't of this kind.

        Examples
        --------
        >>> call = TrainCall.of(["train", "-m", "f", "--spam", "b", "--ham=a", "--no-journal"])
        >>> call.model, call.sources, call.journal
        ('f', [('ham', 'a'), ('spam', 'b')], False)
        >>> TrainCall.of(["train", "-m", "f", "--ham", "a", "--spam", "b", "--skip-bad"]) is None
        True
        """
        given: dict[str, list[str]] = {}
        words = iter(argv[1:])
        for word in words:
            option, equals, value = word.partition("=")
            if word not in _SWITCHES:
                value = value if equals else next(words, "")
                if option not in _VALUES or (equals and option == "-m") or not value or value.startswith("-"):
                    return None
            given.setdefault(option, []).append(value)
        alone = ("-m", "--model"), ("--reader",), ("--views",), ("--reserve",), ("--journal", "--no-journal")
        if any(sum(len(given.get(option, ())) for option in options) > 1 for options in alone):
            return None
        call = cls(given)
        is_known = call.reader in ("mail", "text") and call.views in ("pool", "words") and 0 <= call.reserve <= 0.9
        named = call.sources and all(label and path for label, path in call.sources)
        return call if is_known and call.model and named else None

    @property
    def classes(self) -> list[str]:
        """The classes, as the documents of each come."""
        return list(dict.fromkeys(label for label, _ in self.sources))

    @property
    def is_usual(self) -> bool:
        """Whether it is a new filter of documents that are there, nothing else is set, and nobody looks on."""
        if any(stream is None or stream.isatty() for stream in (sys.stdout, sys.stderr)):
            return False
        if any(name.startswith(("SUREBAYES_", "_SUREBAYES_")) and name not in _OTHERS for name in os.environ):
            return False
        if not self.model.isascii() or not self.model.isprintable():
            return False
        if os.path.lexists(self.model) and os.listdir(self.model):
            return False
        if any(is_table(path) for _, path in self.sources):
            return False
        labels = {os.path.realpath(path): label for label, path in self.sources}
        one_each = all(labels[os.path.realpath(path)] == label for label, path in self.sources)
        return one_each and len(self.classes) > 1 and all(map(os.path.exists, labels))

    def new_filter(self) -> Session:
        """Make the filter, as `Filter.create` does."""
        from surebayes.filter.new_folder import check_classes
        from surebayes.filter.session import Session
        from surebayes.pool.specs import views_of

        names = check_classes(self.classes, _WIDTH)
        return Session.create(self.model, self.reader, names, views_of(self.views, self.reader, len(names), _WIDTH))


def main(argv: list[str]) -> int | None:
    """Train a new filter; return the exit code, or None where `surebayes.cli` has to do it."""
    try:
        call = TrainCall.of(argv)
        if call is None or not call.is_usual:
            return None
        made = call.new_filter()
    except Exception:  # whatever it is, it is said there
        return None
    _train(call, made)
    return 0


def _train(call: TrainCall, made: Session) -> None:
    """Train a filter that has just been made, and print what the command prints; it goes if that fails."""
    from surebayes.datasets.sources import Source, Sources
    from surebayes.filter import tuning
    from surebayes.filter.lean import outcome
    from surebayes.filter.new_folder import remove_unused
    from surebayes.filter.training import train
    from surebayes.mail.header_check import HeaderCheck
    from surebayes.persist.manifest import encoded
    from surebayes.promises.positive_class import doubt_about

    headers = HeaderCheck()
    sources = Sources(Source(path, label) for label, path in call.sources)
    try:
        try:
            documents = headers.watched(sources.pairs())
            done = train(made, documents, call.reserve, call.journal, "train", None)
            with made.mutex:
                state, journal = made.fresh_state(), made.reading()
                counts = dict(zip(state.names, state.engine.documents))
                held_out = outcome.told_apart(state.names, *tuning.reserve_scores(state, journal)[:2])
                record = outcome.record(done, 0, counts, state.model_version, held_out)
                unweighed = tuning.unweighed(state, journal)
                second_stage = tuning.second_stages(state, journal) if call.reader == "text" else None
        finally:
            made.close()
    except BaseException:
        remove_unused(call.model)
        raise
    classes = call.classes
    doubt = doubt_about(classes, classes[1]) if len(classes) == 2 else ""
    if doubt:
        _note(f"{doubt} To choose, give a new filter --positive NAME.")
    assumed = "mail" if call.is_mail_by_default else None
    _note(*outcome.about_documents(assumed, headers, done["contradictory"]))
    sys.stdout.write(f"{encoded(record, ', ', ': ')}\n")
    _note(*outcome.about_filter(call.model, unweighed, second_stage, call.journal))
    sys.stdout.flush()


def _note(*sentences: str) -> None:
    for sentence in sentences:
        sys.stderr.write(f"{sentence}\n")
        sys.stderr.flush()
