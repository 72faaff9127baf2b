"""The `evaluate`, `calibrate`, `tune` and `trec` commands."""

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
    first=("model", "ham", "spam", "classes", "csv_files"),
    sections={"Measures": ("confidence", "plots")},
    examples=(
        ("surebayes evaluate -m ~/mail-filter --ham new-ham.mbox --spam new-spam.mbox",
         "Measure the filter on documents that it has not learnt."),
        ("surebayes evaluate -m ~/mail-filter --ham ham/ --spam spam/ --plot roc.png", "Also plot the ROC curve."),
    ),
)  # fmt: skip
@model_option()
@_inputs.class_options
@setting("confidence", about="The confidence of the intervals.")
@click.option("--plot", "plots", type=click.Path(readable=False, dir_okay=False), multiple=True, help=(
    "Plot the ROC curve, up to 10% false alarms, to a PNG, SVG or PDF file (requires the `plots` extra); may be "
    "repeated."
))  # fmt: skip
@_show.output_options
def evaluate(model: str, confidence: float, plots: tuple[str, ...], as_json: bool | None, **options: Any) -> None:
    """Measure a filter on labelled documents that it has not learnt.

    Prints the false-alarm rate, recall and other measures with confidence intervals, and the ROC curve.
    """
    from surebayes.filter import evaluation
    from surebayes.filter.filter import Filter

    inputs = _inputs.take_inputs(options)
    for path in plots:
        evaluation.check_picture(path)
    truth, predicted, scores, known = [], [], [], 0
    with Filter.open(model) as opened, _show.progress("judging", _inputs.total(inputs)) as counter:
        classes, learnt = opened.classes, _learnt(opened)
        if plots and len(classes) > 2:
            raise click.UsageError(f"--plot needs a filter of two classes. Got {len(classes)}: {', '.join(classes)}.")
        for document in _show.tracked(inputs.sources, counter):
            _check_label(document, classes)
            verdict = opened.judge(document.content, remember=False)
            truth.append(str(document.label))
            predicted.append(verdict.label)
            scores.append(verdict.score)
            known += verdict.fingerprint in learnt
    inputs.report()
    if known:
        _show.note(
            f"The filter has learnt {known:,} of these {len(truth):,} documents, so its results are too optimistic."
        )
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
    """Return the fingerprints of all documents learnt and not forgotten."""
    latest: dict[str, str] = {}
    for row in opened.history(limit=None):  # the latest first
        if row["fingerprint"]:
            latest.setdefault(row["fingerprint"], row["action"])
    return {fingerprint for fingerprint, action in latest.items() if action == "learn"}


def _check_label(document: SourceDocument, classes: Sequence[str]) -> None:
    from surebayes.errors import BadInput

    if document.label not in classes:
        raise BadInput(
            f"{document.name}: the filter has no class {document.label!r}. Its classes: {', '.join(classes)}."
        )


_AT_THE_THRESHOLD = ("false_positive_rate", "recall", "precision", "f1", "lam_percent", "accuracy", "macro_f1")


def _print_evaluation(measured: Evaluation, plots: Sequence[str], mark: float | None) -> None:
    from surebayes.filter.evaluation import roc_text

    counts = ", ".join(f"{count:,} {name}" for name, count in measured.classes.items())
    at_threshold = {name: measured[name] for name in _AT_THE_THRESHOLD if name in measured.figures}
    _show.print_figures(at_threshold, measured.confidence, f"{counts}; at the current threshold:")
    cells = [(t, g, n) for (t, g), n in sorted(measured.confusion.items())]
    _show.print_table(("correct label", "verdict", "documents"), cells)
    ranking = {name: figure for name, figure in measured.figures.items() if name not in at_threshold}
    if ranking:
        _show.print_figures(ranking, measured.confidence, "At other thresholds:")
    if measured.roc:
        click.echo(roc_text(measured.roc, width=max(min(60, _show.console().width - 30), 20), mark=mark))
        click.echo("       ▲ the current threshold" if mark is not None and mark <= 0.1 else "")
    for path in plots:
        _show.say(f"Wrote {path}")


@click.command(
    cls=Command,
    first=("model", "max_fpr", "confidence", "ham", "spam"),
    sections={
        "More documents": ("classes", *_inputs.TABLE_PARAMETERS),
        "Other promises": ("min_precision", "positive", "mislabelled", "anytime", "together"),
        "Alarm budget": ("budget", "burst", "presume_good_after"),
    },
    examples=(
        ("surebayes calibrate -m ~/mail-filter --max-fpr 0.001", "Use the documents that `train` set aside."),
        ("surebayes calibrate -m ~/mail-filter --max-fpr 0.0001 --confidence 0.99 --ham more-ham/",
         "Add documents that the filter has not learnt."),
        ("surebayes calibrate -m ~/mail-filter --budget 0.001 --burst 5",
         "Allow 5 false alarms, and 1 more per 1,000 good messages."),
        ("surebayes calibrate -m ~/mail-filter --max-fpr 0.001 --anytime --ham more-ham/",
         "Recalibrate with more documents until the threshold is low enough; the promise holds every time."),
        ("surebayes calibrate -m desk --min-precision 0.99",
         "Choose a threshold for each class; a message that exceeds none of them is unsure."),
    ),
)  # fmt: skip
@model_option()
@_inputs.class_options
@setting("max_fpr")
@setting("confidence", about="The confidence with which the promise holds.")
@setting("min_precision")
@setting(
    "budget",
    about=(
        "Start an alarm budget: at most BURST + RATE x n false alarms among any n consecutive documents known to be "
        "good."
    ),
)
@setting("burst")
@setting("presume_good_after")
@click.option("--positive", metavar="NAME", help=(
    "With more than two classes, the class whose false alarms are limited. Default: every class."
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
    """Choose a threshold that keeps false alarms within a promised limit.

    Uses documents that the filter has never learnt: those set aside by `train`, and any given here, which are set
    aside from then on. The certificate is stored with the filter. New lessons make it stale, and after enough of them
    it is renewed. Without any promise options, the existing promise is renewed immediately.

    --budget starts an alarm budget, a second kind of promise that holds whatever mail arrives. The filter remembers its
    verdicts, counts false alarms as they become known, raises its threshold after each one, and stops flagging mail
    before the budget is exceeded. Report false alarms with `surebayes rescue`; mail without a complaint for
    --presume-good-after days counts as good. `surebayes config unset -m DIR budget` ends the budget.
    """
    from surebayes.filter.filter import Filter

    terms = _terms(ctx, options)
    has_inputs = any(options[name] for name in ("ham", "spam", "classes", *_inputs.TABLE_PARAMETERS))
    inputs = _inputs.take_inputs(options) if has_inputs else None
    with Filter.open(model) as opened, _show.progress("calibrating") as counter:
        if positive is None and opened.certificate is None:
            _positive.note_ambiguity(opened.classes)
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
    """Remove the terms of promises from the options; return the terms given by a flag, a variable or a file.

    None means the value of the last call. A budget that only the settings file names is the current one.
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
            f"Based on {certificate.n_negatives:,} documents that were never learnt; valid for model "
            f"{certificate.model}."
        )
    if certificate.budget is not None and not certificate.n_negatives:
        _show.say(
            "Nothing is flagged yet, because no score of a good document is known. Set some aside with --ham PATH, or "
            "teach every correct label with `surebayes learn`."
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
    first=("model", "weights", "renew"),
    examples=(
        ("surebayes tune -m ~/mail-filter", "Weight each expert by its reliability on held-out messages."),
        (
            "surebayes tune -m ~/mail-filter --weights stack",
            "Weight the experts with a logistic regression on their opinions.",
        ),
    ),
)
@model_option()
@setting(
    "weights",
    about="The method for weighting the experts; auto means reliability for mail and stack for text. Default: auto.",
)
@setting("renew")
@_show.output_options
def tune(model: str, weights: str, renew: bool, as_json: bool | None) -> None:
    """Refit the weights of a filter's experts on the documents it has learnt.

    Judges each third of the documents with a model trained on the other two thirds; a text filter judges at most 20,000
    texts per third. A text filter's second stages are refitted too, and the certificate is renewed.
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
        _show.print_table(("expert", "weight"), rows, f"Weights{whose}, fitted on {tuned['documents']:,} documents:")
    if advice is not None:
        advice.print()


@click.command(
    cls=Command,
    arguments={"INDEX": "`full/index` of a TREC corpus, or the folder of the corpus."},
    examples=(
        ("surebayes trec trec07p/full/index", "Start with an empty filter, and learn after each message."),
        ("surebayes trec trec07p/full/index --feedback delayed --delay 1000", "Reveal labels late, in batches."),
        ("surebayes trec index --feedback partial --share 0.1 --results out.txt", "Reveal one label in ten."),
    ),
)
@setting("feedback", about="When labels are revealed: immediately, after a delay, or for only a share of the messages.")
@setting("delay")
@setting("share")
@setting("seed")
@click.option("--limit", type=click.IntRange(min=2), metavar="N", help="Stop after N messages.")
@click.option("--intervals/--no-intervals", default=True, help="Print 95% intervals.")
@click.option(
    "--results",
    type=click.Path(readable=False, dir_okay=False),
    metavar="FILE",
    help="Write one line per message, in the format of TREC's tools.",
)
@_show.output_options
@click.argument("index", metavar="INDEX", type=click.Path(readable=False))
def trec(index: str, limit: int | None, results: str | None, as_json: bool | None, **options: Any) -> None:
    """Run the TREC spam track evaluation: judge each message before its label is revealed.

    INDEX has lines such as `spam ../data/000/000`, in chronological order.
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
