"""`surebayes filter`: one mail from standard input to standard output, with header fields that say what it is."""

import os
import sys

from surebayes.errors import StoreError
from surebayes.filter.judge import OWN, VERDICTS, MappedModel, decide, without_fields
from surebayes.mail.message import MAX_BYTES

USAGE = """\
usage: surebayes filter -m DIR [--exit-code] [--x-spam] < mail > mail

Judge a mail and add X-Surebayes-* header fields; the body stays as it is.
  -m, --model DIR  the filter's folder (or the environment variable SUREBAYES_MODEL)
  --exit-code      exit with 1 for the positive class, 75 after an error; otherwise 0 always
  --x-spam         add X-Spam-Flag, X-Spam-Score and X-Spam-Status too, and remove those that came with the mail
                   (or SUREBAYES_X_SPAM=1, or x_spam = true in the filter's config.toml); --no-x-spam: don't
"""


class _Arguments:
    """What `surebayes filter` was called with; `problem` says what is wrong with it."""

    __slots__ = ("exit_code", "help", "model", "problem", "x_spam")

    def __init__(self, argv: "list[str]") -> None:
        self.model = os.environ.get("SUREBAYES_MODEL", "")
        told = os.environ.get("SUREBAYES_X_SPAM", "").strip().lower()
        self.x_spam = told not in ("0", "false", "no", "off") if told else None  # None: as the manifest has it
        self.exit_code = self.help = False
        self.problem = ""
        words = iter(argv)
        for word in words:
            if word in ("-m", "--model"):
                self.model = next(words, "")
            elif word.startswith("--model="):
                self.model = word[8:]
            elif word.startswith("-m") and not word.startswith("--"):
                self.model = word[2:]
            elif word == "--exit-code":
                self.exit_code = True
            elif word in ("--x-spam", "--no-x-spam"):
                self.x_spam = word == "--x-spam"
            elif word in ("-h", "--help"):
                self.help = True
            else:
                self.problem = f"there is no option {word!r}"
        if not self.model and not self.help:
            self.problem = "it needs a model: -m DIR, or the environment variable SUREBAYES_MODEL"


def main(argv: "list[str]") -> int:
    """Run `surebayes filter`; give the exit code. Whatever goes wrong inside, the mail comes out."""
    arguments = _Arguments(argv)
    if arguments.help:
        sys.stdout.write(USAGE)
        return 0
    source = sys.stdin.buffer
    head = source.read(MAX_BYTES + 1)
    try:
        if arguments.problem:
            raise ValueError(arguments.problem)
        fields, positive = verdict_fields(arguments.model, head, arguments.x_spam)
        code = int(positive and arguments.exit_code)
    except Exception as error:
        # a mail is worth more than a verdict on it
        kind = type(error).__name__
        said = str(error) if isinstance(error, (StoreError, ValueError, OSError)) else f"{kind}: {error}"
        sys.stderr.write(f"surebayes filter: {said}; the mail is passed on without a verdict\n")
        fields, code = [(b"X-Surebayes-Error", _ascii(said))], 75 if arguments.exit_code else 0
    names = VERDICTS if arguments.x_spam or any(name == b"X-Spam-Flag" for name, _ in fields) else (OWN,)
    return code if _write(with_fields(head, fields, names), source) else 75


def _write(start: bytes, source) -> bool:
    """Write the mail: its start, then whatever is left of the input."""
    try:
        out = sys.stdout.buffer
        out.write(start)
        while more := source.read(1 << 20):
            out.write(more)
        out.flush()
        return True
    except OSError as error:
        sys.stderr.write(f"surebayes filter: the mail could not be written: {error}\n")
        sys.stdout = None  # or Python would try again at exit
        return False


def verdict_fields(folder: str, raw: bytes, x_spam: "bool | None") -> "tuple[list[tuple[bytes, bytes]], bool]":
    """Judge a mail; give the header fields that say so, and whether it is of a class that is looked for."""
    model = MappedModel(folder)
    scoring = model.scoring
    label, score, threshold, probability = decide(scoring, model.scores(raw))
    fields = [
        (b"X-Surebayes-Label", _ascii(label)),
        (b"X-Surebayes-Score", repr(score).encode()),
        (b"X-Surebayes-Threshold", repr(threshold).encode()),
        (b"X-Surebayes-Probability", b"%.6f" % probability),
        (b"X-Surebayes-Model", _ascii(scoring["model"])),
    ]
    positive = label != scoring["classes"][0]
    if model.x_spam if x_spam is None else x_spam:
        said = b"Yes" if positive else b"No"
        fields += [
            (b"X-Spam-Flag", said.upper()),
            (b"X-Spam-Score", b"%.3f" % score),
            (b"X-Spam-Status", b"%s, score=%.3f required=%.3f" % (said, score, threshold)),
        ]
    return fields, positive


def with_fields(raw: bytes, fields: "list[tuple[bytes, bytes]]", forged: "tuple[bytes, ...]") -> bytes:
    r"""Put header fields on top of a mail, after removing those that came with it.

    Examples
    --------
    >>> with_fields(b"X-Surebayes-Label: ham\r\nSubject: a\r\n\r\nb", [(b"X-Surebayes-Label", b"spam")], (OWN,))
    b'X-Surebayes-Label: spam\r\nSubject: a\r\n\r\nb'
    """
    raw = without_fields(raw, forged)
    line = raw[: raw.find(b"\n") + 1]
    end = b"\r\n" if line.endswith(b"\r\n") else b"\n"
    envelope = line if line.startswith(b"From ") else b""
    return envelope + b"".join(b"%s: %s%s" % (name, value, end) for name, value in fields) + raw[len(envelope) :]


def _ascii(text: str) -> bytes:
    """Write text on one line of ASCII, whatever it holds."""
    blank = {"\r", "\n", "\t"}
    letters = [c if " " <= c <= "~" else " " if c in blank else f"\\u{ord(c):04x}" for c in text[:500]]
    return "".join(letters).encode("ascii")
