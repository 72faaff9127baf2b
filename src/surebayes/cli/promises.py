"""The `certify` command: a promise for the scores of any classifier, from a table."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from surebayes.cli.shared import inputs as _inputs
from surebayes.cli.shared import positive as _positive
from surebayes.cli.shared import show as _show
from surebayes.cli.shared.command import Command, ParamType, setting

if TYPE_CHECKING:
    from surebayes.guarantees.certificate import Certificate


class _MislabelledCounts(ParamType):
    """Type of ``--mislabelled``: two integers, A,M."""

    name = "A,M"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        positive, comma, missing = str(value).partition(",")
        if not comma or not positive.strip().isdigit() or not missing.strip().isdigit():
            self.fail(f"Expected two integers such as 3,2. Got {value!r}.", param, ctx)
        return int(positive), int(missing)


def mislabelled_option(function: Any) -> Any:
    """Add ``--mislabelled A,M``."""
    return click.option(
        "--mislabelled", type=_MislabelledCounts(), default=(0, 0), metavar="A,M", help=(
            "Allow for wrong labels: at most A documents labelled negative are really positive, and at most M "
            "negatives are missing because they were labelled positive. Default: 0,0."
        )
    )(function)  # fmt: skip


def anytime_option(function: Any) -> Any:
    """Add ``--anytime``."""
    return click.option("--anytime", is_flag=True, help=(
        "Keep the promise valid no matter how often you recalibrate with more documents. Requires about a quarter more "
        "documents."
    ))(function)  # fmt: skip


@click.command(
    cls=Command,
    first=("score", "label", "positive", "max_fpr", "confidence"),
    sections={"Promise": ("mislabelled", "anytime", "group")},
    arguments={"FILE": "A table: CSV, TSV, JSON lines or Parquet, with a score and a correct label in each row."},
    examples=(
        ("surebayes certify scores.csv --score spam_score --label is_spam --max-fpr 0.001",
         "Find the threshold for at most 0.1% false alarms, with 95% confidence."),
        ("surebayes certify scores.jsonl --positive fraud --mislabelled 3,2",
         "Allow for 3 positives labelled negative, and 2 missing negatives."),
    ),
)  # fmt: skip
@click.option(
    "--score", default="score", metavar="COL", help="The table column or JSON key of the score. Default: score."
)
@setting("label")
@click.option("--positive", metavar="LABEL", help=(
    "The positive label; alarms on any other label are false. Default: spam, junk, 1, true, yes or similar, if there "
    "are two labels."
))  # fmt: skip
@setting("max_fpr")
@setting("confidence", about="The confidence with which the promise holds.")
@mislabelled_option
@anytime_option
@setting("encoding")
@setting("delimiter")
@click.option("--header/--no-header", default=True, help=(
    "Whether the first line of a CSV file names its columns; if not, --score and --label take column numbers."
))  # fmt: skip
@click.option("--group", metavar="COL", help=(
    "The column that assigns rows to groups, such as copies, threads or senders; each group counts as one document. "
    "Default: rows with equal scores of more than seven digits count as copies."
))  # fmt: skip
@click.option("--skip-bad", is_flag=True, help="Skip rows without a finite score or a label, and report how many.")
@_show.output_options
@click.argument("file", metavar="FILE", type=click.Path(readable=False))
def certify(
    file: str,
    score: str,
    label: str,
    positive: str | None,
    max_fpr: float,
    confidence: float,
    mislabelled: tuple[int, int],
    anytime: bool,
    group: str | None,
    skip_bad: bool,
    as_json: bool | None,
    **options: Any,
) -> None:
    """Certify a threshold that keeps the false-alarm rate of any classifier's scores within --max-fpr.

    The classifier must not have been trained on these rows, and higher scores must be evidence for the positive class.
    """
    from surebayes.datasets.score_tables import positive_label, read_scores
    from surebayes.datasets.sources import Source
    from surebayes.guarantees.certifying import certify as certified
    from surebayes.guarantees.positive_class import positive_of

    left_out: list[str] = []
    options["delimiter"] = _inputs.delimiter_of(options["delimiter"])
    table = Source(file, text=score, label_column=label, skip_bad=left_out.append if skip_bad else None, **options)
    scores, labels, groups = read_scores(table, group)
    if positive is None and len(set(labels)) == 2 and positive_of(labels) is None and sys.stdin.isatty():
        positive = _positive.resolve_positive(sorted(set(labels)), max(labels), "give --positive NAME")
    name, other = positive_label(labels, positive, file)
    certificate = certified(
        scores,
        [truth == name for truth in labels],
        max_fpr=max_fpr,
        confidence=confidence,
        mislabelled=mislabelled,
        groups=groups,
        anytime=anytime,
        pos_label=name,
        neg_label=other,
    )
    if _show.wants_json(as_json):
        _show.print_json({**certificate.to_dict(), "left_out": len(left_out)})
        return
    _print_certificate(certificate)
    if left_out:
        _show.say(f"Left out: {len(left_out):,} rows. The first: {left_out[0]}")


def _print_certificate(certificate: Certificate) -> None:
    from surebayes.guarantees.certificate import interval_confidence

    low, high = certificate.recall_interval
    level = _show.percent(interval_confidence(certificate.confidence))
    more = [f"; {count:,} more of the same groups" if count else "" for count in certificate.dependent]
    rows = [
        ("threshold", f"{certificate.threshold:.6g}", f"scores strictly above it are {certificate.pos_label}"),
        ("negatives", f"{certificate.n_negatives:,}", f"at most {certificate.allowed:,} of them above{more[0]}"),
        ("positives", f"{certificate.n_positives:,}", more[1].removeprefix("; ")),
        ("recall", f"{certificate.recall:.4f}", f"{level} interval: {low:.4f} to {high:.4f}"),
    ]
    _show.print_table(("", "value", ""), rows)
    for promise in certificate.promises:
        _show.say(f"Promised: {promise}.", indent=2)
    if certificate.recall == 0:
        _show.say(
            "No score exceeds the threshold: the highest scores are tied, or negatives score as high as positives."
        )
