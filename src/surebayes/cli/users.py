"""The `users` command: list, show, export, import, delete, back up and restore personal layers."""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from surebayes.cli.shared import other_hosts as _hosts
from surebayes.cli.shared import show as _show
from surebayes.cli.shared.command import Subgroup, setting

if TYPE_CHECKING:
    from surebayes.filter.person_backup import Outcome
    from surebayes.filter.persons import Persons


@click.group(cls=Subgroup)
def users() -> None:
    """List, show, back up and delete personal layers.

    Example: `surebayes users list --users /srv/users`
    """


def _persons_options(function: Any) -> Any:
    """Add ``--users DIR``, and the site whose settings may name it: ``-m DIR``, ``--config FILE``."""
    function = _show.output_options(function)
    function = click.option(
        "--config", "config_file", type=click.Path(readable=False, dir_okay=False), expose_value=False, help=(
            "The settings file. Default: config.toml in the site's folder."
        )
    )(function)  # fmt: skip
    function = setting("model", "-m", about="The site's folder; its settings may specify --users.")(function)
    return setting("users", about="The folder of personal layers. Default: taken from the site's settings.")(function)


_NAME = click.argument("name", metavar="NAME")
_NAMES = click.argument("names", metavar="[NAME...]", nargs=-1)


def _found(users: str | None, model: str | None, may_be_new: bool = False) -> Persons:
    from surebayes.errors import NoInput
    from surebayes.filter.site_persons import persons_of

    if not users:
        raise click.UsageError(
            "No folder of personal layers. Give --users DIR, or -m DIR of a site whose settings specify it."
        )
    persons = persons_of(users, model)
    if not os.path.isdir(users) and not may_be_new and persons.shared is None:
        raise NoInput(f"{users!r} is not a folder. Give the folder of personal layers with --users DIR.")
    return persons


# ---------------------------------------------------------------------- looking


@users.command(
    "list",
    first=("users", "model", "after", "limit", "names_only"),
    examples=(
        ("surebayes users list --users /srv/users", "List all people, with lessons, size and last lesson."),
        ("surebayes users list -m /srv/site --after karl --limit 100", "List the next hundred names after karl."),
    ),
)
@_persons_options
@click.option("--after", default="", metavar="NAME", help="Start after this name.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="The maximum number of people. Default: all.")
@click.option("--names", "names_only", is_flag=True, help="Print only names, without opening any layer.")
def list_(
    users: str | None, model: str | None, after: str, limit: int | None, names_only: bool, as_json: bool | None
) -> None:
    """List the people who have a layer.

    If -m names a site with a shared journal, people whose layers exist only on other hosts are included.
    """
    persons = _found(users, model)
    names = persons.names(after.lower(), limit)
    if names_only:
        for name in names:
            _show.print_json({"person": name}) if _show.wants_json(as_json) else click.echo(name)
        return
    rows = _about(persons, names)
    if _show.wants_json(as_json):
        for row in rows:
            _show.print_json(row)
        return
    shown = list(rows)
    if not shown:
        _show.say("No layers yet.")
        return
    cells = [
        (row["person"], row["lessons"], _kilobytes(row["bytes"]), _when(row["last_lesson"]), _budget_state(row))
        for row in shown
    ]
    _show.print_table(("person", "lessons", "kB", "last lesson", ""), cells)
    lessons, size = (sum(row[name] for row in shown) for name in ("lessons", "bytes"))
    _show.say(f"{len(shown):,} {'person' if len(shown) == 1 else 'people'}, {lessons:,} lessons, {size / 1e6:,.1f} MB")


def _about(persons: Persons, names: Sequence[str]) -> Iterable[dict[str, Any]]:
    """Yield the figures of people; a layer that can't be read has "error" instead."""
    from surebayes.errors import NoModel, SurebayesError

    with _show.progress("reading layers", len(names), "people") as counter:
        for name in names:
            counter.advance()
            try:
                yield persons.about(name)
            except NoModel:  # forgotten in the meantime
                continue
            except (SurebayesError, OSError) as error:
                yield {
                    "person": name, "lessons": 0, "last_lesson": None, "bytes": 0, "budgets": {}, "error": str(error),
                }  # fmt: skip


def _kilobytes(size: int) -> int:
    return -(-size // 1000)


def _when(moment: str | None) -> str:
    return "" if moment is None else moment.replace("T", " ").removesuffix("+00:00")


def _budget_state(row: dict[str, Any]) -> str:
    if row.get("error"):
        return str(row["error"])
    return ", ".join(f"{label} muted" for label, budget in row["budgets"].items() if budget["mute"])


@users.command(
    first=("users", "model"),
    arguments={"NAME": "The person's name."},
    examples=(("surebayes users show --users /srv/users ann@example.org", "Show one person's layer."),),
)
@_persons_options
@_NAME
def show(users: str | None, model: str | None, name: str, as_json: bool | None) -> None:
    """Show one person's layer: lessons, size, base, promise and budget."""
    from surebayes.filter.filter import Filter
    from surebayes.filter.persons import own_folder

    persons = _found(users, model)
    persons.bring(name)
    folder = own_folder(persons.users, name)
    facts = persons.about(name)
    with Filter.open(folder, renew=False) as opened:
        status, health = opened.status(), opened.health()
    base = status.get("base") or {}
    facts |= {
        "folder": folder, "documents": status["documents"], "reserved": status["reserved"], "model": status["model"],
        "base": base, "certificate": status["certificate"],
        "health": None if health is None else {"state": health[0], "detail": health[1]},
    }  # fmt: skip
    if _show.wants_json(as_json):
        _show.print_json(facts)
        return
    documents = ", ".join(f"{count:,} {label}" for label, count in status["documents"].items())
    _show.print_facts(
        {
            "person": facts["person"],
            "folder": folder,
            "lessons": f"{facts['lessons']:,} ({documents})",
            "last lesson": _when(facts["last_lesson"]) or "none",
            "size": f"{facts['bytes'] / 1000:,.0f} kB",
            "base": f"{base.get('path', 'none')}; the layer's lessons count {base.get('own_weight', 1)} times",
            "promise": "none: the base's threshold" if status["certificate"] is None else "a certificate of the layer",
            **({"budget": _budget_state(facts)} if _budget_state(facts) else {}),
            **({} if health is None or health[0] == "ok" else {health[0]: health[1]}),
        }
    )


# ---------------------------------------------------------------------- one person


@users.command(
    first=("users", "model"),
    arguments={"NAME": "The person's name.", "ARCHIVE": "The file to write."},
    examples=(("surebayes users export --users /srv/users ann ann.backup", "Export one person's layer to a file."),),
)
@_persons_options
@_NAME
@click.argument("archive", type=click.Path(readable=False, dir_okay=False))
def export(users: str | None, model: str | None, name: str, archive: str, as_json: bool | None) -> None:
    """Export one person's layer to a file.

    The archive includes the person's history and settings.
    """
    from surebayes.filter.filter import Filter
    from surebayes.filter.persons import own_folder

    persons = _found(users, model)
    persons.bring(name)
    with Filter.open(own_folder(persons.users, name), renew=False) as opened:
        opened.export(archive)
    if _show.wants_json(as_json):
        _show.print_json({"person": name.lower(), "archive": archive, "bytes": os.path.getsize(archive)})
    else:
        click.echo(_show.visible(archive))


@users.command(
    "import",
    first=("users", "model", "replace", "group"),
    arguments={"NAME": "The person's name.", "ARCHIVE": "The output of `users export` or of a backup."},
    examples=(("surebayes users import --users /srv/users ann ann.backup", "Restore a person's layer from a file."),),
)
@_persons_options
@click.option("--replace", is_flag=True, help="Replace the person's existing layer.")
@setting("group")
@_NAME
@click.argument("archive", type=click.Path(readable=False, dir_okay=False))
def import_(
    users: str | None, model: str | None, replace: bool, group: str | None, name: str, archive: str,
    as_json: bool | None,
) -> None:  # fmt: skip
    """Restore a person's layer from a file."""
    from surebayes.filter import person_backup as backups
    from surebayes.filter.persons import folder_of

    persons = _found(users, model, may_be_new=True)
    folder_of(persons.users, name)  # raises for an invalid name
    with backups.restoring(persons.users):
        done = backups.restore(persons.users, name.lower(), archive, replace, group, persons.shared)
    _report([done], as_json, how=f"Replace it: surebayes users import --users {shlex.quote(str(users))} --replace ...")


@users.command(
    first=("users", "model", "yes"),
    arguments={"NAME...": "The people whose layers are deleted."},
    examples=(
        ("surebayes users forget --users /srv/users ann@example.org", "Delete all of one person's lessons."),
        ("surebayes users forget -m /srv/site --users /srv/users --yes ann bob",
         "Delete two people's layers without confirmation, and the site's verdicts on their mail."),
    ),
)  # fmt: skip
@_persons_options
@click.option("--yes", is_flag=True, help="Delete without confirmation; required if stdin is not a terminal.")
@_hosts.wait_option
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
def forget(
    users: str | None, model: str | None, yes: bool, wait: float, names: tuple[str, ...], as_json: bool | None
) -> None:  # fmt: skip
    """Permanently delete personal layers.

    With -m, also deletes the site's remembered verdicts on these people's mail. If several hosts share the site's
    journal, the layers are also deleted from the database, and the output names the hosts that have yet to delete their
    copies.

    A running server closes a deleted layer when the person's next message arrives. Backup archives are kept; delete
    them with `users backup --remove-gone`.
    """
    from surebayes.filter.filter import Filter
    from surebayes.filter.persons import checked_name, has_layer
    from surebayes.filter.persons import folder_of as folder
    from surebayes.filter.site_persons import shared_by

    persons = _found(users, model)
    asked = list(dict.fromkeys(checked_name(name) for name in names))
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("`users forget` deletes lessons permanently. Confirm with --yes.")
        known = sum(has_layer(folder(persons.users, name)) for name in asked)
        click.confirm(f"Permanently delete the layers of {known} of {len(asked)} people?", abort=True, err=True)
    done, last = list[dict[str, Any]](), 0
    for name in asked:
        persons.shared = persons.shared or shared_by(persons.users, name)
        removal = persons.forget_in_database(name)
        last = max(last, removal)
        done.append({"person": name, "layer": persons.delete_here(name) or removal > 0, "remembered": 0})
    shared = persons.shared
    behind = [] if shared is None else _hosts.awaited(lambda: shared.behind(last), wait)
    if model:
        with Filter.open(model) as site:
            for row in done:
                row["remembered"] = site.erase_remembered(str(row["person"]))
    for row in done:
        if _show.wants_json(as_json):
            _show.print_json({**row, **({"behind": behind} if last else {})})
        else:
            layer = "layer deleted" if row["layer"] else "no layer"
            verdicts = f", {row['remembered']:,} remembered verdicts erased" if model else ""
            _show.say(f"{row['person']}: {layer}{verdicts}")
    if last:
        _hosts.finish(behind, wait, as_json)


# ---------------------------------------------------------------------- all people


@users.command(
    first=("users", "model", "remove_gone"),
    arguments={
        "TARGET": "The backup folder, with one archive per person.",
        "NAME...": "People to back up. Default: all.",
    },
    examples=(
        ("surebayes users backup --users /srv/users /backup/users",
         "Back up all people; archives of unchanged layers are not rewritten."),
        ("surebayes users backup --users /srv/users /backup/users --remove-gone",
         "Also delete the archives of people whose layers were deleted."),
    ),
)  # fmt: skip
@_persons_options
@click.option("--remove-gone", is_flag=True, help="Delete the archives of people who no longer have a layer.")
@click.argument("target", type=click.Path(readable=False, file_okay=False))
@_NAMES
def backup(
    users: str | None, model: str | None, remove_gone: bool, target: str, names: tuple[str, ...], as_json: bool | None
) -> None:
    """Back up the personal layers of everyone, or of the people named.

    Only layers that have changed since the last backup are written. The server may keep running. An interrupted backup
    resumes on the next run. To back up the site itself, use `surebayes export`.
    """
    from surebayes.filter import person_backup as backups

    persons = _found(users, model)
    wanted = backups.selected(persons.names(), names, persons.users)
    done: list[Outcome] = []
    with (
        _show.progress("backing up", len(wanted), "people") as counter,
        backups.backing_up(target),
    ):
        for name in wanted:
            persons.bring(name)
            done.append(backups.back_up(persons.users, name, target))
            counter.advance()
        if not names:
            done += backups.without_layer(persons.users, target, remove_gone)
    _report(done, as_json, how="Delete the archives of people without a layer with --remove-gone.")


@users.command(
    first=("users", "model", "replace", "group"),
    arguments={
        "TARGET": "The backup folder.",
        "NAME...": "People to restore. Default: all in the backup.",
    },
    examples=(
        ("surebayes users restore --users /srv/users /backup/users", "Restore all people who have no layer."),
        ("surebayes users restore --users /srv/users /backup/users ann --replace",
         "Restore one person's layer to its state in the backup."),
    ),
)  # fmt: skip
@_persons_options
@click.option("--replace", is_flag=True, help="Replace existing layers.")
@setting("group")
@click.argument("target", type=click.Path(readable=False, file_okay=False))
@_NAMES
def restore(
    users: str | None, model: str | None, replace: bool, group: str | None, target: str, names: tuple[str, ...],
    as_json: bool | None,
) -> None:  # fmt: skip
    """Restore personal layers from a backup.

    Existing layers are kept unless --replace is given, so an interrupted restore resumes on the next run.
    """
    from surebayes.filter import person_backup as backups

    persons = _found(users, model, may_be_new=True)
    wanted = backups.selected(backups.names_in(target), names, target)
    done = []
    with _show.progress("restoring", len(wanted), "people") as counter, backups.restoring(persons.users):
        for name in wanted:
            path = backups.path_of(target, name)
            done.append(backups.restore(persons.users, name, path, replace, group, persons.shared))
            counter.advance()
    _report(done, as_json, how="Replace existing layers with --replace.")


_WORDS = {
    "written": "written", "unchanged": "unchanged", "restored": "restored", "present": "already present and unchanged",
    "gone": "without a layer", "removed": "removed (no layer)", "failed": "failed",
}  # fmt: skip


def _report(done: Sequence[Outcome], as_json: bool | None, how: str) -> None:
    """Print outcomes: one line each in JSON, else their numbers; exit with 1 after a failure."""
    counts = Counter(each.outcome for each in done)
    if _show.wants_json(as_json):
        for each in done:
            detail = {"detail": each.detail} if each.detail else {}
            _show.print_json({"person": each.person, "outcome": each.outcome, **detail})
    else:
        words = [f"{counts[outcome]:,} {word}" for outcome, word in _WORDS.items() if counts[outcome]]
        _show.say(", ".join(words) + "." if words else "No people.")
        if counts["gone"] or counts["present"]:
            _show.note(how)
    for each in done:
        if each.outcome == "failed":
            _show.note(f"{each.person}: {each.detail}")
    if counts["failed"]:
        click.get_current_context().exit(1)
