"""Fast path of `surebayes learn` and `surebayes forget` for one document, for calls by IMAP servers.

The fast path takes a filter, a class and one document. `surebayes.cli` handles any other command line (mailboxes,
folders, tables, help, errors), before anything is read or changed.
"""

from __future__ import annotations

import os
import sys

from surebayes.filter.options import CONFIG, FORGET, LEARN, MODEL, RENEW, USER, WHO, parsed

TYPE_CHECKING = False  # importing typing, click, json or numpy would take longer than the lesson

TABLES = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".json", ".parquet")
"""Suffixes of tables, copied from the registry, which takes longer to import; a test compares both."""
COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
"""Suffixes of compressed files, which may contain a table."""
_SET_ASIDE = {
    "already": "judged correctly, and still set aside",
    "learnt": "misjudged, and learnt now; the promise counts the earlier scores",
    "forgotten": "released now",
}
"""The action on a reserved document, by the outcome of its lesson."""
_STARTS = 10  # bytes that distinguish a mailbox or a compressed file from a document
_NOT_ONE_DOCUMENT = (b"From ", b"\x1f\x8b\x08", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"BZh")
"""First bytes of files that may hold several documents, or a compressed one."""


class LessonCall:
    """A call of `learn` or `forget` with one document.

    Attributes
    ----------
    command : {"learn", "forget"}
        The command.
    model, as_, who, path : str
        The filter's folder, the class, the teacher and the document; "" if not given.
    renew, as_json : bool or None
        Whether a stale certificate is renewed, and whether the output is JSON; None if not given.
    """

    __slots__ = ("as_", "as_json", "command", "model", "path", "renew", "who")

    def __init__(self, command: str) -> None:
        self.command, self.model, self.as_, self.who, self.path = command, "", "", "", ""
        self.renew: bool | None = None
        self.as_json: bool | None = None

    @classmethod
    def of(cls, argv: list[str]) -> LessonCall | None:
        """Parse a command line; None if `surebayes.cli` has to handle it.

        Examples
        --------
        >>> call = LessonCall.of(["learn", "-m", "f", "--as=spam", "-"])
        >>> call.model, call.as_, call.path
        ('f', 'spam', '-')
        >>> LessonCall.of(["learn", "--as", "spam", "a", "b"]) is None
        True
        """
        call, options = cls(argv[0]), LEARN if argv[0] == "learn" else FORGET
        values, arguments, problem = parsed(options, argv[1:])
        if problem or "help" in values or len(arguments) != 1:
            return None
        if os.environ.get(USER.variable):  # for a personal layer, which may not exist yet
            return None
        (call.path,) = arguments
        for name, value in values.items():
            setattr(call, name, value)
        call.model = call.model or os.environ.get(MODEL.variable, "")
        complete = call.model and call.path and (call.as_ or call.command == "forget")
        return call if complete else None

    @property
    def is_one_document(self) -> bool:
        """Return whether the path, or standard input, looks like one document; standard input is only peeked at."""
        if self.path.lower().endswith((".mbox", *TABLES, *COMPRESSED)) or sys.stdin is None:
            return False
        if self.path == "-":
            start = sys.stdin.buffer.peek(_STARTS)  # type: ignore[union-attr]
        elif not os.path.isfile(self.path):
            return False
        else:
            with open(self.path, "rb") as file:
                start = file.read(_STARTS)
        return len(start) >= _STARTS and not start.startswith(_NOT_ONE_DOCUMENT)

    def read(self) -> bytes:
        """Read the document, up to the size limit."""
        from surebayes.mail.plain import MAX_BYTES

        if self.path != "-":
            with open(self.path, "rb") as file:
                return file.read(MAX_BYTES + 1)
        content: bytes = sys.stdin.buffer.read(MAX_BYTES + 1)
        while sys.stdin.buffer.read(2**20):
            pass  # read to the end, because closing the pipe early would raise an error in its writer
        return content

    def take_settings(self) -> None:
        """Fill in missing arguments from the environment and the filter's settings."""
        variables = CONFIG.variable, WHO.variable, RENEW.variable
        if any(map(os.environ.get, variables)) or os.path.exists(os.path.join(self.model, "config.toml")):
            from surebayes.filter.settings import resolve

            settings = resolve(self.model)
            self.who = self.who or settings["who"].value or ""
            self.renew = settings["renew"].value if self.renew is None else self.renew

    @property
    def name(self) -> str:
        """The document's name in the output."""
        return "standard input" if self.path == "-" else self.path


def main(argv: list[str]) -> int | None:
    """Run a lesson of one document; return the exit code, or None if `surebayes.cli` has to handle the call."""
    try:
        call = None if os.environ.get("SUREBAYES_DEBUG") else LessonCall.of(argv)
        if call is None or not call.is_one_document:
            return None
    except Exception:  # `surebayes.cli` reports it
        return None
    if any(os.path.exists(os.path.join(call.model, name)) for name in ("journal.url", "follows.json")):
        return None  # a database may be away, or it is a copy that only follows
    call.take_settings()
    _say(call, *_lesson(call))
    return 0


def _lesson(call: LessonCall) -> tuple[str, bool]:
    """Return the outcome of the lesson, and whether the document was reserved for calibration."""
    from surebayes.filter.session import Session
    from surebayes.filter.store.events import NO_AUTHOR, Event, Lesson
    from surebayes.filter.verdicts.recorder import Recorder
    from surebayes.kernels import kernel

    kernel("pool").end_on_bus_error()
    session = Session.open(call.model, call.renew is not False, brief=True)
    recorder = Recorder(session)
    try:
        state = session.current_state()
        if call.as_ and call.as_ not in state.names:
            there = ", ".join(map(repr, state.names))
            raise ValueError(f"Unknown class {call.as_!r}. This filter has {there}.")
        lesson, content = Lesson(call.who or None), call.read()
        if not content:
            from surebayes.errors import NoInput

            raise NoInput("No document on standard input: it is empty.")
        features = state.features_of(content) if call.command == "learn" else None
        fingerprint = state.engine.read(content).fingerprint if features is None else features.fingerprint
        if features is not None:
            recorder.record(features, call.as_, lesson, None)
        with session.transaction() as txn:
            before = txn.known(fingerprint)
            outcome = txn.forget(fingerprint, lesson) if features is None else txn.learn(features, call.as_, lesson)
            if txn.rows:  # a version for rollback
                txn.add(Event.of(NO_AUTHOR, "mark", None, f"taught {len(txn.rows)}"))
        return outcome, before is not None and before[0] == "reserve"
    finally:
        recorder.close()
        session.close()


def _say(call: LessonCall, outcome: str, was_set_aside: bool) -> None:
    """Print the outcome in the format of the commands."""
    if call.as_json if call.as_json is not None else not sys.stdout.isatty():
        from _json import encode_basestring_ascii as quoted

        mark = f', "set_aside": {"true" if outcome == "already" else "false"}' if was_set_aside else ""
        sys.stdout.write(f'{{"path": {quoted(call.name)}, "outcome": "{outcome}"{mark}}}\n')
    else:
        sys.stdout.write(f"1 {outcome}\n")
    sys.stdout.flush()
    if was_set_aside and sys.stderr is not None:
        sys.stderr.write(f"{about_set_aside(outcome)}\n")


def about_set_aside(outcome: str, count: int = 1) -> str:
    """Return a sentence about documents that were set aside for calibration.

    Examples
    --------
    >>> about_set_aside("forgotten")
    '1 document was set aside for calibration: released now.'
    """
    subject = "1 document was" if count == 1 else f"{count:,} documents were"
    return f"{subject} set aside for calibration: {_SET_ASIDE[outcome]}."
