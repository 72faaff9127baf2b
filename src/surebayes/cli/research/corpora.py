"""The `corpora` command: the catalogue of corpora, and checks of installed ones."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click

from surebayes.cli.shared import show as _show
from surebayes.cli.shared.command import Subgroup, setting

if TYPE_CHECKING:
    from surebayes.research.corpora.entries import Entry


@click.group(cls=Subgroup)
def corpora() -> None:
    """List, describe and check corpora."""


@corpora.command("list", examples=(("surebayes corpora list", "List all corpora, and mark the ones you have."),))
@setting("data")
@_show.output_options
def list_(data: str | None, as_json: bool | None) -> None:
    """List all corpora, and mark the ones you have."""
    from surebayes import corpora as catalogue

    paths = catalogue.available(data or None)
    entries = catalogue.catalogue()
    if _show.wants_json(as_json):
        for name, entry in entries.items():
            _show.print_json(
                {"name": entry.name, "title": entry.title, "documents": entry.documents, "kind": entry.kind,
                 "used_by": list(entry.used_by), "stands_in_for": list(entry.stands_in_for),
                 "obtainable": entry.obtainable, "path": str(paths[name]) if name in paths else None}
            )  # fmt: skip
        return
    presence = {name: "yes" if name in paths else "" if entry.obtainable else "gone" for name, entry in entries.items()}
    rows = [(name, entry.documents, entry.kind, presence[name], entry.title) for name, entry in entries.items()]
    _show.print_table(("name", "documents", "kind", "here", "corpus"), rows)
    if paths:
        _show.say(f"Here: in {_folder(paths)}. Gone: no longer distributed. Details: surebayes corpora info NAME")
    else:
        _show.note("No corpora found. Put them in one folder, and specify it with --data or SUREBAYES_DATA.")


def _folder(paths: Any) -> str:
    return str(next(iter(paths.values())).parent)


# Fields shown for a corpus, with their names; JSON has all fields.
_FACTS = {
    "title": "corpus", "publisher": "publisher", "licence": "terms", "contents": "contents", "documents": "documents",
    "classes": "classes", "splits": "splits", "used_by": "used by", "stands_in_for": "stands in for", "notes": "notes",
    "obtain": "source", "path": "here",
}  # fmt: skip


@corpora.command(
    arguments={"NAME": "The name of a corpus, as listed by `surebayes corpora list`."},
    examples=(("surebayes corpora info reuters21578", "Describe one corpus."),),
)
@setting("data")
@_show.output_options
@click.argument("name")
def info(name: str, data: str | None, as_json: bool | None) -> None:
    """Describe a corpus: publisher, terms, contents and source."""
    from surebayes import corpora as catalogue

    known = catalogue.catalogue()
    if name not in known:
        catalogue.load(name)  # raises for an unknown name
    path = catalogue.available(data or None).get(name)
    facts = {key: value for key, value in asdict(_plain(known[name])).items() if value not in (None, (), {}, "")}
    facts["path"] = str(path) if path else None
    if _show.wants_json(as_json):
        _show.print_json(facts)
        return
    facts["path"] = facts["path"] or "no"
    facts["notes"] = " ".join(facts.get("notes", ()))
    _show.print_facts({called: _in_words(facts[key]) for key, called in _FACTS.items() if facts.get(key)}, name)


def _plain(entry: Entry) -> Entry:
    """Return an entry whose mappings are plain dicts: a mapping proxy can't be copied."""
    return replace(entry, classes=dict(entry.classes), splits=dict(entry.splits))


def _in_words(value: Any) -> Any:
    if isinstance(value, dict):
        return _show.some([f"{label} {count:,}" for label, count in value.items()], 12)
    return ", ".join(map(str, value)) if isinstance(value, (tuple, list)) else value


@corpora.command(
    arguments={"NAME...": "Corpora to check. Default: all that you have."},
    examples=(
        ("surebayes corpora check", "Check all corpora you have; exit with status 1 if a count differs."),
        ("surebayes corpora check webkb --data ~/corpora", "Check one corpus."),
    ),
)
@setting("data")
@_show.output_options
@click.argument("names", nargs=-1, metavar="[NAME...]")
@click.pass_context
def check(ctx: click.Context, names: tuple[str, ...], data: str | None, as_json: bool | None) -> None:
    """Check the counts of corpora against the published figures."""
    from surebayes import corpora as catalogue

    wanted = names or tuple(catalogue.available(data or None))
    if not wanted:
        raise catalogue.CorpusMissing(
            "No corpora found. Specify the folder that contains them with --data or SUREBAYES_DATA."
        )
    checks = []
    with _show.progress("reading corpora", len(wanted), "corpora") as counter:
        for name in wanted:
            checks.append(catalogue.check(name, data or None))
            counter.advance()
    if _show.wants_json(as_json):
        for check in checks:
            record = {"name": check.name, "path": str(check.source), "documents": check.documents}
            more = {"duplicates": check.duplicates, "differences": list(check.differences)}
            _show.print_json({**record, "complete": check.complete, **more})
    else:
        rows = [
            (check.name, check.documents, check.duplicates, "; ".join(check.differences) or "as published")
            for check in checks
        ]
        _show.print_table(("corpus", "documents", "duplicates", "counts"), rows)
    if not all(check.complete for check in checks):
        ctx.exit(1)
