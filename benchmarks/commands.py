"""Start-up cost of commands, against an idle Python, in CPU time of the same run.

Run it (half a minute):

    python benchmarks/commands.py

The filter is trained on synthetic mail; every command is started once per message, as by a mail server. Figures are
medians of nine runs. A ratio is ours / a bare Python. The package runs from its installation: the import hook of an
editable installation costs a little more than a wheel.
"""

import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from starting import COMMAND, cpu_of

import surebayes as sb
from surebayes import synthetic

_RUNS = 9


def rows() -> Iterator[tuple[str, float, float, float, float | None]]:
    """Yield (name, ours, a bare Python, ours / bare, the ceiling)."""
    mails, labels = synthetic.as_lists(400, seed=3)
    mail = sorted(mails, key=len)[200]
    with tempfile.TemporaryDirectory() as folder:
        model = str(Path(folder, "filter"))
        with sb.Filter.create(model) as opened:
            opened.train(zip(mails, labels), reserve=0.1)
        for what, words, ceiling in (
            ("filter < mail", ("filter", "-m", model), 2.5),
            ("classify -", ("classify", "-m", model, "-"), None),
            ("explain -", ("explain", "-m", model, "-"), None),
            ("forget -, of an unknown message", ("forget", "-m", model, "-"), None),
            ("--help", ("--help",), None),
        ):
            bare, ours = [], []
            cpu_of(COMMAND, *words, mail=mail)  # what Python compiles is kept from here on
            for _ in range(_RUNS):  # turn by turn: whoever else uses the machine slows both
                bare.append(cpu_of("pass"))
                ours.append(cpu_of(COMMAND, *words, mail=mail))
            peer, ours_seconds = statistics.median(bare), statistics.median(ours)
            yield what, ours_seconds, peer, ours_seconds / peer, ceiling


if __name__ == "__main__":
    for what, ours_seconds, peer, ratio, _ in rows():
        print(f"{what:<32} {ours_seconds:.3f} s, bare Python {peer:.3f} s: {ratio:.2f}x")
