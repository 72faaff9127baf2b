"""The `audit` command: the errors of another filter on your mail, next to those of surebayes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from surebayes.cli.shared import inputs as _inputs
from surebayes.cli.shared import show as _show
from surebayes.cli.shared.command import Command, setting

if TYPE_CHECKING:
    from surebayes.research.audit import Audit, Budgeted, Delivered, ObservedRate
    from surebayes.research.mailbox_audit import Block, Errors, MailboxAudit, Mistake

_PLOT = click.option("--plot", "plots", type=click.Path(readable=False, dir_okay=False), multiple=True, help=(
    "Plot the ROC curve, up to 10% false alarms, to a PNG, SVG or PDF file (requires the `plots` extra); may be "
    "repeated."
))  # fmt: skip


@click.command(
    cls=Command,
    first=("maildir", "ham", "spam", "by", "max_fpr"),
    sections={
        "A mailbox": ("junk", "leave_out", "blocks", "worst"),
        "Scores of another filter": ("group_by", "burst", "beside"),
        "A table of scores": ("table", "score", "label", "positive", "group"),
    },
    examples=(
        ("surebayes audit --maildir ~/Maildir",
         "Compare the other filter with surebayes, on your own mail."),
        ("surebayes audit --maildir ~/Maildir --junk Werbung --worst 50 --over-time errors.svg",
         "Include another spam folder, list more mistakes, and plot them over time."),
        ("surebayes audit --ham Maildir/.Archive --spam Maildir/.Junk --by X-Spam-Status",
         "Measure SpamAssassin's scores on your own mail."),
        ("surebayes audit --ham ham.mbox --spam spam.mbox --by X-Bogosity --plot roc.png",
         "Measure bogofilter's scores, and plot the ROC curve."),
        ("surebayes audit --ham ham/ --spam spam/ --by X-My-Score --threshold 7.5 --no-beside",
         "Measure the scores in any numeric header field, without the comparison."),
        ("surebayes audit --scores scores.csv --threshold 0.5 --over-time audit.png",
         "Measure a column of scores, and plot the false alarms over time."),
    ),
)  # fmt: skip
@click.option("--maildir", type=click.Path(readable=False), metavar="DIR", help=(
    "Stored mail to judge in chronological order: a Maildir with its folders, a folder of Maildirs and mbox files, or "
    "an mbox."
))  # fmt: skip
@click.option("--junk", metavar="NAME", multiple=True, help=(
    "An additional spam folder, besides those named Junk, Spam or similar; may be repeated."
))  # fmt: skip
@click.option("--leave-out", metavar="NAME", multiple=True, help=(
    "An additional folder to skip, besides Sent, Drafts and Trash; may be repeated."
))  # fmt: skip
@click.option("--blocks", type=click.IntRange(3, 1000), default=10, metavar="N", help=(
    "The number of blocks; each is judged after training on all earlier ones. Default: 10."
))  # fmt: skip
@click.option("--worst", type=click.IntRange(0, 1000), default=20, metavar="N", help=(
    "The number of false alarms and of misses to list. Default: 20."
))  # fmt: skip
@click.option("--ham", type=click.Path(readable=False), multiple=True, help=(
    "Good mail: a Maildir, mbox, MH folder, folder of files, or file; may be repeated."
))  # fmt: skip
@click.option("--spam", type=click.Path(readable=False), multiple=True, help="Spam; may be repeated.")
@click.option("--scores", "table", metavar="FILE", type=click.Path(readable=False), help=(
    "A table instead of mail: CSV, TSV, JSON lines or Parquet, with a score and a correct label in each row, in "
    "chronological order."
))  # fmt: skip
@click.option("--score", default="score", metavar="COL", help="The column of the score. Default: score.")
@setting("label")
@click.option("--positive", metavar="LABEL", help=(
    "The positive label; alarms on any other label are false. Default: spam, junk, 1, true, yes or similar."
))  # fmt: skip
@click.option(
    "--group", metavar="COL", help="The column that assigns rows to groups; each group counts as one document."
)
@click.option("--by", metavar="HEADER", help=(
    "The header field with the score: X-Spam-Status (SpamAssassin), X-Spamd-Result or X-Spam-Score (rspamd), "
    "X-Bogosity (bogofilter), or any other field, from which the first number is read."
))  # fmt: skip
@click.option("--threshold", type=float, metavar="SCORE", help=(
    "The other filter's spam threshold. Default: the one given in the header field."
))  # fmt: skip
@setting("max_fpr")
@setting("confidence", about="The confidence of the promise and of the intervals.")
@click.option("--group-by", type=click.Choice(("mail", "copies", "near", "thread", "sender")), default="near", help=(
    "Which messages count as one: none (mail), identical texts (copies), near copies (near), near copies and "
    "threads (thread), or near copies and all messages from a sender (sender). Default: near."
))  # fmt: skip
@click.option("--burst", type=float, default=5.0, metavar="N", help=(
    "The burst of the simulated alarm budget. Default: 5."
))  # fmt: skip
@click.option("--over-time", metavar="FILE", type=click.Path(readable=False, dir_okay=False), help=(
    "Plot the false alarms, and the bounds on their rate, over time to a PNG, SVG or PDF file (requires the `plots` "
    "extra)."
))  # fmt: skip
@click.option("--beside/--no-beside", default=True, help=(
    "Compare with a surebayes filter that learns the same mail. Default: yes."
))  # fmt: skip
@_PLOT
@_show.output_options
@click.pass_context
def audit(
    ctx: click.Context,
    /,
    maildir: str | None,
    ham: tuple[str, ...],
    spam: tuple[str, ...],
    table: str | None,
    by: str | None,
    plots: tuple[str, ...],
    over_time: str | None,
    as_json: bool | None,
    **options: Any,
) -> None:
    """Compare another filter with surebayes, on your own mail.

    --maildir judges a mailbox in chronological blocks; before each block, surebayes learns all earlier mail. Correct
    labels are taken from folders and keywords, and the other filter's verdicts from header fields. The mailbox is not
    changed.

    --ham, --spam and --by measure the scores that the other filter wrote into mail, and certify a threshold for them.
    They print the false-alarm rate at the other filter's threshold, with a confidence interval and with bounds that
    hold at every point in time; the threshold that can be certified; the effect of an alarm budget; and the share of
    spam found at low false-alarm rates. For comparison, an initially empty surebayes filter judges each message in
    chronological order before learning it. Messages without the header field are skipped and counted. --scores reads a
    table instead.
    """
    from surebayes.filter.evaluation import check_picture, draw_roc

    for path in (*plots, *([over_time] if over_time else [])):
        check_picture(path)
    of_table = {name: options.pop(name) for name in ("score", "label", "positive", "group")}
    of_mailbox = {name: options.pop(name) for name in _OF_MAILBOX}
    _check_together(ctx, maildir is not None)
    if maildir is not None:
        _audit_mailbox(maildir, of_mailbox, by, plots, over_time, as_json, options)
        return
    if table is not None:
        if ham or spam or by:
            raise click.UsageError("--scores replaces --ham, --spam and --by. Give one or the other.")
        report = _audit_of_table(table, of_table, options)
    elif not (ham and spam and by):
        raise click.UsageError("Nothing to audit. Give --maildir, or --ham, --spam and --by, or a table with --scores.")
    else:
        report = _audit_of_mail(ham, spam, by, options)
    curves = {ranking.system: ranking.roc for ranking in report.rankings}
    mark = report.in_use.false_alarms.value if report.in_use else None
    for path in plots:
        draw_roc(curves, path, mark=mark)
    if over_time:
        from surebayes.research.audit import draw_over_time

        draw_over_time(report, over_time)
    pictures = [*plots, *([over_time] if over_time else [])]
    if _show.wants_json(as_json):
        _show.print_json({**report.to_dict(), "plots": pictures})
        return
    _print_audit(report)
    for path in pictures:
        _show.say(f"Wrote {path}")


_OF_MAILBOX = ("junk", "leave_out", "blocks", "worst")
_OF_SCORES = ("ham", "spam", "table", "score", "label", "positive", "group", "group_by", "burst", "beside")


def _check_together(ctx: click.Context, is_mailbox: bool) -> None:
    """Refuse flags that have no effect with, or without, --maildir."""
    flags = {
        option.name: option.opts[0]
        for option in ctx.command.params
        if option.name and ctx.get_parameter_source(option.name) is ParameterSource.COMMANDLINE
    }
    strange = [flags[name] for name in (_OF_SCORES if is_mailbox else _OF_MAILBOX) if name in flags]
    if strange and is_mailbox:
        raise click.UsageError(f"{strange[0]} has no effect with --maildir. Leave one of them out.")
    if strange:
        raise click.UsageError(f"{strange[0]} needs --maildir.")


def _audit_mailbox(
    path: str,
    of_mailbox: dict[str, Any],
    by: str | None,
    plots: Sequence[str],
    over_time: str | None,
    as_json: bool | None,
    options: dict[str, Any],
) -> None:
    from surebayes.allocator import map_large_blocks
    from surebayes.datasets.mail_store import MailStore
    from surebayes.datasets.sources import Sources
    from surebayes.filter.evaluation import draw_roc
    from surebayes.research.mailbox_audit import audit_mailbox, draw_blocks

    skipped: list[str] = []
    json_lines = _show.wants_json(as_json)
    map_large_blocks()
    if options["threshold"] is not None and by is None:
        raise click.UsageError("--threshold needs --by, the header field whose score it is for.")

    def judged(block: Block) -> None:
        if json_lines:
            _show.print_json({"kind": "block", **vars(block)})
            sys.stdout.flush()

    with (
        MailStore(path, of_mailbox["junk"], of_mailbox["leave_out"], skipped.append) as store,
        _show.progress("reading", None, "messages") as counter,
    ):
        known = {name: options[name] for name in ("threshold", "max_fpr", "confidence")}
        known |= {name: of_mailbox[name] for name in ("blocks", "worst")}
        report = audit_mailbox(store, by=by, judged=judged, progress=counter.step, **known)
    _inputs.Inputs(Sources(()), skipped).report()
    for plot in plots:
        mark = _alarm_rate(report)
        draw_roc({each.system: each.roc for each in report.rankings}, plot, mark=mark)
    if over_time:
        draw_blocks(report, over_time)
    pictures = [*plots, *([over_time] if over_time else [])]
    if json_lines:
        for kind, mistakes in (("false alarm", report.false_alarms), ("miss", report.misses)):
            for mistake in mistakes:
                _show.print_json({"kind": kind, **vars(mistake)})
        _show.print_json({"kind": "audit", **report.to_dict(), "plots": pictures})
    else:
        _print_mailbox(report)
        for picture in pictures:
            _show.say(f"Wrote {picture}")
    if report.interrupted:
        raise KeyboardInterrupt


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
        _show.say(f"Skipped without a score: {missing}. The remaining messages may not be representative.")
    click.echo()
    _print_in_use(audit)
    if audit.certificate is not None:
        _show.say("A promise for these scores:")
        _show.say(f"{audit.certificate}.", indent=2)
        _show.say("These filters flag scores >= their threshold. Configure a number just above this one.")
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
        f"flagged, recall {budget.recall:.4f}{mute}. Any n consecutive ham have at most {bound} alarms, without "
        "assumptions about the mail."
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
        _show.say(f"{audit.header} has no verdict. Give --threshold to measure the current threshold.")
        return
    stated = "" if audit.in_use.threshold is None else f" (from {audit.in_use.threshold:g} on)"
    ends = f"{audit.confidence:.0%} interval"
    rows = [
        _rate_row("false alarms", "ham judged spam", audit.in_use.false_alarms),
        _rate_row("recall", "spam judged spam", audit.in_use.recall),
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


# ---------------------------------------------------------------------- a mailbox


def _alarm_rate(report: MailboxAudit) -> float | None:
    alarms = None if report.present is None else report.present.false_alarms
    return alarms.count / alarms.of if alarms is not None and alarms.of else None


def _print_mailbox(report: MailboxAudit) -> None:
    from surebayes.filter.evaluation import roc_text

    spam_folders = [str(each["name"]) for each in report.folders if each["label"] == "spam"]
    _show.say(
        f"{report.ham:,} good messages and {report.spam:,} of spam, by folder and keyword. Folders of spam: "
        f"{_show.some(spam_folders) or 'none'}."
    )
    left_out = [f"{count:,} {reason}" for reason, count in sorted(report.left_out.items())]
    if left_out:
        _show.say(f"Left out: {_show.some(left_out)}.")
    if report.unread:
        _show.say(f"{report.unread:,} of the good messages are unread, so their label is unconfirmed.")
    if report.interrupted:
        _show.say(f"Interrupted: {len(report.blocks)} of {report.planned} blocks are judged.")
    click.echo()
    _print_sides(report)
    rows = [
        (
            block.last_day or str(block.number), block.ham, block.false_alarms, *_theirs(report, block, "false_alarms"),
            block.spam, block.misses, *_theirs(report, block, "misses"),
        )
        for block in report.blocks
    ]  # fmt: skip
    named = ("other filter",) if report.present else ()
    columns = ("until", "ham", "false alarms", *named, "spam", "misses", *named)
    _show.print_table(columns, rows, "Block by block, each judged by a filter trained on all mail before it:")
    for mistakes, title in ((report.false_alarms, "False alarms to look at"), (report.misses, "Misses to look at")):
        if mistakes:
            _print_mistakes(mistakes, f"{title}, the worst first:")
    for each in report.rankings:
        click.echo(f"{each.system}")
        click.echo(roc_text(each.roc, width=52, mark=_alarm_rate(report)))
    _show.say(
        "Folders give the labels: spam that was left in a folder of good mail counts as good, and good mail that the "
        "other filter filed as spam counts as spam until a user moves it back."
    )


def _theirs(report: MailboxAudit, block: Block, what: str) -> tuple[int, ...]:
    return (getattr(block, f"present_{what}"),) if report.present else ()


def _print_sides(report: MailboxAudit) -> None:
    assert report.ours is not None
    ours = f"surebayes, at most {_show.percent(report.max_fpr)} intended"
    rows = [(ours, *_errors(report.ours.false_alarms), *_errors(report.ours.misses))]
    if report.present is not None and report.ours_compared is not None:
        if report.ours_compared != report.ours:
            compared = report.ours_compared
            rows.append(("the same, where both judged", *_errors(compared.false_alarms), *_errors(compared.misses)))
        name = ", ".join(report.headers)
        rows.append((f"other filter ({name})", *_errors(report.present.false_alarms), *_errors(report.present.misses)))
    columns = ("", "false alarms", "true rate", "misses", "true rate")
    level = _show.percent(report.confidence)
    _show.print_table(columns, rows, f"Errors on the same mail; bounds hold at all times at once, {level} confidence:")
    if not report.headers:
        _show.say("No message has another filter's verdict in a known header field. Name the field with --by.")
    for label, name in (("ham", "good messages"), ("spam", "spam")):
        counts = report.both.get(label)
        if counts:
            _show.say(
                f"Of the {name}, judged spam by both: {counts['both']:,}, by surebayes alone: "
                f"{counts['only_surebayes']:,}, by the other filter alone: {counts['only_present']:,}."
            )
    click.echo()


def _errors(errors: Errors) -> tuple[str, str]:
    from surebayes.guarantees.budget import between

    rate = between(errors.lower, errors.upper, 3) if errors.of else ""
    return f"{errors.count:,} of {errors.of:,}", rate


def _print_mistakes(mistakes: Sequence[Mistake], title: str) -> None:
    """Print two lines for each mistake: the message in short, and the file to open."""
    from rich.cells import cell_len, set_cell_size

    _show.say(title)
    width = _show.console().width
    for each in mistakes:
        theirs = "" if each.present is None else f"other filter: {each.present}"
        known = [each.day or "", f"{each.copies} near copies" if each.copies > 1 else "", theirs]
        facts = ", ".join(fact for fact in [*known, "" if each.read else "unread"] if fact)
        line = _show.visible(f"{each.score:9.3f}  {facts}: {each.subject or '(no subject)'}, from {each.sender}")
        click.echo(line if cell_len(line) <= width else set_cell_size(line, width - 1) + "…")
        click.echo(" " * 11 + _show.visible(each.file))
    click.echo()
