"""Coverage-guided fuzzing of read_message: it never raises, and C and Python read the same.

    python fuzz/read_message.py --seconds 60 --seed 1

Mails are mutated; one that reaches new lines of the reader (in Python, where lines can be watched) joins the
pool. Each mail is also read with the kernel, and the results are compared. What fails is made smaller and kept in
fuzz/regressions/read_message/, where the tests read it from then on.
"""

import argparse
import hashlib
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from hostile_mail import HOSTILE, ordinary
from surebayes import kernels
from surebayes.kernels import kernel
from surebayes.mail import message, readers

KEPT = Path(__file__).parent / "regressions" / "read_message"
WATCHED = {
    "message.py", "headers.py", "header_tokens.py", "charsets.py", "html.py", "html_style.py",
    "html_references.py", "readers.py",
    "mime.py",
}  # fmt: skip
KERNEL = kernel("mail")
LIMITS = (None, message.Limits(bytes=900, parts=4, depth=2, headers=5, header_length=60, decoded=80, encoded_words=2))
WORDS = [
    *(b"\n", b"\r\n", b"\r", b" ", b"\t", b":", b";", b"=", b'"', b"'", b"\\", b"--", b"<", b">", b"&", b"\0", b"\xff"),
    *(b"\nContent-Type: ", b"text/html", b"text/plain; charset=", b"multipart/mixed; boundary=sep", b"\n--sep\n"),
    *(b"\n--sep--\n", b"message/rfc822\n\n", b"\nContent-Transfer-Encoding: ", b"base64", b"quoted-printable"),
    *(b"x-uuencode\n\nbegin 644 x\n", b"\nSubject: ", b"=?utf-8?q?", b"=?utf-8?b?", b"?=", b"filename*0*=utf-8''%41"),
    *(
        b"\nFrom: Ann <a@b.c>",
        b"\nTo: ",
        b"\nReceived: from a.b.c [1.2.3.4]",
        b"\nX-Mailer: ",
        b"\nDate: 1 2 3 4 +0100",
    ),
    *(b"@", b".", b",", b"charset=", b"\x1c", b"\x0b"),
    *(b"\nMessage-ID: <a@b>", b"From ", b">From ", b"utf-7", b"utf-16", b"gb2312", b"iso-2022-jp", b"windows-1255"),
    *(b"<p>", b"</p>", b"<!--", b"-->", b"<script>", b"</script>", b"<table><tr><td>", b"</table>", b"<title>"),
    *(
        b"<font color=white>",
        b"</font>",
        b"<p style='display:none'>",
        b"<i style=font-size:0>",
        b"<b hidden>",
        b"&amp;",
    ),
    *(b"&#65;", b"&#x41", b"&notit;", b"<img alt=x src=y>", b"<a href=z>", b"background:url(", b"color:rgb(1,2,3)"),
]


def read(raw: bytes, kernel, flags: int, limits: message.Limits | None) -> tuple:
    """Read with some kernel; everything that a message says about itself."""
    kernels._chosen["mail"] = kernel
    options = {"keep_hidden": bool(flags & 1), "alt_text": bool(flags & 2), "link_targets": bool(flags & 4)}
    mail = message.read_message(raw, limits=limits, **options)
    (mail.subject + mail.text).encode()  # no lone surrogates
    tokens = message.header_tokens(mail)
    return mail.subject, mail.text, mail.headers.items(), mail.fingerprint, mail.truncated, mail.attachments, tokens


def check(raw: bytes, watch=None) -> None:
    """Raise if a mail breaks the reader or is read differently in C and in Python; Python runs under `watch`."""
    flags, limits = len(raw) % 8, LIMITS[sum(raw[:4]) % 2]
    sys.settrace(watch)
    try:
        expected = read(raw, readers, flags, limits)
    finally:
        sys.settrace(None)
    found = read(raw, KERNEL, flags, limits)
    assert found == expected, "C and Python read different things"


class Coverage:
    """Which steps from line to line of the watched files have been seen."""

    def __init__(self) -> None:
        self.seen: set[tuple[str, int, int]] = set()
        self.new = 0

    def __call__(self, frame, event, argument):
        """Watch a call of a function in one of the files."""
        name = frame.f_code.co_filename.rpartition("/")[2]
        if name not in WATCHED:
            return None
        last = 0

        def line(frame, event, argument):
            nonlocal last
            step = (name, last, frame.f_lineno)
            last = frame.f_lineno
            if step not in self.seen:
                self.seen.add(step)
                self.new += 1
            return line

        return line


def mutated(raw: bytes, pool: list[bytes], dice: random.Random) -> bytes:
    """Change a mail in one to six places."""
    for _ in range(dice.randint(1, 6)):
        at, size, what = dice.randint(0, len(raw)), dice.choice((0, 0, 1, 2, 8, 40)), dice.random()
        if what < 0.6:
            piece = dice.choice(WORDS)
        elif what < 0.75:
            piece = dice.randbytes(dice.randint(0, 4))
        else:
            other = dice.choice(pool)
            start = dice.randint(0, len(other))
            piece = other[start : start + dice.randint(0, 200)]
        raw = raw[:at] + piece + raw[at + size :]
    return raw[:3000]


def smaller(raw: bytes) -> bytes:
    """Cut out whatever isn't needed to fail."""
    size = len(raw) // 2
    while size:
        at = 0
        while at < len(raw):
            shorter = raw[:at] + raw[at + size :]
            try:
                check(shorter)
                at += size
            except Exception:
                raw = shorter
        size //= 2
    return raw


def fuzz(seconds: float, seed: int) -> int:
    """Fuzz for some time; return how many mails failed."""
    dice = random.Random(seed)
    coverage = Coverage()
    pool = [ordinary(700), *(make()[:2000] for make, _ in HOSTILE.values())]
    pool += [path.read_bytes() for path in sorted(KEPT.glob("*.eml"))] if KEPT.is_dir() else []
    for raw in pool:
        check(raw, coverage)
    failed = tried = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end and failed < 10:
        raw = mutated(dice.choice(pool), pool, dice)
        coverage.new = 0
        tried += 1
        try:
            check(raw, coverage)
        except Exception as error:
            failed += 1
            raw = smaller(raw)
            KEPT.mkdir(parents=True, exist_ok=True)
            path = KEPT / f"{hashlib.sha256(raw).hexdigest()[:16]}.eml"
            path.write_bytes(raw)
            print(f"{type(error).__name__}: {error}\n  kept as {path}")
        if coverage.new:
            pool.append(raw)
    print(
        f"read_message: {tried:,} mails, {len(coverage.seen):,} steps seen, {len(pool):,} in the pool, {failed} failed"
    )
    return failed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    sys.exit(1 if fuzz(arguments.seconds, arguments.seed) else 0)
