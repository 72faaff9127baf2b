"""`surebayes filter`: copies one message from standard input to standard output, with the verdict as header fields.

After any failure, either the message is passed on complete, or the exit code is 75 and the mail server keeps its copy.
So this module imports only `os`, `sys` and its options; all other imports are inside functions, where a failing import
is handled like any other error.
"""

import os
import sys

from surebayes.filter.options import FILTER, X_SPAM, from_environment, parsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

HELD = 16 * 1024 * 1024 + 1
"""Bytes of a message kept in memory: one more than the mail reader's limit, so that it notices longer messages."""
_PIECE = 1 << 20
FAILED = 75
"""The exit code EX_TEMPFAIL of sysexits.h, after which a mail server tries again: for an incomplete message and, with
--exit-code, for a missing verdict."""
OWN = b"x-surebayes-"
_X_SPAM = b"x-spam-"


class Arguments:
    """The command line of `surebayes filter`.

    Parameters
    ----------
    argv : list of str
        The words after ``filter``.

    Attributes
    ----------
    model : str
        The filter's folder; "" if neither a flag nor the environment names one.
    config_file : str
        The file of settings from a flag or the environment; "" for the folder's file.
    x_spam : bool or None
        Whether to write X-Spam-* fields; None if neither a flag nor the environment sets it.
    users, user : str
        The folder of layers, and the recipient; "" if not given.
    exit_code, help : bool
        Whether those flags were given.
    problem : str
        An error in the command line; "" if there is none.
    """

    __slots__ = ("config_file", "exit_code", "help", "model", "problem", "user", "users", "x_spam")

    def __init__(self, argv: "list[str]") -> None:
        self.model = self.config_file = self.users = self.user = ""
        self.exit_code = self.help = False
        self.x_spam: bool | None = None
        values, arguments, self.problem = parsed(FILTER, argv)
        if arguments and not self.problem:
            self.problem = f"unexpected argument {arguments[0]!r}"
        for name, value in {**from_environment(FILTER, os.environ), **values}.items():
            setattr(self, name, value)

    @property
    def has_new_settings(self) -> bool:
        """Return whether a settings file is named, or the folder's is newer than its summary in the manifest."""
        if self.config_file or (self.x_spam is None and os.environ.get(X_SPAM.variable)):
            return True
        if not self.model:
            return False
        try:
            changed = os.stat(os.path.join(self.model, "config.toml")).st_mtime_ns
            return changed > os.stat(os.path.join(self.model, "manifest.json")).st_mtime_ns
        except (OSError, ValueError):
            return False

    def choose_layer(self) -> None:
        """Choose the recipient's layer, if there is one."""
        if not self.users:
            raise ValueError("--user needs --users DIR, the folder of personal layers")
        from surebayes.filter.persons import judging_folder

        self.model = judging_folder(self.users, self.user, self.model)

    def read_settings(self) -> None:
        """Fill in missing arguments from the settings file; after an error, the message is judged without it."""
        try:
            from surebayes.filter.settings import resolve

            settings = resolve(self.model or None, self.config_file or None)
            if self.x_spam is None:
                self.x_spam = settings["x_spam"].value
            self.model = self.model or settings["model"].value or ""
            self.users = self.users or settings["users"].value or ""
        except Exception as error:
            _say(f"{_sentence(error)} The message is judged without these settings.")


def main(argv: "list[str]") -> "int | None":
    """Run `surebayes filter`; return the exit code, or None for help.

    The exit code is 0 or 1 only if the complete message was written.
    """
    try:
        arguments = Arguments(argv)
        if arguments.help:
            return None
        if sys.stdout is None or sys.stdin is None:
            raise OSError("standard input or output is closed")
        head = _read(HELD)
        fields, code = _verdict(arguments, head)
        x_spam = arguments.x_spam or any(name == b"X-Spam-Flag" for name, _ in fields)
        _pass_on(head, fields, (OWN, _X_SPAM) if x_spam else (OWN,))
        return code
    except BaseException as error:
        _say(f"the message could not be read or written: {_sentence(error)}")
        return FAILED


def _verdict(arguments: Arguments, head: bytes) -> "tuple[list[tuple[bytes, bytes]], int]":
    """Judge the message; return the header fields of the verdict, and the exit code."""
    try:
        if arguments.problem:
            raise ValueError(arguments.problem)
        if arguments.has_new_settings:
            arguments.read_settings()
        if arguments.user:
            arguments.choose_layer()
        if not arguments.model:
            raise ValueError("no filter given: use -m DIR or the environment variable SUREBAYES_MODEL")
        fields, positive = verdict_fields(arguments.model, head, arguments.x_spam)
        return fields, int(positive and arguments.exit_code)
    except Exception as error:  # the message must be passed on, with or without a verdict
        problem = _sentence(error)
        _say(f"{problem} The message is passed on without a verdict." if problem[-1:] in ".?" else
             f"{problem}; the message is passed on without a verdict")  # fmt: skip
        return [_error_field(problem)], FAILED if arguments.exit_code else 0


def verdict_fields(folder: str, raw: bytes, x_spam: "bool | None") -> "tuple[list[tuple[bytes, bytes]], bool]":
    """Judge a message; return the header fields of the verdict, and whether the message is flagged."""
    from surebayes.filter.model import Model
    from surebayes.filter.verdict import header_fields
    from surebayes.kernels import kernel
    from surebayes.pool.document import documents_of

    kernel("pool").end_on_bus_error()
    model = Model.open(folder)
    engine, has_budget, writes_x_spam = model.engine, model.has_budget, model.writes_x_spam
    budgets: dict[str, Any] = {}
    folders = [] if model.base_in_use is None else model.base_in_use.folders
    remembers = has_budget or any(os.path.exists(os.path.join(each, "verdicts.sqlite")) for each in (folder, *folders))
    (document,) = documents_of(engine.views, [raw], engine.reader, named=remembers)
    rows = engine.rows([document])
    opinions = engine.opinions(rows)
    scores, novelty, model = engine.weighed(opinions), engine.novelty(rows, 0, opinions), model.of(rows)
    if remembers:
        from surebayes.filter.verdicts.combined import answer_once

        decision, budgets = answer_once(folder, folders, model, list(scores), document.fingerprint, has_budget)
        label, score, threshold, probability = decision
    else:
        label, score, threshold, probability = model.decide(scores)
    positive, before = model.flags(label), []
    if writes_x_spam if x_spam is None else x_spam:
        answer = "Yes" if positive else "No"
        before = [
            ("X-Spam-Flag", answer.upper()),
            ("X-Spam-Score", f"{score:.3f}"),
            ("X-Spam-Status", f"{answer}, score={score:.3f} required={threshold:.3f}"),
        ]
    shown = {name: budget.to_dict() for name, budget in budgets.items()}
    decision = label, score, threshold, probability
    fields = header_fields(
        decision,
        model.version,
        model.basis,
        shown,
        len(model.names) > 2,
        before,
        novelty.p if novelty else None,
    )
    return fields, positive


def _sentence(error: BaseException) -> str:
    """Return the text of an error, with the error's type unless the text is written for users."""
    text = str(error)
    foreseen = isinstance(error, (ValueError, OSError)) or type(error).__module__ == "surebayes.errors"
    return text if foreseen and text else f"{type(error).__name__}: {text}"


def _error_field(problem: str) -> "tuple[bytes, bytes]":
    """Return the field with the reason for a missing verdict, without any import."""
    line = " ".join(problem.split())
    letters = [c if " " <= c <= "~" else f"\\u{ord(c):04x}" for c in line[:500]]
    return b"X-Surebayes-Error", "".join(letters).encode("ascii")[:900]


# ---------------------------------------------------------------------- header fields


def _without_fields(raw: bytes, names: "tuple[bytes, ...]") -> bytes:
    from surebayes.kernels import kernel

    return kernel("mail").without_fields(raw, names)  # type: ignore[no-any-return]


def with_fields(raw: bytes, fields: "list[tuple[bytes, bytes]]", forged: "tuple[bytes, ...]") -> bytes:
    r"""Prepend header fields to a message, after removing existing ones.

    If the message starts with a continuation line, that line would extend the last added field. Then a note is the last
    field, so that the sender's text never becomes part of a verdict.

    Examples
    --------
    >>> with_fields(b"X-Surebayes-Label: ham\r\nSubject: a\r\n\r\nb", [(b"X-Surebayes-Label", b"spam")], (OWN,))
    b'X-Surebayes-Label: spam\r\nSubject: a\r\n\r\nb'
    >>> with_fields(b" x\nSubject: a\n\n", [(b"X-Surebayes-Label", b"ham")], (OWN,))
    b'X-Surebayes-Label: ham\nX-Surebayes-Note: the header began with a continuation line\n x\nSubject: a\n\n'
    """
    raw = _without_fields(raw, forged)
    mark = b"\n" if b"\n" in raw or b"\r" not in raw else b"\r"  # \r ends lines only in a message without \n
    line = raw[: raw.find(mark) + 1]
    end = b"\r\n" if line.endswith(b"\r\n") else mark
    envelope = line if line.startswith(b"From ") else b""
    if raw[len(envelope) : len(envelope) + 1] in (b" ", b"\t"):
        fields = [*fields, (b"X-Surebayes-Note", b"the header began with a continuation line")]
    return envelope + b"".join(b"%s: %s%s" % (name, value, end) for name, value in fields) + raw[len(envelope) :]


def _cleaned(head: bytes, names: "tuple[bytes, ...]") -> "Iterator[bytes]":
    """Yield a header that is longer than `HELD`, without forged fields."""
    searched = 0
    while not (head.startswith((b"\n", b"\r\n")) or b"\n\n" in head or b"\n\r\n" in head):
        cut = _last_field(head, searched)
        if cut:
            yield _without_fields(head[:cut], names)
            head = head[cut:]
        elif len(head) > 2 * HELD:
            raise ValueError(f"a header field is longer than {HELD:,} bytes")
        searched = max(len(head) - 1, 0)
        more = _read(_PIECE)
        if not more:
            break
        head += more
    yield _without_fields(head, names)


def _last_field(head: bytes, start: int) -> int:
    """Return the start of the last field after `start`; 0 if there is none."""
    end = len(head) - 1
    while (at := head.rfind(b"\n", start, end)) >= 0:
        if head[at + 1] not in b" \t":
            return at + 1
        end = at
    return 0


# ---------------------------------------------------------------------- standard input, output and error


def _pass_on(head: bytes, fields: "list[tuple[bytes, bytes]]", forged: "tuple[bytes, ...]") -> None:
    """Write the message: its start with the new fields, then the rest of the input."""
    if len(head) < HELD:
        return _write(with_fields(head, fields, forged))
    for place, piece in enumerate(_cleaned(head, forged)):
        _write(piece if place else with_fields(piece, fields, forged))
    while piece := _read(_PIECE):
        _write(piece)
    return None


def _read(size: int) -> bytes:
    """Read `size` bytes of standard input, fewer only at its end."""
    source = getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)
    pieces: list[bytes] = []
    while size:
        piece = source.read(min(size, _PIECE))
        if piece is None:  # an empty non-blocking pipe
            _wait(source, reading=True)
            continue
        if not piece:
            break
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _write(content: bytes) -> None:
    """Write everything to standard output, in parts if need be."""
    sink = getattr(sys.stdout.buffer, "raw", sys.stdout.buffer)
    left = memoryview(content)
    while left:
        written = sink.write(left)
        if written is None:  # a full non-blocking pipe
            _wait(sink, reading=False)
        else:
            left = left[written:]


def _wait(stream: "Any", reading: bool) -> None:
    from select import select

    select([stream] if reading else [], [] if reading else [stream], [])


def _say(text: str) -> None:
    """Write a line to standard error, if possible."""
    try:
        sys.stderr.write(f"surebayes filter: {text}\n")
        sys.stderr.flush()
    except Exception:
        sys.stderr = None  # otherwise Python would try to flush it at exit, and exit with 120
