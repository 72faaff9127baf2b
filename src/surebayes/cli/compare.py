"""compare: classifiers side by side, on your own documents or on public corpora."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from surebayes.cli import _inputs, _show
from surebayes.cli._command import Command, setting


@click.command(
    cls=Command,
    examples=(
        ("surebayes compare --ham ham.mbox --spam spam.mbox", "Four classifiers on your own mail."),
        ("surebayes compare --reader text --csv reviews.csv -c 'OpinionPoolNB(top=50)' -c ViewPool --split cv",
         "Two, by cross-validation."),
        ("surebayes compare --ham ham/ --spam spam/ --split time -c 'TermWeighting + sklearn.svm.LinearSVC' --out x",
         "Trained on the past; steps before a classifier; everything written into a folder."),
        ("surebayes compare --suite mail --corpus spamassassin", "Our pool and its peers on a public corpus."),
        ("surebayes compare --suite text --jobs 2 --out text.jsonl --resume",
         "Public corpora, two processes; what the file has is not run again."),
    ),
)  # fmt: skip
@_inputs.class_options
@setting("reader")
@click.option("-c", "--classifier", "classifiers", multiple=True, metavar="NAME", help=(
    "A classifier: a name of surebayes, or the full name of one of scikit-learn, with settings if wanted. ViewPool "
    "reads documents itself, all others get counts of words; ' + ' puts steps before one. May be repeated."
))  # fmt: skip
@setting("split", about=(
    "Random hold-outs, cross-validation, or by time: mails by when they were received, rows of a table as they stand."
))  # fmt: skip
@setting("repeats", about="Hold-outs, folds or steps in time.")
@setting("train_size", about="The share that trains.")
@click.option("--positive", metavar="NAME", help="The positive of two classes. Default: the one named last.")
@setting("measure", about="What wins and losses go by.")
@setting("seed")
@setting("jobs")
@setting("data")
@click.option("--out", type=click.Path(), help=(
    "Write Markdown, JSON, CSV and pictures into this folder. Of a suite: append each result to this file, a line of "
    "JSON each."
))  # fmt: skip
@click.option("--suite", type=click.Choice(["mail", "text"]), help="A comparison on public corpora instead.")
@click.option("--corpus", "names", multiple=True, metavar="NAME", help="Of a suite: only this corpus. May be repeated.")
@click.option(
    "--system", "systems", multiple=True, metavar="NAME", help="Of a suite: only this system. May be repeated."
)
@click.option("--flips", type=click.IntRange(min=0), default=3, help=(
    "Of the mail suite: runs with 5% of the training labels flipped. Default: 3."
))  # fmt: skip
@click.option("--online/--no-online", default=True, help="Of the mail suite: also message by message.")
@click.option("--part", type=click.FloatRange(0, 1, min_open=True), default=1.0, help=(
    "Of a suite: how much of each stream, or of the folds. Default: 1."
))  # fmt: skip
@click.option("--resume", is_flag=True, help=(
    "Of a suite: leave out what the file of --out has of the same version and settings."
))  # fmt: skip
@click.option("--show", is_flag=True, help="Of a suite: run nothing, print the tables of the file of --out.")
@click.option("--markdown", is_flag=True, help="Of a suite: print the tables in Markdown.")
@_show.output_options
def compare(suite: str | None, data: str | None, as_json: bool | None, **options: Any) -> None:
    """Compare classifiers on your own documents, or on public corpora (--suite).

    All on the same splits: every measure, wins and losses, the corrected resampled t-test, ROC curves where false
    alarms are few.
    """
    names = ("names", "systems", "flips", "online", "part", "resume", "show", "markdown")
    of_suite = {name: options.pop(name) for name in names}
    if suite is not None:
        if data:
            os.environ["SUREBAYES_DATA"] = data  # the suites know no other way
        _run_suite(suite, as_json, options["jobs"], options["out"], **of_suite)
        return
    if options["out"] is not None and Path(options["out"]).is_file():
        raise click.UsageError(f"--out must be a folder. Got the file {options['out']}.")
    _on_documents(as_json, **options)


def _on_documents(as_json: bool | None, **options: Any) -> None:
    from surebayes.research.compare_documents import DEFAULTS, compare_documents, steps_of, times_of

    inputs = _inputs.taken(options)
    names = list(dict.fromkeys(options["classifiers"] or DEFAULTS))
    for name in names:
        steps_of(name, options["reader"])  # a wrong name is said before hours of work
    with _show.progress("reading", _inputs.total(inputs)) as counter:
        read = list(_show.tracked(inputs.sources, counter))
    inputs.report()
    documents, labels = [one.content for one in read], [str(one.label) for one in read]
    order = None
    if options["split"] == "time" and options["reader"] == "mail":
        order = times_of(documents, [one.name for one in read])
    elif options["split"] == "time" and len(inputs.sources.sources) > 1:
        raise click.UsageError("Texts can be split by time only if they come from one table, in the order of time.")
    classes = list(dict.fromkeys(source.label or "" for source in inputs.sources.sources))
    positive = options["positive"] or (classes[-1] if len(classes) == 2 and all(classes) else None)
    with _show.progress("comparing", unit="runs") as counter:
        found = compare_documents(
            documents, labels, names, options["reader"], split=options["split"], repeats=options["repeats"],
            train_size=options["train_size"], order=order, pos_label=positive, random_state=options["seed"],
            jobs=options["jobs"], progress=counter.show,
        )  # fmt: skip
    _print(found, options["measure"], options["out"], as_json)


def _print(found: Any, measure: str, out: str | None, as_json: bool | None) -> None:
    if measure not in found.values:
        raise click.UsageError(f"There is no measure {measure!r} here; there are {', '.join(found.values)}.")
    if out is not None:
        from surebayes.research import papers

        papers.write([found.result()], Path(out))
        _show.note(f"Written: {out}")
    pairs = [(a, b) for k, a in enumerate(found.names) for b in found.names[k + 1 :]]
    wins = found.wins(measure).tolist()
    tests = [
        {"measure": measure, "first": a, "second": b, "won": wins[found.names.index(a)][found.names.index(b)],
         "lost": wins[found.names.index(b)][found.names.index(a)], "p": float(found.p_value(a, b, measure))}
        for a, b in pairs
    ]  # fmt: skip
    if _show.wants_json(as_json):
        by_name = {name: {m: found.mean(m)[name] for m in found.values} for name in found.names}
        _show.print_json({"splits": len(found.sizes), "means": by_name, "tests": tests})
        return
    _print_tables(found, measure, tests)


def _print_tables(found: Any, measure: str, tests: list[dict[str, Any]]) -> None:
    """Print measures by classifiers (names are long, so these go by letters), then won/lost and p for each pair."""
    from rich.text import Text

    lower = measure.endswith("percent")
    names = sorted(found.names, key=lambda name: found.mean(measure)[name], reverse=not lower)
    letters = {name: chr(ord("A") + k) for k, name in enumerate(names)} if len(names) <= 26 else dict(zip(names, names))
    _show.print_facts({letters[name]: name for name in names})
    rows = []
    for name in [measure, *(m for m in found.values if m != measure)]:
        means = found.mean(name)
        best = (min if name.endswith("percent") else max)(means.values())
        cells = [Text(f"{means[n]:.4f}", style="bold" if means[n] == best else "", justify="right") for n in names]
        rows.append((name, *cells))
    _show.print_table(("measure", *letters.values()), rows, f"Means over {len(found.sizes)} splits:")
    if len(names) < 2:
        return
    pairs = {(t["first"], t["second"]): t for t in tests}
    table = []
    for first in names:
        against: list[str] = []
        for second in names:
            t, turned = pairs.get((first, second)), pairs.get((second, first))
            own = (
                (t["won"], t["lost"], t["p"]) if t else (turned["lost"], turned["won"], turned["p"]) if turned else None
            )
            sure = "" if own is None or own[2] != own[2] else f" p={own[2]:.2g}"
            against.append("" if own is None else f"{own[0]}/{own[1]}{sure}")
        table.append((letters[first], *against))
    title = f"Splits won/lost by {measure}, row against column; p of the corrected resampled t-test:"
    _show.print_table(("", *letters.values()), table, title)


def _run_suite(suite: str, as_json: bool | None, jobs: int, out: str | None, **options: Any) -> None:
    from surebayes.research import suites

    if (options["resume"] or options["show"]) and out is None:
        raise click.UsageError("--resume and --show need the file of an earlier run: give --out FILE.")
    if out is not None and Path(out).is_dir():
        raise click.UsageError(f"Of a suite --out must be a file. Got the folder {out}.")
    if options["show"] and not Path(str(out)).exists():
        raise click.UsageError(f"There is no file {out}.")
    json_lines = _show.wants_json(as_json) and not options["markdown"]
    if options["show"]:
        results = suites.show_file(str(out), suite)
        for result in results if json_lines else ():
            _show.print_json(asdict(result))
    else:
        results = _suite_results(suite, jobs, out, json_lines, options)
    if options["markdown"]:
        click.echo(suites.markdown(results))
    elif not json_lines:
        console = _show.console()
        for table in suites.tables(results):
            console.print(table)


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
        return suites.text_suite(options["names"] or suites.TEXT, **chosen)
