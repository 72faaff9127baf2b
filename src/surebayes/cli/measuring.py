"""evaluate, calibrate, tune, trec: what a filter is worth, and where it draws the line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from surebayes.cli.promises import anytime_option, mislabelled_option
from surebayes.cli.shared import inputs as _inputs
from surebayes.cli.shared import next_step as _next_step
from surebayes.cli.shared import positive as _positive
from surebayes.cli.shared import show as _show
from surebayes.cli.shared.command import JUDGE, Command, model_option, setting

if TYPE_CHECKING:
    from surebayes.datasets.sources import SourceDocument
    from surebayes.filter.evaluation import Evaluation
    from surebayes.filter.filter import Filter
    from surebayes.guarantees.certificate import Certificate


@click.command(
    cls=Command, person=JUDGE,
    examples=(
        ("surebayes evaluate -m ~/mail-filter --ham new-ham.mbox --spam new-spam.mbox",
         "On documents that it has not learnt: every measure with its interval, and the ROC."),
        ("surebayes evaluate -m ~/mail-filter --ham ham/ --spam spam/ --plot roc.png", "Also draw the ROC."),
    ),
)  # fmt: skip
@model_option()
@_inputs.class_options
@setting("confidence", about="Confidence of the intervals.")
@click.option("--plot", "plots", type=click.Path(readable=False, dir_okay=False), multiple=True, help=(
    "Draw the ROC up to 10% false positives into a PNG, SVG or PDF file (needs the extra `plots`). May be repeated."
))  # fmt: skip
@_show.output_options
def evaluate(model: str, confidence: float, plots: tuple[str, ...], as_json: bool | None, **options: Any) -> None:
    """Measure a filter on labelled documents that it has not learnt."""
    from surebayes.filter import evaluation
    from surebayes.filter.filter import Filter

    inputs = _inputs.taken(options)
    for path in plots:
        evaluation.check_picture(path)
    truth, predicted, scores, known = [], [], [], 0
    with Filter.open(model) as opened, _show.progress("judging", _inputs.total(inputs)) as counter:
        classes, learnt = opened.classes, _learnt(opened)
        if plots and len(classes) > 2:
            raise click.UsageError("--plot needs a filter of two classes.")
        for document in _show.tracked(inputs.sources, counter):
            _check_label(document, classes)
            verdict = opened.judge(document.content, remember=False)
            truth.append(str(document.label))
            predicted.append(verdict.label)
            scores.append(verdict.score)
            known += verdict.fingerprint in learnt
    inputs.report()
    if known:
        _show.note(f"{known:,} of {len(truth):,} documents were learnt by this filter: the figures flatter it.")
    positive = classes[1] if len(classes) == 2 else None
    with _show.progress("measuring"):
        measured = evaluation.evaluate(truth, predicted, scores if positive else None, positive, confidence)
    mark = measured["false_positive_rate"].value if positive else None
    for path in plots:
        evaluation.draw_roc({Path(model).name or model: measured.roc}, path, mark=mark)
    if _show.wants_json(as_json):
        _show.print_json({**measured.to_dict(), "positive": positive, "learnt_before": known, "plots": list(plots)})
    else:
        if positive is not None:
            _show.say(_positive.roles(classes[0], positive))
        _print_evaluation(measured, plots, mark)


def _learnt(opened: Filter) -> set[str]:
    """Return the fingerprints of what the filter has learnt and not forgotten."""
    latest: dict[str, str] = {}
    for row in opened.history(limit=None):  # the latest first
        if row["fingerprint"]:
            latest.setdefault(row["fingerprint"], row["action"])
    return {fingerprint for fingerprint, action in latest.items() if action == "learn"}


def _check_label(document: SourceDocument, classes: Sequence[str]) -> None:
    from surebayes.errors import BadInput

    if document.label not in classes:
        raise BadInput(f"{document.name}: the filter has no class {document.label!r}; it has {', '.join(classes)}.")


_AT_THE_THRESHOLD = ("false_positive_rate", "recall", "precision", "f1", "lam_percent", "accuracy", "macro_f1")


def _print_evaluation(measured: Evaluation, plots: Sequence[str], mark: float | None) -> None:
    from surebayes.filter.evaluation import roc_text

    counts = ", ".join(f"{count:,} {name}" for name, count in measured.classes.items())
    at_threshold = {name: measured[name] for name in _AT_THE_THRESHOLD if name in measured.figures}
    _show.print_figures(at_threshold, measured.confidence, f"{counts}; at the threshold in use:")
    cells = [(t, g, n) for (t, g), n in sorted(measured.confusion.items())]
    _show.print_table(("truth", "given", "documents"), cells)
    ranking = {name: figure for name, figure in measured.figures.items() if name not in at_threshold}
    if ranking:
        _show.print_figures(ranking, measured.confidence, "At other thresholds:")
    if measured.roc:
        click.echo(roc_text(measured.roc, width=max(min(60, _show.console().width - 30), 20), mark=mark))
        click.echo("       ▲ the threshold in use" if mark is not None and mark <= 0.1 else "")
    for path in plots:
        _show.say(f"drawn: {path}")


@click.command(
    cls=Command,
    examples=(
        ("surebayes calibrate -m ~/mail-filter --max-fpr 0.001", "From what `train` has set aside."),
        ("surebayes calibrate -m ~/mail-filter --max-fpr 0.0001 --confidence 0.99 --ham more-ham/",
         "With more documents that it has not learnt."),
        ("surebayes calibrate -m ~/mail-filter --budget 0.001 --burst 5",
         "A bound that holds whatever comes: 5 alarms and 1 for every 1,000 good mails."),
        ("surebayes calibrate -m ~/mail-filter --max-fpr 0.001 --anytime --ham more-ham/",
         "Again and again with more documents, until the threshold is low enough: the promise holds each time."),
        ("surebayes calibrate -m desk --min-precision 0.99", "A threshold for each class; mail above none is unsure."),
    ),
)  # fmt: skip
@model_option()
@_inputs.class_options
@setting("max_fpr")
@setting("confidence", about="The probability that the promise holds.")
@setting("min_precision")
@setting("budget", about="Begin a budget of alarms: with --burst B at most B + RATE n in any n known good documents.")
@setting("burst")
@setting("presume_good_after")
@click.option("--positive", metavar="NAME", help=(
    "The class whose false alarms are limited, if there are more than two. Default: each of them."
))  # fmt: skip
@mislabelled_option
@anytime_option
@setting("together")
@_show.output_options
@click.pass_context
def calibrate(
    ctx: click.Context,
    /,
    model: str,
    positive: str | None,
    presume_good_after: float | None,
    as_json: bool | None,
    **options: Any,
) -> None:
    """Choose the threshold that keeps a promise: false alarms at most this often.

    From documents that were never learnt: those that `train` has set aside, and those given here, which are set aside
    from now on. The certificate is kept with the filter. Lessons make it stale and, when there were enough of them,
    renew it. Without --max-fpr, --confidence, --min-precision, --mislabelled, --anytime and --together the promise that
    the filter has is renewed at once.

    --budget makes another promise, which holds whatever comes, and may stand beside the first: the filter remembers
    what it said, counts false alarms as they become known, raises its threshold with them and falls mute rather than
    make one too many. `surebayes rescue` tells it of them; mail that nobody complains about for --presume-good-after
    days counts as good. `surebayes config unset -m DIR budget` ends it.
    """
    from surebayes.filter.filter import Filter

    terms = _terms(ctx, options)
    has_inputs = any(options[name] for name in ("ham", "spam", "classes", *_inputs.TABLE_PARAMETERS))
    inputs = _inputs.taken(options) if has_inputs else None
    with Filter.open(model) as opened, _show.progress("calibrating") as counter:
        documents = _labelled(inputs, opened.classes, counter)
        certificate = opened.calibrate(positive=positive, documents=documents, **terms)
        if opened.budgets() and ctx.get_parameter_source("presume_good_after") is not ParameterSource.DEFAULT:
            opened.remember(presume_good_after=presume_good_after)
    if inputs:
        inputs.report()
    if _show.wants_json(as_json):
        _show.print_json(certificate.to_dict())
        return
    for each in certificate.values() if isinstance(certificate, dict) else [certificate]:
        _print_promises(each)


def _terms(ctx: click.Context, options: dict[str, Any]) -> dict[str, Any]:
    """Take the terms of promises out of the options: those that were given, by a flag, a variable or a file.

    None of a kind means: as last time. A budget that only a file of settings names is the one that is on already.
    """
    rates = ("max_fpr", "confidence", "min_precision", "mislabelled", "together", "anytime")
    terms = {name: options.pop(name) for name in (*rates, "budget", "burst")}
    source = {name: ctx.get_parameter_source(name) for name in terms}
    flags = {name for name in terms if source[name] is ParameterSource.COMMANDLINE}
    if flags & {"budget", "burst"}:
        return {name: terms[name] for name in terms if name in flags}
    if terms["budget"] is not None and not flags:
        return {"budget": terms["budget"], "burst": terms["burst"]}
    if "min_precision" in flags:
        terms["max_fpr"] = terms["max_fpr"] if "max_fpr" in flags else None
    elif "max_fpr" in flags:
        terms["min_precision"] = None
    if all(source[name] is ParameterSource.DEFAULT for name in rates):
        return {}
    return {name: terms[name] for name in rates}


def _print_promises(certificate: Certificate) -> None:
    _show.say(f"{certificate}.", indent=2)
    if certificate.goal != "budget" and certificate.guaranteed:
        _show.say(
            f"It rests on {certificate.n_negatives:,} documents that were never learnt, and holds for model "
            f"{certificate.model}."
        )
    if certificate.budget is not None and not certificate.n_negatives:
        _show.say(
            "No good document's score is known, so nothing is flagged: set some aside with --ham PATH, or tell every "
            "truth with `surebayes learn`."
        )


def _labelled(
    inputs: _inputs.Inputs | None, classes: Sequence[str], counter: _show.Progress
) -> Iterator[tuple[bytes | str, str]]:
    """Yield documents with their labels."""
    for document in _show.tracked(inputs.sources, counter) if inputs else ():
        _check_label(document, classes)
        yield document.content, str(document.label)


@click.command(
    cls=Command,
    examples=(
        ("surebayes tune -m ~/mail-filter", "Weigh the experts by how reliable each was on held-out messages."),
        ("surebayes tune -m ~/mail-filter --weights stack", "By a logistic model over them."),
    ),
)
@model_option()
@setting("weights")
@setting("renew")
@_show.output_options
def tune(model: str, weights: str, renew: bool, as_json: bool | None) -> None:
    """Weigh the experts of a filter again, on what it has learnt.

    A third of it is judged by a model of the other two thirds; of up to 20,000 texts each third is. The second stages
    of a filter of text are fitted again as well, and the certificate of the threshold is renewed.
    """
    from surebayes.filter.filter import Filter

    with Filter.open(model, renew=renew) as opened:
        with _show.progress("tuning"):
            tuned = opened.retune(None if weights == "auto" else weights)
        classes, advice = opened.classes, _next_step.for_filter(opened, model)
    if _show.wants_json(as_json):
        _show.print_json(tuned)
        return
    several = tuned["weights"] if isinstance(tuned["weights"], list) else [tuned["weights"]]
    names = [""] if len(several) == 1 else [f" of class {name}" for name in classes]
    for by_expert, whose in zip(several, names):
        rows = sorted(by_expert.items(), key=lambda item: -item[1])
        _show.print_table(("expert", "weight"), rows, f"Weights{whose}, from {tuned['documents']:,} documents:")
    if advice is not None:
        advice.print()


@click.command(
    cls=Command,
    examples=(
        ("surebayes trec trec07p/full/index", "The filter starts empty and learns after each message."),
        ("surebayes trec trec07p/full/index --feedback delayed --delay 1000", "Labels come late, in batches."),
        ("surebayes trec index --feedback partial --share 0.1 --results out.txt", "Only one label in ten is revealed."),
    ),
)
@setting("feedback")
@setting("delay")
@setting("share")
@setting("seed")
@click.option("--limit", type=click.IntRange(min=2), metavar="N", help="Stop after N messages.")
@click.option("--intervals/--no-intervals", default=True, help="Whether to add 95% intervals.")
@click.option(
    "--results",
    type=click.Path(readable=False, dir_okay=False),
    help="Write a line for each message, as TREC's tools read.",
)
@_show.output_options
@click.argument("index", metavar="INDEX", type=click.Path(readable=False))
def trec(index: str, limit: int | None, results: str | None, as_json: bool | None, **options: Any) -> None:
    """Run the TREC spam track's jig over INDEX: each message is judged before its label is revealed.

    INDEX is `full/index` of a TREC corpus (or the corpus's folder): lines `spam ../data/000/000`, in the order of time.
    """
    from contextlib import nullcontext

    from surebayes.research import trec as jig

    entries = len(jig.read_index(index)[:limit])
    with (
        open(results, "w", encoding="utf-8", errors="surrogateescape") if results else nullcontext() as lines,
        _show.progress("judging and learning", entries, "messages") as counter,
    ):

        def seen(judged: jig.JudgedMessage) -> None:
            counter.advance()
            if lines is not None:
                lines.write(judged.line() + "\n")

        result = jig.run(index, limit=limit, seen=seen, **options)
    plain = result.to_dict()
    if _show.wants_json(as_json):
        _show.print_json({**plain, "feedback": options["feedback"]})
        return
    ends = plain.pop("intervals")
    rows = [(name, value, _show.interval(*ends.get(name, (None, None)))) for name, value in plain.items()]
    _show.print_table(("measure", "value", "95% interval"), rows, f"{index}, {options['feedback']} feedback:")
