"""Speed of reading mail: against the standard library on real mail, and hostile mail against harmless mail.

Run it (about a minute; real mail is SpamAssassin's from the folder that SUREBAYES_DATA names, else an invented stream):

    python benchmarks/mail.py

All times are CPU seconds of one core, the best of three, both sides in the same run. A ratio is peer / ours.
"""

import email
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from hostile_mail import HOSTILE, HOSTILE_HEADS, ordinary
from surebayes.kernels import kernel
from surebayes.mail.message import Limits, header_tokens, read_message

html_text = kernel("mail").html_text


def real_mail(most: int | None = None) -> tuple[str, list[bytes]]:
    """Return the name of the corpus, and its messages."""
    folder = os.environ.get("SUREBAYES_DATA")
    if folder and (Path(folder) / "spamassassin.parquet").exists():
        import pyarrow.parquet

        table = pyarrow.parquet.read_table(Path(folder) / "spamassassin.parquet", columns=["raw"])
        return "SpamAssassin", table["raw"].to_pylist()[:most]
    from surebayes.synthetic import as_lists

    return "invented mail", as_lists(3000)[0][:most]


def standard_text(raw: bytes) -> str:
    """Read the same text parts with the standard library; HTML by our scanner, so that MIME is compared."""
    texts = []
    for part in email.message_from_bytes(raw).walk():
        if part.get_content_maintype() == "text":
            data = part.get_payload(decode=True)
            try:
                text = data.decode(part.get_content_charset() or "utf-8", "replace")
            except LookupError:
                text = data.decode("latin-1")
            texts.append(html_text(text, 0) if part.get_content_type() == "text/html" else text)
    return "\n".join(texts)


def html_parts(mails: list[bytes]) -> list[str]:
    parts = []
    for raw in mails:
        for part in email.message_from_bytes(raw).walk():
            if part.get_content_type() == "text/html":
                parts.append(part.get_payload(decode=True).decode("utf-8", "replace"))
    return parts


def selectolax_text(html: str) -> str:
    from selectolax.lexbor import LexborHTMLParser

    return LexborHTMLParser(html).root.text(separator=" ")


def cpu(function, documents, repeats: int = 3) -> float:
    """CPU seconds for all documents, the best of some repeats."""
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        for document in documents:
            function(document)
        best = min(best, time.process_time() - start)
    return best


def hostile_times() -> list[tuple[str, int, float, float]]:
    """Return name, bytes, CPU seconds, and CPU seconds of an ordinary mail of the same size."""
    read_message(ordinary(10_000))
    times = []
    for name, (make, _) in HOSTILE.items():
        raw = make()
        times.append((name, len(raw), cpu(read_message, [raw]), cpu(read_message, [ordinary(len(raw))])))
    return times


def head_times() -> list[tuple[str, float]]:
    """Return name and CPU seconds of the tokens of a head of some 8 to 16 MB, with no limit to its length."""
    whole = Limits(header_length=10**9)
    messages = {name: read_message(make() + b"\n\n", limits=whole) for name, make in HOSTILE_HEADS.items()}
    return [(name, cpu(header_tokens, [message])) for name, message in messages.items()]


def rows() -> list[tuple[str, float, float, float, float]]:
    """Return the name, our CPU seconds, the peer's, peer / ours, and the minimum ratio."""
    name, mails = real_mail()
    parts = html_parts(mails)
    hostile = hostile_times()
    worst = max(hostile, key=lambda mail: mail[2] / mail[3])
    slowest = max(hostile, key=lambda mail: mail[2])
    longest = max(head_times(), key=lambda head: head[1])
    measured = [
        (
            f"MIME to text, {len(mails):,} messages of {name} (email)",
            cpu(read_message, mails),
            cpu(standard_text, mails),
            8.0,
        ),
        (
            f"the same with fingerprints, {name} (email without)",
            cpu(lambda raw: read_message(raw).fingerprint, mails),
            cpu(standard_text, mails),
            4.0,
        ),
        (
            f"worst of {len(hostile)} hostile messages: {worst[0]} (ordinary message of that size)",
            worst[2],
            worst[3],
            0.1,
        ),
        (f"slowest of {len(hostile)} hostile messages: {slowest[0]} (250 ms)", slowest[2], 0.25, 1.0),
        (f"slowest of {len(HOSTILE_HEADS)} hostile heads: {longest[0]} (500 ms)", longest[1], 0.5, 1.0),
    ]
    try:
        import selectolax.lexbor  # noqa: F401
    except ImportError:
        pass
    else:
        ours, theirs = cpu(lambda html: html_text(html, 0), parts), cpu(selectolax_text, parts)
        measured.append((f"HTML to text, {len(parts):,} parts of {name} (selectolax)", ours, theirs, 1.5))
    return [(what, ours, peer, peer / ours, floor) for what, ours, peer, floor in measured]


def main() -> None:
    print(f"{'what':90} {'ours':>10} {'peer':>10} {'ratio':>7} {'floor':>6}")
    for what, ours, peer, ratio, floor in rows():
        print(f"{what:90} {1000 * ours:7.1f} ms {1000 * peer:7.1f} ms {ratio:7.2f} {floor:6.1f}")
    print(f"\n{'hostile mail':34} {'bytes':>11} {'ours':>9} {'ordinary':>9} {'times an ordinary one':>22}")
    for name, size, ours, harmless in hostile_times():
        print(f"{name:34} {size:11,} {1000 * ours:6.2f} ms {1000 * harmless:6.2f} ms {ours / harmless:22.2f}")


if __name__ == "__main__":
    main()
