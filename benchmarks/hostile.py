"""Worst cost of hostile input per byte, in CPU time and in memory: every byte of input has a bounded price.

    python benchmarks/hostile.py
    python benchmarks/hostile.py --keep

Each input is made to hurt: mail that breaks parsers, characters that the process has never met, mailboxes full of lines
that look like the start of a message, input that compresses to nearly nothing. An ordinary message of 1 MB is
measured for comparison. `--keep` writes the figures to benchmarks/hostile.json, the source of docs/security.md.
"""

import gzip
import json
import random
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from hostile_mail import HOSTILE, ordinary
from surebayes.datasets.sources import Source
from surebayes.kernels import kernel
from surebayes.mail.header_tokens import header_columns
from surebayes.mail.message import plain_head, read_message

MB = 1 << 20
KEPT = Path(__file__).parent / "hostile.json"
LARGE = 100_000  # minimum bytes for which the fixed cost of a call is negligible


def judge(raw: bytes) -> None:
    """Process a message up to the model."""
    message = read_message(raw)
    header_columns(message, 1 << 20)
    text = kernel()
    text.hash_rows(text.Analyzer("word", 1, 2, shortest=1), 1 << 20, [message.text[:20_000]])
    text.hash_rows(text.Analyzer("bytes", 4, 6), 1 << 20, [plain_head(raw)])
    assert message.fingerprint


def words(text: str) -> None:
    """Cut a text into words."""
    kernel().hash_rows(kernel().Analyzer("word"), 1 << 20, [text])


def mailbox(raw: bytes) -> None:
    """Read a mailbox."""
    with tempfile.NamedTemporaryFile(suffix=".mbox") as file:
        file.write(b"From a@b Mon Jan  1 00:00:00 2024\n" + raw)
        file.flush()
        for _ in Source(file.name, "x", "mbox"):
            pass


def packed_mailbox(raw: bytes) -> None:
    """Read a compressed mailbox; its size is that of its content."""
    with tempfile.NamedTemporaryFile(suffix=".mbox.gz") as file:
        file.write(gzip.compress(b"From a@b Mon Jan  1 00:00:00 2024\n" + raw))
        file.flush()
        for _ in Source(file.name, "x", "mbox"):
            pass


def journal(raw: bytes) -> None:
    """Compress a document's content for the journal, and read it again."""
    pool = kernel("pool")
    assert pool.decompress(pool.compress([raw])[0], len(raw)) == raw


def parameters(value: bytes) -> bytes:
    """Make a message of parts with a long parameter each."""
    part = b"--b\nContent-Type: application/x; name*=" + value + b"\n\nx\n"
    return b"Content-Type: multipart/mixed; boundary=b\n\n" + part * (4 * MB // len(part))


def inputs() -> "list[tuple[str, Callable, bytes | str]]":
    """Return names, functions and their inputs; inputs that must be new to the process come first."""
    unseen = "".join(
        [chr(c) for low in range(0, 256, 7) for c in range(0x100 + low, 0x110000, 256) if not 0xD8 <= c >> 8 < 0xE0]
    )
    cases: list[tuple[str, Callable, bytes | str]] = [("text of unseen characters", words, unseen)]
    cases += [(name, judge, make()) for name, (make, _) in HOSTILE.items()]
    cases += [
        ("parameters of percent signs", judge, parameters(b"utf-8''" + b"%41" * 5000)),
        ("parameters of bad percent signs", judge, parameters(b"utf-8''" + b"%zz" * 5000)),
        ("header of bare carriage returns", judge, b"Subject: x\n" + b"X-Spam: y\r" * (MB // 2) + b"\n\nbody"),
        ("mailbox of quoted From lines", mailbox, b">From x\n" * (2 * MB)),
        ("mailbox of From lines", mailbox, b"From x\n" * (2 * MB)),
        ("mailbox of From lines with times", mailbox, (b"From " + b"1:111:" * 160 + b"\n") * (16 * MB // 970)),
        ("compressed mailbox of one long line", packed_mailbox, b"a" * (16 * MB)),
        ("compressed mailbox of From lines", packed_mailbox, b"From x\n" * (2 * MB)),
        ("journal: zeros", journal, bytes(16 * MB)),
        ("journal: no two places alike", journal, random.Random(0).randbytes(4 * MB)),
        ("journal: many short matches", journal, b"".join(b"%07d" % (n * 7919 % 10**7) for n in range(MB // 2))),
        ("an ordinary mail", judge, ordinary(MB)),
    ]
    return cases


def price(function: Callable, data: "bytes | str") -> tuple[float, float]:
    """CPU nanoseconds and peak bytes of memory for a byte of input."""
    size = len(data) if isinstance(data, bytes) else len(data.encode())
    start = time.process_time()
    function(data)
    nanoseconds = 1e9 * (time.process_time() - start) / size
    tracemalloc.start()
    function(data)
    peak = tracemalloc.get_traced_memory()[1] / size
    tracemalloc.stop()
    return nanoseconds, peak


def worst() -> str:
    """Return the sentence of the documentation, from the figures that were kept."""
    kept = json.loads(KEPT.read_text())
    most, name = max((figure["nanoseconds"], name) for name, figure in kept.items() if figure["large"])
    peak, largest = max((figure["memory"], name) for name, figure in kept.items() if figure["large"])
    usual = kept["an ordinary mail"]
    return (
        f"Of {len(kept)} such inputs the slowest takes {most:.0f} ns of CPU time per byte ({name}), and the largest "
        f"takes {peak:.0f} bytes of memory per byte ({largest}); an ordinary message of 1 MB takes "
        f"{usual['nanoseconds']:.0f} ns and {usual['memory']:.0f} bytes."
    )


def main() -> None:
    judge(ordinary(10_000))
    print(f"{'input':44} {'ns a byte':>10} {'bytes a byte':>13}")
    figures = {}
    for name, function, data in inputs():
        nanoseconds, peak = price(function, data)
        figures[name] = {"nanoseconds": round(nanoseconds, 1), "memory": round(peak, 2), "large": len(data) >= LARGE}
        print(f"{name:44} {nanoseconds:10.1f} {peak:13.2f}", flush=True)
    large = [(figure["nanoseconds"], figure["memory"], name) for name, figure in figures.items() if figure["large"]]
    peak, name = max((peak, name) for _, peak, name in large)
    print(f"\nworst: {max(large)[0]:.0f} ns a byte ({max(large)[2]}); {peak:.0f} bytes of memory a byte ({name})")
    if sys.argv[1:] == ["--keep"]:
        KEPT.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
