"""corpora, reproduce: the data and the tables of the papers."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from surebayes.cli import _show
from surebayes.cli._command import Command, Subgroup, setting


@click.group(cls=Subgroup)
def corpora() -> None:
    """Corpora: what there is, where to get it, and whether yours is complete."""


def _data(data: str | None) -> str | None:
    return data or None


@corpora.command("list", examples=(("surebayes corpora list", "Every corpus, and which of them you have."),))
@setting("data")
@_show.output_options
def list_(data: str | None, as_json: bool | None) -> None:
    """List every corpus of the catalogue, and which of them the folder of corpora holds."""
    from surebayes import corpora as catalogue

    there = catalogue.available(_data(data))
    records = [
        {"name": entry.name, "title": entry.title, "documents": entry.documents, "kind": entry.kind,
         "used_by": list(entry.used_by), "stands_in_for": list(entry.stands_in_for),
         "obtainable": entry.obtainable, "path": str(there[name]) if name in there else None}
        for name, entry in catalogue.catalogue().items()
    ]  # fmt: skip
    if _show.wants_json(as_json):
        for record in records:
            _show.print_json(record)
        return
    rows = [
        (r["name"], r["title"], r["documents"], r["kind"], r["path"] or ("" if r["obtainable"] else "can't be had"))
        for r in records
    ]
    _show.print_table(("name", "corpus", "documents", "kind", "found"), rows)
    if not there:
        _show.note("None found: put corpora into one folder and name it with --data or SUREBAYES_DATA.")


@corpora.command(examples=(("surebayes corpora info reuters21578", "Publisher, terms, contents, how to get it."),))
@setting("data")
@_show.output_options
@click.argument("name")
def info(name: str, data: str | None, as_json: bool | None) -> None:
    """Tell what a corpus is: publisher, terms, contents, how to get it."""
    from surebayes import corpora as catalogue

    known = catalogue.catalogue()
    entry = known[name] if name in known else catalogue.load(name)  # which says what is wrong with the name
    there = catalogue.available(_data(data)).get(name)
    facts = {key: value for key, value in asdict(_plain_entry(entry)).items() if value not in (None, (), {}, "")}
    facts["path"] = str(there) if there else None
    if _show.wants_json(as_json):
        _show.print_json(facts)
        return
    shown = {key: ", ".join(map(str, v)) if isinstance(v, (tuple, list)) else v for key, v in facts.items()}
    for key in ("classes", "splits"):
        if key in facts:
            shown[key] = ", ".join(f"{label} {count:,}" for label, count in facts[key].items())
    shown["path"] = facts["path"] or "not found"
    _show.print_facts(shown)


def _plain_entry(entry: Any) -> Any:
    """Give an entry whose mappings are plain dicts: a mapping proxy can't be copied."""
    from dataclasses import replace

    return replace(entry, classes=dict(entry.classes), splits=dict(entry.splits))


@corpora.command(
    examples=(
        ("surebayes corpora check", "Every corpus that you have; exit code 1 if a count differs."),
        ("surebayes corpora check webkb --data ~/corpora", "One of them."),
    )
)
@setting("data")
@_show.output_options
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.pass_context
def check(ctx: click.Context, names: tuple[str, ...], data: str | None, as_json: bool | None) -> None:
    """Read corpora, count them, and compare with the published counts."""
    from surebayes import corpora as catalogue

    wanted = names or tuple(catalogue.available(_data(data)))
    if not wanted:
        raise catalogue.CorpusMissing("No corpora found: name their folder with --data or SUREBAYES_DATA.")
    found = []
    with _show.progress("reading corpora", len(wanted), "corpora") as counter:
        for name in wanted:
            found.append(catalogue.check(name, _data(data)))
            counter.advance()
    if _show.wants_json(as_json):
        for one in found:
            record = {"name": one.name, "path": str(one.source), "documents": one.documents, "complete": one.complete}
            _show.print_json({**record, "duplicates": one.duplicates, "differences": list(one.differences)})
    else:
        rows = [
            (one.name, one.documents, one.duplicates, "as published" if one.complete else "; ".join(one.differences))
            for one in found
        ]
        _show.print_table(("corpus", "documents", "duplicates", "counts"), rows)
    if not all(one.complete for one in found):
        ctx.exit(1)


@click.command(
    cls=Command,
    examples=(
        ("surebayes reproduce kolcz-yih --table 2", "A table of a paper, our figures beside the published ones."),
        ("surebayes reproduce frank-bouckaert --out results/", "A whole paper, as Markdown, JSON, CSV and pictures."),
        ("surebayes reproduce kim-seo-rim --list", "Its tables and figures, and the options of each."),
        ("surebayes reproduce all --jobs 2 --out results/", "All five papers."),
    ),
)
@click.option("--table", "table_number", type=int, metavar="N", help="Only the table of this number.")
@click.option("--figure", "figure_number", type=int, metavar="N", help="Only the figure of this number.")
@click.option("--item", metavar="NAME", help='Only this item, for example "label noise".')
@click.option("--list", "listing", is_flag=True, help="List the items and their options; nothing is run.")
@click.option("--set", "pairs", multiple=True, metavar="NAME=VALUE", help="An option of the items, such as runs=3.")
@click.option(
    "--out", type=click.Path(file_okay=False), help="Write Markdown, JSON, CSV, PNG and SVG into this folder."
)
@setting("jobs")
@setting("data")
@setting("cache")
@_show.output_options
@click.argument("paper", metavar="PAPER")
def reproduce(
    paper: str,
    table_number: int | None,
    figure_number: int | None,
    item: str | None,
    listing: bool,
    pairs: tuple[str, ...],
    as_json: bool | None,
    **options: Any,
) -> None:
    """Reproduce a paper's tables and figures, the published figures beside ours.

    PAPER is kolcz-yih, kim-seo-rim, frank-bouckaert, junejo-karim, kolcz-chowdhury or all. Corpora come from
    SUREBAYES_DATA; counts and results are kept, so that a run that was stopped goes on where it was. In a pipe results
    are one JSON list.
    """
    from surebayes.research import papers

    if sum(choice is not None for choice in (table_number, figure_number, item)) > 1:
        raise click.UsageError("Give one of --table, --figure and --item.")
    chosen = f"table {table_number}" if table_number is not None else item
    chosen = f"figure {figure_number}" if figure_number is not None else chosen
    names = papers.PAPERS if paper == "all" else (paper,)
    if listing:
        _list_items(names, as_json)
        return
    results = _run_papers(names, chosen, pairs, **options)
    if not any(result.records for result in results):
        from surebayes.corpora import CorpusMissing

        notes = " ".join(dict.fromkeys(note for result in results for note in result.notes))
        where = "" if "SUREBAYES_DATA" in notes else " Name the folder of corpora with --data or SUREBAYES_DATA."
        raise CorpusMissing(f"Nothing to show without the corpora. {notes}{where}")
    if _show.wants_json(as_json):
        click.echo(papers.as_json(results))
        return
    out = _show.console()
    for result in results:
        papers.print_rich(result, out)


def _run_papers(
    names: tuple[str, ...], item: str | None, pairs: tuple[str, ...], out: str | None, jobs: int, data: Any, cache: Any
) -> list[Any]:
    from surebayes.research import papers
    from surebayes.research.papers.__main__ import options_of

    with _show.progress("reproducing", unit="steps") as counter:
        lab = papers.Lab(_data(data), cache or None, jobs, counter.show)
        options = options_of(pairs)
        results = [result for name in names for result in papers.reproduce(name, item, lab, **options)]
    if out is not None:
        papers.write(results, Path(out))
        _show.note(f"Written: {out}")
    return results


def _list_items(names: tuple[str, ...], as_json: bool | None) -> None:
    import inspect

    from surebayes.research import papers

    records: list[dict[str, Any]] = []
    for name in names:
        for item, function in papers.items(name).items():
            parameters = [p for p in inspect.signature(function).parameters.values() if p.name != "lab"]
            about = (function.__doc__ or "").strip().partition("\n")[0].partition(": ")
            options = {p.name: p.default for p in parameters}
            records.append({"paper": name, "item": item, "about": about[2] or about[0], "options": options})
    if _show.wants_json(as_json):
        for record in records:
            _show.print_json(record)
        return
    rows = [
        (r["paper"], r["item"], r["about"], ", ".join(f"{key}={value}" for key, value in r["options"].items()))
        for r in records
    ]
    _show.print_table(("paper", "item", "what it is", "options"), rows)
