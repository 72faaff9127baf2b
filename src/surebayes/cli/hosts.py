"""The `migrate`, `join` and `sync` commands: filters of several hosts, with their journal in PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from surebayes.cli.shared import show as _show
from surebayes.cli.shared.command import Command, model_option, setting

if TYPE_CHECKING:
    from surebayes.filter.host_layers import Synced

_URL = "postgresql://USER@HOST/DATABASE"
_PASSWORD = "Keep the password in ~/.pgpass."


@click.command(
    cls=Command,
    first=("model", "journal", "print_roles"),
    examples=(
        ("surebayes migrate -m ~/mail-filter --journal postgresql://mail@db/filters",
         "Move a filter's journal into a database that other hosts can join."),
        ("surebayes migrate -m ~/mail-filter --journal sqlite", "Move the journal back into the filter's folder."),
        ("surebayes migrate --print-roles | psql filters", "Create roles with minimal privileges."),
    ),
)  # fmt: skip
@model_option(required=False, persons=False)
@click.option("--journal", metavar="URL", help=(
    f"The database, as {_URL}, or `sqlite` for a journal in the folder. {_PASSWORD}"
))  # fmt: skip
@setting("users", about="Also move the journals of the personal layers in this folder.")
@click.option(
    "--print-roles", is_flag=True, help="Print SQL for two roles: one may append and read, the other may also erase."
)
@_show.output_options
def migrate(
    model: str | None, journal: str | None, users: str | None, print_roles: bool, as_json: bool | None
) -> None:  # fmt: skip
    """Move a filter's journal into PostgreSQL, or back into its folder.

    --users includes the journals of personal layers. Other hosts can then `join` the journal, and every lesson reaches
    all hosts. The folder keeps a copy of the journal, so judging does not need the database. If the command is
    interrupted, run it again. It can also change the database URL, for example to switch roles.
    """
    if print_roles:
        from surebayes.filter.shared.schema import ROLES

        click.echo(ROLES, nl=False)
        return
    if model is None or journal is None:
        raise click.UsageError("Give the filter, -m DIR, and its new journal: --journal URL, or --journal sqlite.")
    from surebayes.filter import hosts

    if journal == "sqlite":
        layers = None if users is None else _worked(model, users, "unshare_all")
        if layers is not None and layers.failed:
            _report(layers, as_json)
            return
        rows = hosts.unshare(model)
        if _show.wants_json(as_json):
            _show.print_json({"journal": "sqlite", "rows": rows, **_described(layers)})
        else:
            _show.say(f"The journal of {model} is in its folder again: {rows:,} rows. The database keeps a copy.")
            _report(layers, as_json)
        return
    with _show.progress("moving rows", unit="rows") as counter:
        done = hosts.share(model, journal, counter.show)
    layers = None if users is None else _worked(model, users, "share_all")
    if _show.wants_json(as_json):
        _show.print_json({**done, **_described(layers)})
        _fail(layers)
        return
    _show.say(f"Moved {done['moved']:,} rows; the journal {done['journal']} has {done['rows']:,}.")
    _report(layers, as_json)
    _show.note("On each additional host: surebayes join -m DIR --journal URL")


def _worked(model: str, users: str, work: str) -> Synced:
    """Work on every layer of a site whose journal is shared; see `SharedLayers`."""
    from surebayes.filter.host_layers import SharedLayers

    with _show.progress("layers", unit="people") as counter:
        done: Synced = getattr(SharedLayers(users, model), work)(counter.show)
    return done


def _described(layers: Synced | None) -> dict[str, Any]:
    if layers is None:
        return {}
    failed = [{"person": person, "error": error} for person, error in layers.failed]
    return {"layers": layers.layers, "layer_rows": layers.rows, "failed": failed}


def _report(layers: Synced | None, as_json: bool | None) -> None:
    """Print the outcome of work on layers; exit with 1 where one failed."""
    if layers is None:
        return
    if _show.wants_json(as_json):
        _show.print_json(_described(layers))
    else:
        _show.say(f"{layers.layers:,} layers: {layers.rows:,} rows.")
        for person, error in layers.failed:
            _show.note(f"{person}: {error}")
    _fail(layers)


def _fail(layers: Synced | None) -> None:
    if layers is not None and layers.failed:
        click.get_current_context().exit(1)


@click.command(
    cls=Command,
    first=("model", "journal", "name"),
    examples=(
        ("surebayes join -m ~/mail-filter --journal postgresql://mail@db/filters",
         "Create this host's folder for the shared journal."),
    ),
)  # fmt: skip
@model_option(persons=False, about="The new filter's folder.")
@click.option("--journal", metavar="URL", required=True, help=f"The database, as {_URL}. {_PASSWORD}")
@click.option(
    "--name", metavar="NAME", help="The journal's name, or a prefix of it, if the database has several journals."
)
@setting(
    "users",
    about="Also copy every personal layer into this folder now; otherwise, each is copied when it is first used.",
)
@setting("group")
@_show.output_options
def join(
    model: str, journal: str, name: str | None, users: str | None, group: str | None, as_json: bool | None
) -> None:  # fmt: skip
    """Join a shared journal: create a folder for its filter on this host.

    If copying the layers is interrupted, run `surebayes sync -m DIR --users DIR` to copy the rest.
    """
    from surebayes.filter import hosts
    from surebayes.persist.folder import share

    with _show.progress("copying rows", unit="rows") as counter:
        done = hosts.join(model, journal, name, counter.show)
    if group is not None:
        share(model, group)
    layers = None if users is None else _worked(model, users, "sync")
    if _show.wants_json(as_json):
        _show.print_json({**done, **_described(layers)})
        _fail(layers)
    else:
        _show.say(f"{model} shares the journal {done['journal']}: {done['rows']:,} rows.")
        _report(layers, as_json)


@click.command(
    cls=Command,
    first=("model",),
    examples=(("surebayes sync -m ~/mail-filter", "Fetch new lessons now."),),
)
@model_option(persons=False)
@setting("users", about="Also fetch all personal layers into this folder, and keep them up to date.")
@_show.output_options
def sync(model: str, users: str | None, as_json: bool | None) -> None:
    """Fetch lessons from other hosts, so that `filter` and `classify` use them.

    A running server does this automatically. On a host without a server, run `sync` every minute. After many lessons,
    it also stores a snapshot of the model in the database for new hosts.
    """
    from surebayes.filter import hosts
    from surebayes.filter.filter import Filter

    with Filter.open(model) as opened, _show.progress("copying rows", unit="rows"):
        done = hosts.sync_of(opened)
    layers = None if users is None else _worked(model, users, "sync")
    if _show.wants_json(as_json):
        _show.print_json({**done, **_described(layers)})
        _fail(layers)
    else:
        sent = f", {done['sent']:,} lessons sent that had waited here" if done["sent"] else ""
        seen = f", {done['verdicts']:,} verdicts of other hosts" if done["verdicts"] else ""
        _show.say(f"{done['rows']:,} new rows{sent}{seen}; the journal has {done['last']:,}.")
        _report(layers, as_json)
