"""All errors that surebayes raises on purpose, with their exit codes and HTTP statuses.

::

    SurebayesError
    ├── StoreError                a problem with a folder or file of a filter
    │   ├── NoModel               the folder has no model                  (also FileNotFoundError)
    │   ├── BadModel              damaged, truncated or not a model        (also ValueError)
    │   ├── NewerModel            a later release wrote it                 (also ValueError)
    │   ├── Busy                  another process is writing to it
    │   │   ├── JournalAway       the database of a shared journal can't be reached
    │   │   │   └── JournalFull   that database is full (also OSError)
    │   │   └── NotShipped        the folder of a shipped journal can't be used now
    │   └── ReadOnlyFilter        a copy that follows, or a source that was replaced
    ├── BadInput                  a document or table that can't be used   (also ValueError)
    │   └── MissingText           a document without a text among many
    ├── NoInput                   a missing file or folder        (also FileNotFoundError)
    ├── BadConfig                 an unknown setting or impossible value   (also ValueError)
    ├── UnknownCorpus             a name that the catalogue doesn't have   (also ValueError)
    ├── CorpusMissing             a corpus that isn't in the folder        (also FileNotFoundError)
    ├── MalformedCorpus           a corpus that can't be read              (also ValueError)
    ├── QuotaReached              a person's quota is used up
    ├── PartFailed                a part of the documents can't be read, even after retries
    └── TooFewDocuments           too few documents for a promise          (also ValueError)
        ├── NotEnoughNegatives
        └── NotEnoughPositives

The first five are in a separate module, so that `surebayes filter` doesn't need to import this one.
"""

import math
import sys

from surebayes._store_errors import BadModel, Busy, NewerModel, NoModel, StoreError, SurebayesError

__all__ = [
    "EXIT_CODES", "BadConfig", "BadInput", "BadModel", "Busy", "CorpusMissing", "JournalAway", "JournalFull",
    "MalformedCorpus", "MissingText", "NewerModel",
    "NoInput", "NoModel", "NotEnoughNegatives", "NotEnoughPositives", "NotShipped", "PartFailed", "QuotaReached",
    "ReadOnlyFilter", "StoreError",
    "SurebayesError", "TooFewDocuments", "UnknownCorpus", "exit_code", "http_status", "smallest_rate",
]  # fmt: skip


class JournalAway(Busy):
    """The database of a shared journal is unreachable or read-only; judging is not affected."""


class JournalFull(JournalAway, OSError):
    """The database of a shared journal is full."""


class NotShipped(Busy):
    """The folder or URL of a shipped journal can't be read or written now, or has incomplete files."""


class ReadOnlyFilter(StoreError):
    """A filter that may not learn: a copy that follows another one, or a source that a promoted copy has replaced."""


class BadInput(SurebayesError, ValueError):
    """A document or table that can't be used; the message gives its name and the reason."""


class MissingText(BadInput):
    """A document without a text: None, NaN or another mark of a missing value.

    Attributes
    ----------
    place : int
        Position of the document among the caller's documents, counted from 0.
    got : object
        The value found instead of a text.
    label : object
        The document's index label in pandas, if the index differs from the positions; else None.

    Examples
    --------
    >>> print(MissingText(2, None, "mail-17"))
    Document 2 (counted from 0; its index is 'mail-17') has no text: got None. Leave it out, or give "" for it.
    """

    def __init__(self, place: int, got: object, label: object = None) -> None:
        super().__init__(place, got, label)
        self.place = place
        self.got = got
        self.label = label

    def __str__(self) -> str:
        index = "" if self.label is None else f"; its index is {self.label!r}"
        return (
            f"Document {self.place} (counted from 0{index}) has no text: got {self.got}. Leave it out, or give "
            '"" for it.'
        )


class NoInput(SurebayesError, FileNotFoundError):
    """A missing file or folder of documents."""


class BadConfig(SurebayesError, ValueError):
    """An unknown setting, or an invalid value."""


class UnknownCorpus(SurebayesError, ValueError):
    """A name that isn't in the catalogue of corpora."""


class CorpusMissing(SurebayesError, FileNotFoundError):
    """A corpus that is missing from the folder; the message names the files and their source."""


class MalformedCorpus(SurebayesError, ValueError):
    """A file of a corpus that isn't in its publisher's format."""


class QuotaReached(SurebayesError):
    """A person's quota of lessons or bytes is used up."""


class PartFailed(SurebayesError):
    """A part of the documents that can't be read, even after retries.

    Attributes
    ----------
    part : int
        Number of the part, counted from 0.
    reason : str
        The last error.

    Examples
    --------
    >>> print(PartFailed(3, "OSError: disk on fire"))
    part 3 could not be read: OSError: disk on fire
    """

    def __init__(self, part: int, reason: str) -> None:
        super().__init__(part, reason)
        self.part = part
        self.reason = reason

    def __str__(self) -> str:
        return f"part {self.part} could not be read: {self.reason}"


def smallest_rate(n: int, confidence: float) -> float:
    """Return the smallest error rate that `n` error-free rows can certify: 1 - (1 - confidence)^(1/n).

    Examples
    --------
    >>> round(smallest_rate(2995, 0.95), 6)
    0.001
    """
    return -math.expm1(math.log1p(-confidence) / n)


class TooFewDocuments(SurebayesError, ValueError):
    """Too few documents of a class for a promise; the message gives the number needed and a feasible promise.

    `dependent` is the number of documents that did not count: copies, or further documents of the same groups.
    """

    documents = "documents"
    dependent = 0
    promise = "an error rate of at most"

    def __init__(self, needed: int, available: int, rate: float, confidence: float, offer: float | None = None) -> None:
        super().__init__(needed, available, rate, confidence, offer)
        self.needed = needed
        self.available = available
        self.rate = rate
        self.confidence = confidence
        self.offer = offer

    def __str__(self) -> str:
        from decimal import ROUND_CEILING, ROUND_FLOOR, Context

        n, more = self.available, f"collect {self.needed - self.available:,} more"
        if self.offer:
            more += f", or promise what these allow: {self.promise} {self.offer:g} with confidence {self.confidence:g}"
        elif self.offer is None and n:
            # rounded to the safe side, so that the offered promise is feasible
            rate = Context(3, ROUND_CEILING).create_decimal_from_float(smallest_rate(n, self.confidence))
            certain = Context(3, ROUND_FLOOR).create_decimal_from_float(-math.expm1(n * math.log1p(-self.rate)))
            more += (
                f", or promise what these allow: {self.promise} {rate} with confidence "
                f"{self.confidence:g}, or {self.rate:g} with confidence {certain}"
            )
        counted = f"there are {n:,}"
        if self.dependent:
            counted += f" (and {self.dependent:,} copies, or more of the same groups, which don't count)"
        return (
            f"{self.promise} {self.rate:g} with confidence {self.confidence:g} needs at least {self.needed:,} "
            f"{self.documents}, {counted}: {more}."
        )


class NotEnoughNegatives(TooFewDocuments):
    """Too few negatives to certify a false-positive rate.

    Attributes
    ----------
    needed, available : int
        Numbers of negatives that the promise needs and that are available.

    Examples
    --------
    >>> error = NotEnoughNegatives(2995, 1000, 0.001, 0.95)
    >>> error.needed, error.available
    (2995, 1000)
    >>> print(error)  # doctest: +NORMALIZE_WHITESPACE
    a false-positive rate of at most 0.001 with confidence 0.95 needs at least 2,995 negatives, there are 1,000:
    collect 1,995 more, or promise what these allow: a false-positive rate of at most 0.00300 with confidence 0.95,
    or 0.001 with confidence 0.632.
    """

    documents = "negatives"
    promise = "a false-positive rate of at most"


class NotEnoughPositives(TooFewDocuments):
    """Too few positives to certify a recall.

    Attributes
    ----------
    needed, available : int
        Positives that the promise takes, and that there are.

    Examples
    --------
    >>> NotEnoughPositives(59, 10, 0.05, 0.95).needed
    59
    """

    documents = "positives"
    promise = "a share of missed positives of at most"


EXIT_CODES = {
    0: "success",
    1: "found: a positive document (`--exit-code`), a difference (`corpora check`), a problem (`doctor`)",
    2: "the command was not understood: an unknown option, a missing argument",
    65: "bad data: a document, table or model that can't be used, too few documents for a promise",
    66: "no input: a missing file, folder, corpus or model",
    69: "an extra that isn't installed",
    70: "an error inside surebayes; `--debug` shows where",
    71: "out of memory",
    73: "something already exists where the command would write",
    74: "reading or writing failed: no space left, a disk error",
    75: "try again: another process is writing to the filter",
    77: "permission denied, a copy that only follows, or a quota is used up",
    78: "a setting that doesn't exist or has an impossible value",
    130: "interrupted (Ctrl-C)",
    141: "the program reading the output has ended",
}
"""Exit codes and their meanings, as shown in docs/commands.md."""

# Exit code and HTTP status by error class; the first matching base class decides.
_MEANING: dict[type[BaseException], tuple[int, int]] = {
    JournalFull: (74, 507),
    Busy: (75, 503),
    NoModel: (66, 404),
    BadModel: (65, 500),
    NewerModel: (65, 503),
    ReadOnlyFilter: (77, 403),
    StoreError: (74, 500),
    BadInput: (65, 422),
    NoInput: (66, 404),
    BadConfig: (78, 422),
    UnknownCorpus: (65, 404),
    CorpusMissing: (66, 404),
    MalformedCorpus: (65, 422),
    TooFewDocuments: (65, 422),
    PartFailed: (74, 500),
    QuotaReached: (77, 507),
    KeyboardInterrupt: (130, 503),
    BrokenPipeError: (141, 500),
    FileNotFoundError: (66, 404),
    NotADirectoryError: (66, 404),
    IsADirectoryError: (66, 404),
    FileExistsError: (73, 409),
    PermissionError: (77, 403),
    OSError: (74, 507),
    ImportError: (69, 501),
    MemoryError: (71, 507),
    UnicodeError: (65, 422),
    OverflowError: (65, 422),
    ValueError: (65, 422),
}
_UNFORESEEN = (70, 500)
_LOCKED = ("database is locked", "database table is locked")


def is_mistake_in_query(error: BaseException) -> bool:
    """Whether an error of SQLite is about the query, or what was bound to it, and not about the file.

    Examples
    --------
    >>> import sqlite3
    >>> try:
    ...     _ = sqlite3.connect(":memory:").execute("SELECT nothing")
    ... except sqlite3.Error as error:
    ...     print(is_mistake_in_query(error), exit_code(error))
    True 70
    """
    import sqlite3

    if isinstance(error, sqlite3.ProgrammingError | sqlite3.InterfaceError | sqlite3.NotSupportedError):
        return True
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR


def _meaning(error: BaseException) -> tuple[int, int]:
    sqlite3 = sys.modules.get("sqlite3")  # its errors can't occur unless it is loaded
    if sqlite3 is not None and isinstance(error, sqlite3.Error):
        if is_mistake_in_query(error):
            return _UNFORESEEN
        return _MEANING[Busy if str(error) in _LOCKED else StoreError]
    for family in type(error).__mro__:
        if family in _MEANING:
            return _MEANING[family]
    return _UNFORESEEN


def exit_code(error: BaseException) -> int:
    """Return the exit code of an error; 70 for an unexpected one.

    Examples
    --------
    >>> [exit_code(error) for error in (BadInput("row 7 has no label"), PermissionError(), TypeError())]
    [65, 77, 70]
    """
    return _meaning(error)[0]


def http_status(error: BaseException) -> int:
    """Return the HTTP status of an error; 500 for an unexpected one.

    Examples
    --------
    >>> [http_status(error) for error in (BadInput("row 7 has no label"), PermissionError(), TypeError())]
    [422, 403, 500]
    """
    return _meaning(error)[1]
