"""The `compare` command: a comparison of classifiers, on your documents or on public corpora."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from surebayes.cli.shared import inputs as _inputs
from surebayes.cli.shared import positive as _positive
from surebayes.cli.shared import show as _show
from surebayes.cli.shared.command import Command, setting
from surebayes.guarantees.positive_class import positive_of

if TYPE_CHECKING:
    from surebayes.research.compare import Comparison
    from surebayes.research.curves import Curve


_SECTIONS = {
    "Documents": ("classes", "jsonl_files", "parquet_files", "reader", "positive"),
    "Comparison": ("repeats", "train_size", "measure", "curve", "seed"),
    "Public corpora instead of your own documents": (
        "suite", "names", "systems", "flips", "online", "part", "resume", "show", "markdown", "data",
    ),
    "Running and results": ("jobs", "out", "as_json"),
}  # fmt: skip


@click.command(
    cls=Command,
    first=("ham", "spam", "csv_files", "classifiers", "split"),
    sections=_SECTIONS,
    examples=(
        ("surebayes compare --ham ham.mbox --spam spam.mbox", "Compare four classifiers on your own mail."),
        ("surebayes compare --reader text --csv reviews.csv -c 'OpinionPoolNB(top=50)' -c ViewPool --split cv",
         "Compare two classifiers by cross-validation."),
        ("surebayes compare --ham ham/ --spam spam/ --split time -c 'TermWeighting + sklearn.svm.LinearSVC' --out x",
         (
             "Train on earlier mail and test on later mail, with TermWeighting as a preprocessing step. Write the "
             "results to a folder."
         )),
        ("surebayes compare --reader text --parquet news.parquet --label topics -c OpinionPoolNB -c mine:MyNB",
         "Compare on documents with lists of labels. MyNB is a class in your module `mine`."),
        ("surebayes compare --ham ham/ --spam spam/ -c ViewPool -c OpinionPoolNB --curve learning --out curves",
         "Plot learning curves."),
        ("surebayes compare --suite mail --corpus spamassassin", "Compare surebayes with other systems on a corpus."),
        ("surebayes compare --suite text --jobs 2 --out text.jsonl --resume",
         "Compare on public corpora with two processes; skip results that are already in the file."),
    ),
)  # fmt: skip
@_inputs.class_options
@setting("reader")
@click.option("-c", "--classifier", "classifiers", multiple=True, metavar="NAME", help=(
    "A surebayes classifier, the full name of a scikit-learn classifier, or your own as MODULE:NAME. Give parameters "
    "in parentheses, and put preprocessing steps in front, separated by ' + '. ViewPool receives the documents; other "
    "classifiers receive word counts. May be repeated."
))  # fmt: skip
@setting("split", about=(
    "Random hold-out splits, cross-validation, or chronological splits (mail by time of receipt, tables by row order)."
))  # fmt: skip
@setting("repeats", about="Number of hold-outs, folds or time steps.")
@setting("train_size", about="The share of each split used for training.")
@click.option("--positive", metavar="NAME", help=(
    "The positive class, if there are two. Default: the last one; in tables, a class named spam, 1, yes or similar."
))  # fmt: skip
@setting("measure", about="The measure that decides wins and losses.")
@click.option("--curve", type=click.Choice(["learning", "noise"]), help=(
    "Measure with increasing numbers of training documents or of wrong labels."
))  # fmt: skip
@setting("seed")
@setting("jobs", about="Number of processes.")
@setting("data")
@click.option("--out", type=click.Path(readable=False), help=(
    "The folder for tables (Markdown, LaTeX, JSON, CSV) and figures; with --suite, the results file, in JSON lines."
))  # fmt: skip
@click.option("--suite", type=click.Choice(["mail", "text", "guard"]), help=(
    "Compare surebayes classifiers with other systems on public corpora: mail; text (such as news and reviews); or "
    "guard (harmful prompts and comments that a guardrail must stop)."
))  # fmt: skip
@click.option("--corpus", "names", multiple=True, metavar="NAME", help="Use only this corpus; may be repeated.")
@click.option("--system", "systems", multiple=True, metavar="NAME", help="Use only this system; may be repeated.")
@click.option("--flips", type=click.IntRange(min=0), default=3, metavar="N", help=(
    "For mail: the number of runs with 5% of the training labels flipped. Default: 3."
))  # fmt: skip
@click.option("--online/--no-online", default=True, help="For mail: also run online, message by message.")
@click.option("--part", type=click.FloatRange(0, 1, min_open=True), default=1.0, metavar="SHARE", help=(
    "Run only this share of the suite: of each stream (mail), the folds (text) or the training documents (guard). "
    "Default: 1."
))  # fmt: skip
@click.option("--resume", is_flag=True, help="Skip results that are already in the --out file.")
@click.option("--show", is_flag=True, help="Only print the tables of the --out file.")
@click.option("--markdown", is_flag=True, help="Print tables in Markdown.")
@_show.output_options
def compare(suite: str | None, data: str | None, as_json: bool | None, **options: Any) -> None:
    """Compare classifiers on your own documents, or on public corpora (--suite).

    Runs all classifiers on the same splits, and prints all measures, wins and losses, the corrected resampled t-test,
    and ROC curves at low false-alarm rates.
    """
    names = ("names", "systems", "flips", "online", "part", "resume", "show", "markdown")
    of_suite = {name: options.pop(name) for name in names}
    if suite is not None:
        if data:
            os.environ["SUREBAYES_DATA"] = data  # the suites read the variable only
        _run_suite(suite, as_json, options["jobs"], options["out"], **of_suite)
        return
    if options["out"] is not None and Path(options["out"]).is_file():
        raise click.UsageError(f"--out must be a folder. Got the file {options['out']}.")
    _on_documents(as_json, **options)


def _on_documents(as_json: bool | None, **options: Any) -> None:
    from surebayes.research.compare_documents import MEASURES, compare_documents, is_multilabel, steps_of, times_of

    inputs = _inputs.take_inputs(options, multilabel=True)
    assumed = None if options["reader"] else inputs.usual_reader
    options["reader"] = options["reader"] or assumed
    names = list(dict.fromkeys(options["classifiers"])) or None
    if options["measure"] not in MEASURES:
        raise click.UsageError(f"Unknown measure {options['measure']!r}. Measures: {', '.join(MEASURES)}.")
    for name in names or ():  # report a wrong name before hours of work
        try:
            steps_of(name, options["reader"])
        except ValueError as error:
            raise click.UsageError(str(error)) from error
    with _show.progress("reading", _inputs.total(inputs)) as counter:
        documents = list(_show.tracked(inputs.sources, counter))
    inputs.report()
    contents, labels = [document.content for document in documents], [document.label or "" for document in documents]
    _warn_of_reader(assumed, contents)
    order = None
    if options["split"] == "time" and options["reader"] == "mail":
        order = times_of(contents, [document.name for document in documents])
    elif options["split"] == "time" and len(inputs.sources.sources) > 1:
        raise click.UsageError(
            "--split time needs texts from one table, with rows in chronological order. Got several tables."
        )
    if is_multilabel(labels) and options["positive"]:
        raise click.UsageError("--positive is for two classes; these documents have lists of labels.")
    classes = list(dict.fromkeys(source.label or "" for source in inputs.sources.sources))
    positive = options["positive"] or (classes[-1] if len(classes) == 2 and all(classes) else None)
    distinct = [] if is_multilabel(labels) else sorted(map(str, set(labels)))
    if len(distinct) == 2:
        taken = positive or positive_of(distinct) or distinct[1]
        positive = _positive.resolve_positive(
            distinct, taken, "give --positive NAME", given=options["positive"] is not None
        )
    with _show.progress("comparing", unit="runs") as counter:
        compared = compare_documents(
            contents, labels, names, options["reader"], split=options["split"], repeats=options["repeats"],
            train_size=options["train_size"], order=order, pos_label=positive, random_state=options["seed"],
            jobs=options["jobs"], progress=counter.show, **_curve(options["curve"]),
        )  # fmt: skip
    if options["curve"]:
        _print_curve(compared, options["measure"], options["out"], as_json)
    else:
        _print(compared, options["measure"], options["out"], as_json)


def _warn_of_reader(assumed: str | None, contents: Sequence[str | bytes]) -> None:
    """Warn if documents do not look like those of the reader."""
    from surebayes.mail.header_check import HeaderCheck, no_mail, no_text

    headers = HeaderCheck.of(contents)
    if assumed == "mail" and headers.without_header:
        _show.note(no_mail("compare with --reader text"))
    if assumed == "text" and headers.with_header:
        _show.note(no_text("compare with --reader mail"))


def _curve(name: str | None) -> dict[str, Any]:
    """Return the curve to run instead of a plain comparison, if any."""
    if name is None:
        return {}
    from surebayes.research.curves import learning_curve, noise_curve

    return {"run": learning_curve if name == "learning" else noise_curve}


def _print_curve(curve: Curve, measure: str, out: str | None, as_json: bool | None) -> None:
    _check_measure(measure, curve.measures)
    if out is not None:
        _write(curve.result(), out)
    means = curve.mean(measure)
    if _show.wants_json(as_json):
        _show.print_json({"measure": measure, "along": curve.label, "points": curve.points, "means": means})
        return
    rows = [(name, *(f"{value:.4f}" for value in values)) for name, values in means.items()]
    _show.print_table(("", *(f"{point:g}" for point in curve.points)), rows, f"{measure} by {curve.label}:")


def _check_measure(measure: str, measured: Iterable[str]) -> None:
    if measure not in measured:
        raise click.UsageError(f"{measure!r} can't be measured on these documents. Use {', '.join(measured)}.")


def _write(result: Any, folder: str) -> None:
    from surebayes.research import papers

    papers.write([result], Path(folder))
    _show.note(f"Wrote {folder}")


def _print(comparison: Comparison, measure: str, out: str | None, as_json: bool | None) -> None:
    _check_measure(measure, comparison.values)
    if out is not None:
        _write(comparison.result(), out)
    names, wins = comparison.names, comparison.wins(measure).tolist()
    tests = [
        {"measure": measure, "first": names[i], "second": names[j], "won": wins[i][j], "lost": wins[j][i],
         "p": float(comparison.p_value(names[i], names[j], measure))}
        for i in range(len(names))
        for j in range(i + 1, len(names))
    ]  # fmt: skip
    if _show.wants_json(as_json):
        means = {name: {m: comparison.mean(m)[name] for m in comparison.values} for name in names}
        _show.print_json({"splits": len(comparison.sizes), "means": means, "tests": tests})
        return
    _print_tables(comparison, measure, tests)


def _print_tables(comparison: Comparison, measure: str, tests: Sequence[Mapping[str, Any]]) -> None:
    """Print measures by classifier, abbreviated to letters; then splits won and lost, and p, for each pair."""
    from rich.text import Text

    lower = measure.endswith("percent")
    names = sorted(comparison.names, key=lambda name: comparison.mean(measure)[name], reverse=not lower)
    letters = {name: chr(ord("A") + k) for k, name in enumerate(names)} if len(names) <= 26 else dict(zip(names, names))
    _show.print_facts({letters[name]: name for name in names})
    click.echo()
    rows = []
    for name in [measure, *(m for m in comparison.values if m != measure)]:
        means = comparison.mean(name)
        best = (min if name.endswith("percent") else max)(means.values())
        cells = [Text(f"{means[n]:.4f}", style="bold" if means[n] == best else "") for n in names]
        rows.append((name, *cells))
    _show.print_table(("measure", *letters.values()), rows, f"Means over {len(comparison.sizes)} splits:")
    if len(names) < 2:
        return
    by_pair = {(t["first"], t["second"]): (t["won"], t["lost"], t["p"]) for t in tests}
    by_pair |= {(b, a): (lost, won, p) for (a, b), (won, lost, p) in list(by_pair.items())}
    table = [
        (letters[first], *(_won_and_lost(by_pair.get((first, second))) for second in names))
        for first in names
    ]  # fmt: skip
    title = f"Splits won/lost by {measure}, row against column; p of the corrected resampled t-test:"
    _show.print_table(("", *letters.values()), table, title)


def _won_and_lost(outcome: tuple[int, int, float] | None) -> str:
    """Return splits won and lost, and p if it exists."""
    if outcome is None:
        return ""
    won, lost, p = outcome
    return f"{won}/{lost}" if math.isnan(p) else f"{won}/{lost} p={p:.2g}"


def _run_suite(suite: str, as_json: bool | None, jobs: int, out: str | None, **options: Any) -> None:
    from surebayes.research import suites

    if (options["resume"] or options["show"]) and out is None:
        raise click.UsageError("--resume and --show need --out FILE, the results of an earlier run.")
    if out is not None and Path(out).is_dir():
        raise click.UsageError(f"With --suite, --out must be a file. Got the folder {out}.")
    if options["show"] and not Path(str(out)).exists():
        raise click.UsageError(f"File not found: {out}. --show prints the results of an earlier run.")
    json_lines = _show.wants_json(as_json) and not options["markdown"]
    if options["show"]:
        results = suites.show_file(str(out), suite)
        for result in results if json_lines else ():
            _show.print_json(asdict(result))
    else:
        _check_suite(suite, options["names"], options["systems"])
        results = _suite_results(suite, jobs, out, json_lines, options)
    if options["markdown"]:
        click.echo(suites.markdown(results))
    elif not json_lines:
        _print_suite(results)


def _check_suite(suite: str, names: Sequence[str], systems: Sequence[str]) -> None:
    """Refuse corpora and systems that a suite doesn't have."""
    from surebayes.research import suites

    for wanted, known, what in (
        (names, suites.corpora_of(suite), "corpus"), (systems, suites.systems_of(suite), "system"),
    ):  # fmt: skip
        for name in wanted:
            if name not in known:
                raise click.UsageError(f"The {suite} suite has no {what} {name!r}. Choose from {'; '.join(known)}.")


def _print_suite(results: Sequence[Any]) -> None:
    from rich.text import Text

    from surebayes.research import suites

    for title, columns, lines in suites.tables(results):
        rows = [[Text(_show.visible(cell), style="bold" if best else "") for cell in cells] for best, cells in lines]
        _show.print_table(columns, rows, f"{title}:")


def _suite_results(suite: str, jobs: int, out: str | None, json_lines: bool, options: dict[str, Any]) -> list[Any]:
    from surebayes.research import suites

    with _show.progress(f"{suite} suite", unit="results") as counter:
        chosen: dict[str, Any] = {
            "systems": options["systems"] or None, "share": options["part"], "jobs": jobs, "out": out,
            "resume": options["resume"], "progress": counter.show,
        }  # fmt: skip
        if json_lines:
            chosen["report"] = lambda result: _show.print_json(asdict(result))
        if suite == "mail":
            names = options["names"] or suites.MAIL
            return suites.mail_suite(names, flips=options["flips"], online=options["online"], **chosen)
        return suites.text_suite(options["names"] or suites.corpora_of(suite), suite=suite, **chosen)
