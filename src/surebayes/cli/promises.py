"""certify, audit: promises for the scores of any classifier, from a table or from header fields of mail."""

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
    from surebayes.research.audit import Audit, Budgeted, Delivered, ObservedRate


class _MislabelledCounts(ParamType):
    """A,M: two whole numbers."""

    name = "A,M"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        foreign, comma, missing = str(value).partition(",")
        if not comma or not foreign.strip().isdigit() or not missing.strip().isdigit():
            self.fail(f"Expected two whole numbers such as 3,2. Got {value!r}.", param, ctx)
        return int(foreign), int(missing)


def mislabelled_option(function: Any) -> Any:
    """Add ``--mislabelled A,M``."""
    return click.option(
        "--mislabelled", type=_MislabelledCounts(), default=(0, 0), metavar="A,M", help=(
            "Allow for wrong labels: at most A of the negatives are positive, and at most M negatives are missing. "
            "Default: 0,0."
        )
    )(function)  # fmt: skip


def anytime_option(function: Any) -> Any:
    """Add ``--anytime``."""
    return click.option("--anytime", is_flag=True, help=(
        "Make the promise valid for every number of documents at once, so that you may calibrate again with more of "
        "them "
        "as often as you like. Needs about a quarter more documents."
    ))(function)  # fmt: skip


_PLOT = click.option("--plot", "plots", type=click.Path(readable=False, dir_okay=False), multiple=True, help=(
    "Draw the ROC curve up to 10% false positives into a PNG, SVG or PDF file (needs the extra `plots`); may be "
    "repeated."
))  # fmt: skip


@click.command(
    cls=Command,
    first=("score", "label", "positive", "max_fpr", "confidence"),
    sections={"Promise": ("mislabelled", "anytime", "group")},
    arguments={"FILE": "A table: CSV, TSV, JSON lines or Parquet, with a score and a correct label in each row."},
    examples=(
        ("surebayes certify scores.csv --score spam_score --label is_spam --max-fpr 0.001",
         "Find the threshold for at most 0.1% false alarms, with confidence 95%."),
        ("surebayes certify scores.jsonl --positive fraud --mislabelled 3,2",
         "Allow for 3 wrong labels and 2 missing documents among the rest."),
    ),
)  # fmt: skip
@click.option(
    "--score", default="score", metavar="COL", help="The table column or JSON key of the score. Default: score."
)
@setting("label")
@click.option("--positive", metavar="LABEL", help=(
    "The label whose false alarms are limited. Default: the one of two labels that is spam, junk, 1, true, yes or the "
    "like."
))  # fmt: skip
@setting("max_fpr")
@setting("confidence", about="The confidence that the promise holds.")
@mislabelled_option
@anytime_option
@setting("encoding")
@setting("delimiter")
@click.option("--header/--no-header", default=True, help=(
    "Whether the first line of a CSV file names its columns; if not, --score and --label take column numbers."
))  # fmt: skip
@click.option("--group", metavar="COL", help=(
    "The column of groups that count as one document each: copies, a thread, a sender. Default: equal scores with more "
    "than seven digits are copies."
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
    """Certify a threshold for the scores of any classifier: its false alarms stay below --max-fpr.

    The classifier must not have been trained on these rows. Higher scores mean more positive.
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
        positive = _positive.settled(sorted(set(labels)), max(labels), "give --positive NAME")
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
        _show.say("Nothing lies above the threshold: the scores tie at the top, or negatives score as positives do.")


@click.command(
    cls=Command,
    first=("ham", "spam", "by", "max_fpr", "confidence"),
    sections={"A table of scores": ("table", "score", "label", "positive", "group")},
    examples=(
        ("surebayes audit --ham Maildir/.Archive --spam Maildir/.Junk --by X-Spam-Status",
         "Measure SpamAssassin's scores on your own mail."),
        ("surebayes audit --ham ham.mbox --spam spam.mbox --by X-Bogosity --plot roc.png",
         "Measure bogofilter's scores, and draw the ROC curve."),
        ("surebayes audit --ham ham/ --spam spam/ --by X-My-Score --threshold 7.5 --no-beside",
         "Measure any header field with a number, without the comparison."),
        ("surebayes audit --scores scores.csv --threshold 0.5 --over-time audit.png",
         "Measure a column of scores, and draw the false alarms over time."),
    ),
)  # fmt: skip
@click.option("--ham", type=click.Path(readable=False), multiple=True, help=(
    "Good mail: a Maildir, mbox, MH folder, folder of files, or file; may be repeated."
))  # fmt: skip
@click.option("--spam", type=click.Path(readable=False), multiple=True, help="Spam; may be repeated.")
@click.option("--scores", "table", metavar="FILE", type=click.Path(readable=False), help=(
    "A table instead of mail: CSV, TSV, JSON lines or Parquet, with a score and a correct label in each row, in order "
    "of "
    "time."
))  # fmt: skip
@click.option("--score", default="score", metavar="COL", help="The column of the score. Default: score.")
@setting("label")
@click.option("--positive", metavar="LABEL", help=(
    "The label whose false alarms are counted. Default: spam, junk, 1, true, yes or the like."
))  # fmt: skip
@click.option("--group", metavar="COL", help="The column of groups that count as one document each.")
@click.option("--by", metavar="HEADER", help=(
    "The header field with the score: X-Spam-Status (SpamAssassin), X-Spamd-Result or X-Spam-Score (rspamd), "
    "X-Bogosity (bogofilter), or any other field, whose first number counts."
))  # fmt: skip
@click.option("--threshold", type=float, metavar="SCORE", help=(
    "The score from which that filter calls mail spam. Default: as in the header field."
))  # fmt: skip
@setting("max_fpr")
@setting("confidence", about="The confidence of the promise and of the intervals.")
@click.option("--group-by", type=click.Choice(("mail", "copies", "near", "thread", "sender")), default="near", help=(
    "The messages that count as one: none, copies, near copies, also one thread, or also one sender. "
    "Default: near."
))  # fmt: skip
@click.option("--burst", type=float, default=5.0, metavar="N", help=(
    "The burst of the alarm budget that is simulated on the scores. Default: 5."
))  # fmt: skip
@click.option("--over-time", metavar="FILE", type=click.Path(readable=False, dir_okay=False), help=(
    "Draw the false alarms and the bounds on their rate over time into a PNG, SVG or PDF file (needs the extra "
    "`plots`)."
))  # fmt: skip
@click.option("--beside/--no-beside", default=True, help=(
    "Compare with a surebayes filter that learns from the same mail. Default: yes."
))  # fmt: skip
@_PLOT
@_show.output_options
def audit(
    ham: tuple[str, ...],
    spam: tuple[str, ...],
    table: str | None,
    by: str | None,
    plots: tuple[str, ...],
    over_time: str | None,
    as_json: bool | None,
    **options: Any,
) -> None:
    """Measure the scores that another filter left in your mail, and certify a threshold for them.

    Prints the false-alarm rate of that filter's threshold with an interval and with bounds that hold at all times; the
    threshold that can be certified; the effect of an alarm budget; and the spam found at low false-alarm rates. For
    comparison, a new surebayes filter judges each message before learning it, in order of time. Messages without the
    header field are skipped and counted. --scores reads a table instead.
    """
    from surebayes.filter.evaluation import check_picture, draw_roc
    from surebayes.research import audit as audits

    for path in (*plots, *([over_time] if over_time else [])):
        check_picture(path)
    of_table = {name: options.pop(name) for name in ("score", "label", "positive", "group")}
    if table is not None:
        if ham or spam or by:
            raise click.UsageError("--scores replaces --ham, --spam and --by. Give one or the other.")
        report = _audit_of_table(table, of_table, options)
    elif not (ham and spam and by):
        raise click.UsageError("No scores. Give --ham, --spam and --by, or a table with --scores.")
    else:
        report = _audit_of_mail(ham, spam, by, options)
    curves = {ranking.system: ranking.roc for ranking in report.rankings}
    mark = report.in_use.false_alarms.value if report.in_use else None
    for path in plots:
        draw_roc(curves, path, mark=mark)
    if over_time:
        audits.draw_over_time(report, over_time)
    pictures = [*plots, *([over_time] if over_time else [])]
    if _show.wants_json(as_json):
        _show.print_json({**report.to_dict(), "plots": pictures})
        return
    _print_audit(report)
    for path in pictures:
        _show.say(f"Wrote {path}")


def _audit_of_mail(ham: tuple[str, ...], spam: tuple[str, ...], by: str, options: dict[str, Any]) -> Audit:
    from surebayes.datasets.sources import Source, Sources
    from surebayes.research.audit import audit as audited

    mails = Sources([Source(path, "ham") for path in ham] + [Source(path, "spam") for path in spam])
    with _show.progress("reading", _inputs.total(_inputs.Inputs(mails)), "mails") as counter:
        pairs = ((_raw(mail), str(mail.label)) for mail in _show.tracked(mails, counter))
        return audited(pairs, by, progress=counter.step, **options)


def _audit_of_table(path: str, columns: dict[str, Any], options: dict[str, Any]) -> Audit:
    from surebayes.datasets.score_tables import positive_label, read_scores
    from surebayes.datasets.sources import Source
    from surebayes.research.audit import audit_scores

    score, label = columns["score"], columns["label"]
    scores, labels, groups = read_scores(Source(path, text=score, label_column=label), columns["group"])
    name, _ = positive_label(labels, columns["positive"], path)
    known = {key: options[key] for key in ("max_fpr", "confidence", "threshold", "burst")}
    return audit_scores(scores, [truth == name for truth in labels], score, groups=groups, **known)


def _raw(mail: Any) -> bytes:
    return mail.content if isinstance(mail.content, bytes) else mail.content.encode("utf-8", "surrogateescape")


def _print_audit(audit: Audit) -> None:
    from surebayes.filter.evaluation import roc_text

    _show.say(f"{audit.ham:,} ham and {audit.spam:,} spam with a score in {audit.header}.")
    if any(audit.without_score.values()):
        missing = " and ".join(f"{count:,} {label}" for label, count in audit.without_score.items() if count)
        _show.say(f"Skipped for lack of a score: {missing}. The remaining messages may not be representative.")
    click.echo()
    _print_in_use(audit)
    if audit.certificate is not None:
        _show.say("A promise for these scores:")
        _show.say(f"{audit.certificate}.", indent=2)
        _show.say("Such filters compare with >=: configure a number just above this threshold.")
    else:
        _show.say(f"No threshold can be certified: {audit.too_few}", indent=2)
    if audit.anytime is not None:
        _show.say(f"Valid at all times: above {audit.anytime.threshold:.6g}.", indent=2)
    elif audit.anytime_too_few and audit.certificate is not None:
        _show.say(f"Valid at all times: {audit.anytime_too_few}", indent=2)
    if audit.budgeted is not None:
        _print_budget(audit.budgeted)
    click.echo()
    rows = [_ranking_row(ranking) for ranking in audit.rankings]
    columns = ("recall at", "0.01%", "0.1%", "1%", "its own rate", "AUC_0.1")
    later = "Spam found at each false-alarm rate, on the mail after the first third"
    beside = " (surebayes starts empty and learns from each message)" if len(rows) > 1 else ""
    _show.print_table(columns, rows, f"{later}{beside}:")
    if audit.ours is not None:
        _show.say(f"surebayes: {audit.ours}.", indent=2)
    mark = audit.in_use.false_alarms.value if audit.in_use else None
    click.echo(f"\n{audit.header}")
    click.echo(roc_text(audit.rankings[0].roc, width=52, mark=mark))
    if mark is not None and mark <= 0.1:
        click.echo("       ▲ the current threshold")


def _print_budget(budget: Budgeted) -> None:
    bound = f"{budget.burst:g} + {_show.percent(budget.rate)} n"
    mute = f"; alarms were muted for {budget.mute:.1%} of the mail" if budget.mute else ""
    _show.say(
        f"An alarm budget of {bound} on these scores, after the first third: {budget.alarms:,} of {budget.ham:,} ham "
        f"flagged, recall {budget.recall:.4f}{mute}. Any n consecutive ham have at most {bound} alarms, whatever "
        f"arrives."
    )


def _print_delivered(delivered: Delivered, confidence: float) -> None:
    from surebayes.guarantees.budget import between

    _show.say(
        f"Delivered so far: {delivered.alarms:,} false alarms in {delivered.n:,} ham; the true rate is "
        f"{between(delivered.lower, delivered.upper, 3)}, valid at all times with confidence {confidence:g}."
    )
    shown = delivered.points[:: max(len(delivered.points) // 8, 1)][-9:]
    if shown[-1] != delivered.points[-1]:
        shown.append(delivered.points[-1])
    most = max(alarms for _, _, alarms, _, _ in shown) or 1
    rows = [
        (day or "", f"{n:,}", f"{alarms:,}", between(low, high, 3), "█" * round(12 * alarms / most))
        for day, n, alarms, low, high in shown
    ]
    _show.print_table(("day", "ham", "alarms", "true rate", ""), rows, "Over time:")


def _print_in_use(audit: Audit) -> None:
    if audit.in_use is None:
        _show.say(f"{audit.header} holds no verdict: give --threshold to measure the current one.")
        return
    stated = "" if audit.in_use.threshold is None else f" (from {audit.in_use.threshold:g} on)"
    ends = f"{audit.confidence:.0%} interval"
    rows = [
        _rate_row("false alarms", "ham called spam", audit.in_use.false_alarms),
        _rate_row("recall", "spam called spam", audit.in_use.recall),
    ]
    _show.print_table(("", "rate", ends, "mails", ""), rows, f"The current threshold{stated}:")
    if audit.delivered is not None:
        _print_delivered(audit.delivered, audit.confidence)


def _rate_row(name: str, about: str, rate: ObservedRate) -> tuple[str, ...]:
    return name, f"{rate.value:.3%}", f"{rate.low:.3%} to {rate.high:.3%}", f"{rate.count:,} of {rate.of:,}", about


def _ranking_row(ranking: Any) -> tuple[str, ...]:
    same = "" if ranking.recall_at_same_alarms is None else f"{ranking.recall_at_same_alarms:.4f}"
    return (
        ranking.system,
        *(f"{value:.4f}" for value in ranking.recall_at.values()),
        same,
        f"{ranking.partial_auc:.4f}",
    )
