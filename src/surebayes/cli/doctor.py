"""The `doctor` command: checks of the installation and of a filter, with a remedy for each problem."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from surebayes.cli.shared import next_step as _next_step
from surebayes.cli.shared import show as _show
from surebayes.cli.shared.command import Command, model_option, setting

if TYPE_CHECKING:
    from surebayes.filter.filter import Filter


class Finding(NamedTuple):
    """The result of a check: its name, its state ("ok", "note" or "problem"), and the details."""

    name: str
    state: str
    detail: str


@click.command(
    cls=Command,
    settings=False,
    first=("model", "everybody", "recount", "repair", "mail"),
    sections={"Addresses for --mail": ("http", "spamd", "milter")},
    examples=(
        ("surebayes doctor", "Check the installation."),
        ("surebayes doctor -m ~/mail-filter",
         "Also check a filter: its files, lessons, class balance and certificate."),
        ("surebayes doctor -m ~/mail-filter --recount",
         "Recount every lesson, and compare the counts with the model."),
        ("surebayes doctor -m ~/mail-filter --compact",
         "Compact the files before checking, to free disk space."),
        ("surebayes doctor -m ~/mail-filter --mail --spamd 127.0.0.1:783",
         "Test a running server with a message: judge it, teach it, judge it again, and forget it."),
        ("surebayes doctor -m /srv/site --all --users /srv/users", "Also check everyone's personal layers."),
    ),
)  # fmt: skip
@model_option(required=False)
@click.option("--recount", is_flag=True, help=(
    "Recount all lessons in the journal, and compare the counts with the model. Takes as long as training."
))  # fmt: skip
@click.option("--compact", is_flag=True, help=(
    "Before checking, merge the model's tables into one file, and rewrite the journal to reclaim unused space."
))  # fmt: skip
@click.option("--repair", is_flag=True, help=(
    "Repair problems that don't require restoring a backup: journal rows with NumPy labels from old releases, "
    "world-readable files and leftover temporary files. Lessons are not changed."
))  # fmt: skip
@click.option("--mail", is_flag=True, help=(
    "Send a test message to a running `surebayes serve`, teach it, check that the verdict changes, and forget it. "
    "Set SUREBAYES_TOKEN to the token for HTTP."
))  # fmt: skip
@click.option("--all", "everybody", is_flag=True, help=(
    "Also check everyone's personal layers (in --users DIR, or the folder given in the filter's settings), and report "
    "those with problems."
))  # fmt: skip
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help=(
    "Number of processes for checking layers. Default: one per core."
))  # fmt: skip
@setting("http")
@setting("spamd")
@setting("milter")
@_show.output_options
@click.pass_context
def doctor(
    ctx: click.Context, /, model: str | None, recount: bool, compact: bool, repair: bool, mail: bool,
    everybody: bool, jobs: int | None, http: str | None, spamd: str | None, milter: str | None, as_json: bool | None,
) -> None:  # fmt: skip
    """Check the installation and a filter for problems.

    Checks the compiled kernel, optional dependencies, settings, all of the filter's checksums, recent lessons, class
    balance and the certificate. Exits with status 1 if there is a problem.
    """
    if mail and model is None:
        raise click.UsageError(
            "--mail needs -m DIR, the folder of the server's filter: its key signs the test message, so that it "
            "counts nowhere."
        )
    checks = _installation()
    if repair:
        checks.append(_repair(model))
    if compact:
        checks.append(_compact(model))
    if model is not None:
        with _show.progress("checking the filter", unit="rows") as counter:
            checks += [_settings(model), *_filter(model, recount, counter)]
    if everybody:
        checks += _everybody(ctx.meta.get("surebayes.users") or _users_of(model), recount, jobs or os.cpu_count() or 1)
    if mail and model is not None:
        with _show.progress("testing the server"):
            checks += _mail(model, {"http": http, "spamd": spamd, "milter": milter})
    if _show.wants_json(as_json):
        for name, state, detail in checks:
            _show.print_json({"check": name, "state": state, "detail": detail})
    else:
        from rich.text import Text

        colours = {"ok": "green", "note": "yellow", "problem": "bold red"}
        rows = [(name, Text(state, style=colours[state]), detail) for name, state, detail in checks]
        _show.print_table(("check", "", ""), rows)
    if any(check.state == "problem" for check in checks):
        ctx.exit(1)


_EXTRAS = (
    ("plots", "matplotlib", "pictures"),
    ("corpora", "pyarrow", "Parquet files"),
    ("server", "starlette", "`serve` and `doctor --mail`"),
    ("receipts", "cryptography", "`--receipt` and `verify`"),
    ("postgres", "psycopg", "journals that several hosts share"),
)


def _installation() -> list[Finding]:
    from importlib.util import find_spec

    import surebayes
    from surebayes.kernels import is_compiled

    compiled = is_compiled()
    python = ".".join(map(str, sys.version_info[:3]))
    slow = "pure Python, slower: install a C compiler and reinstall surebayes"
    checks = [
        Finding("version", "ok", f"surebayes {surebayes.__version__}, Python {python}"),
        Finding("kernel", "ok", "compiled") if compiled else Finding("kernel", "note", slow),
    ]
    for extra, module, what in _EXTRAS:
        installed = find_spec(module) is not None
        advice = f"{module} is not installed: {what} need pip install 'surebayes[{extra}]'"
        checks.append(
            Finding(f"extra {extra}", "ok" if installed else "note", f"{module} is installed" if installed else advice)
        )
    return checks


def _mail(model: str, addresses: Mapping[str, str | None]) -> list[Finding]:
    """Check that a lesson passes through a running server, up to the first step that fails."""
    from surebayes.filter import settings
    from surebayes.server.address import addresses as parsed
    from surebayes.server.mail.proof import prove

    stored = settings.resolve(model)
    texts = {listener: addresses[listener] or stored[listener].value for listener in ("http", "spamd", "milter")}
    listeners = {listener: parsed(text)[0] for listener, text in texts.items() if text}
    if not listeners:
        listeners = {"http": parsed("127.0.0.1:8025")[0]}
    token, certificate = os.environ.get("SUREBAYES_TOKEN", ""), stored["tls_certificate"].value
    links = prove(listeners, model, token=token, certificate=certificate)
    return [Finding(f"mail: {link.name}", "ok" if link.holds else "problem", link.detail) for link in links]


def _compact(model: str | None) -> Finding:
    from surebayes.errors import SurebayesError
    from surebayes.filter.filter import Filter

    if model is None:
        raise click.UsageError("--compact needs a filter: -m DIR.")
    try:
        with Filter.open(model) as opened, _show.progress("compacting"):
            size = opened.compact()
    except (SurebayesError, OSError) as error:
        return Finding("compacted", "problem", str(error))
    return Finding("compacted", "ok", f"{size['before'] / 2**20:,.1f} MB before, {size['after'] / 2**20:,.1f} MB after")


def _repair(model: str | None) -> Finding:
    from surebayes.errors import SurebayesError
    from surebayes.filter.filter import Filter

    if model is None:
        raise click.UsageError("--repair needs a filter: -m DIR.")
    try:
        with Filter.open(model) as opened, _show.progress("repairing"):
            done = _repaired({**opened.repair(), "people": _partly_deleted(model, finish=True)})
    except (SurebayesError, OSError) as error:
        return Finding("repaired", "problem", str(error))
    return Finding("repaired", "ok", done or "nothing to repair")


def _repaired(found: Mapping[str, Any]) -> str:
    """Return the findings of `Filter.repair` in words; "" for none."""
    rows, parts = found["rows"], []
    if rows:
        parts.append(f"{rows:,} journal {'row' if rows == 1 else 'rows'} with numpy labels or names")
    if found["leftovers"]:
        parts.append(f"leftovers of killed processes: {', '.join(map(_show.visible, found['leftovers']))}")
    if found["people"]:
        parts.append(f"people whose deletion was interrupted: {', '.join(map(_show.visible, found['people']))}")
    if found["private"]:
        parts.append("files that every user of this machine may read")
    return "; ".join(parts)


def _partly_deleted(model: str, finish: bool = False) -> list[str]:
    """Return the folders of people with an interrupted deletion; or finish it."""
    from surebayes.filter.persons import Persons

    users = _users_of(model)
    if not users:
        return []
    persons = Persons(users)
    return persons.finish_forgetting() if finish else persons.partly_deleted()


def _users_of(model: str | None) -> str | None:
    """Return the folder of people in the settings of a filter; None without one."""
    from surebayes.errors import BadConfig
    from surebayes.filter import settings

    try:
        users = settings.resolve(model)["users"].value
    except (BadConfig, OSError):  # reported separately
        return None
    return str(users) if users else None


def _everybody(users: str | None, recount: bool, jobs: int) -> list[Finding]:
    """Check the layers of all people, in several processes; report problems, and files that `--repair` would remove."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from contextlib import nullcontext
    from functools import partial

    from surebayes.filter.persons import Persons

    if not users:
        raise click.UsageError("--all needs --users DIR, the folder of personal layers, or users in the settings.")
    names, found, with_problems = Persons(users).names(), [], 0
    check = partial(_of_person, users, recount)
    several = jobs > 1 and len(names) > _FEW
    executor = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) if several else None
    with executor or nullcontext(), _show.progress("checking people", len(names), "people") as counter:
        results = executor.map(check, names, chunksize=16) if executor else map(check, names)
        for findings in results:
            counter.advance()
            with_problems += any(finding.state == "problem" for finding in findings)
            found += findings
    healthy = f"{len(names) - with_problems:,} of {len(names):,} layers in {users} have no problem"
    return [*found, Finding("people", "problem" if with_problems else "ok", healthy)]


_FEW = 200
"""Layers that one process checks before more processes would have started."""


def _of_person(users: str, recount: bool, name: str) -> list[Finding]:
    """Check one person's layer; return the problems for an administrator."""
    from surebayes.filter.persons import folder_of, has_layer

    folder = folder_of(users, name)
    with _show.progress("", hidden=True) as counter:
        checks = [_settings(folder), *_filter(folder, recount, counter)]
    if not has_layer(folder):  # forgotten in the meantime
        return []
    return [
        Finding(f"{name}: {check.name}", check.state, check.detail)
        for check in checks
        if check.state == "problem" or check.name == "repairs"
    ]


def _settings(model: str) -> Finding:
    from surebayes.filter import settings

    try:
        path = settings.find(model)
        settings.resolve(model)
    except (settings.BadConfig, OSError) as error:
        return Finding("settings", "problem", str(error))
    return Finding("settings", "ok", str(path) if path else "defaults; no config.toml")


def _filter(model: str, recount: bool, counter: _show.Progress) -> list[Finding]:
    from surebayes.errors import SurebayesError
    from surebayes.filter.filter import Filter

    try:
        with Filter.open(model) as opened:
            problems = opened.problems(recount=recount, progress=counter.show)
            repairable = _repaired({**opened.repair(pretend=True), "people": _partly_deleted(model)})
            status, lessons, standing = opened.status(), _lessons(opened), opened.health()
            unweighed = opened.unweighed()
            facts = opened.remember() if status["budgets"] else {}
    except (SurebayesError, OSError) as error:
        return [Finding("store", "problem", str(error))]
    size = f"{status['bytes'] / 2**20:,.1f} MB, {status['rows']:,} rows"
    checks = [Finding("store", "problem", problem) for problem in problems] or [
        Finding("store", "ok", f"all checksums match{', all lessons recounted' if recount else ''}; {size}")
    ]
    if repairable:
        command = f"surebayes doctor -m {shlex.quote(model)} --repair"
        checks.append(Finding("repairs", "note", f"{repairable}. Nothing is lost. Repair with: {command}"))
    if standing is not None:
        checks.append(Finding("base", *standing))
    checks.append(lessons)
    if "shared" in status:
        checks += [_shared(model, status["shared"]), *_hosts(model)]
    checks += _shipped(model, status)
    if unweighed:
        cut_short = (
            f"{unweighed:,} documents were learnt by a training that stopped before it fitted the weights of experts"
        )
        checks.append(Finding("weights", "note", f"{cut_short}. Train on the same documents again"))
    if status["second_stage"] is not None:
        checks.append(_second_stage(model, status["second_stage"]))
    if status["unabsorbed"]:
        waiting = f"{status['unabsorbed']:,} journal rows are waiting; the next command adds them to the model"
        checks.append(Finding("absorbed", "note", waiting))
    if standing is not None and status["certificate"] is None:
        promise = "none: this layer uses the threshold of its base, which was calibrated on other mail"
        checks.append(Finding("certificate", "note", promise))
    else:
        checks += [_balance(status["documents"]), *_certificates(model, status["certificate"], status["reserved"])]
    return [*checks, *_delivered(status["promise"]), *_budgets(model, status["budgets"], facts)]


def _shared(model: str, shared: Mapping[str, Any]) -> Finding:
    """Check the database of a journal that several hosts share."""
    from surebayes.filter.hosts import reached

    problem, behind = reached(model)
    waiting = (
        f"; {shared['waiting']:,} lessons wait to be sent since {shared['waiting_since']}" if shared["waiting"] else ""
    )
    if problem:
        return Finding("hosts", "problem", f"{problem}{waiting}")
    new = f"; {behind:,} rows of other hosts are new" if behind else ""
    advice = f". Next: surebayes sync -m {shlex.quote(model)}" if waiting or behind else ""
    return Finding("hosts", "note" if advice else "ok", f"{shared['url']} answers{waiting}{new}{advice}")


def _shipped(model: str, status: Mapping[str, Any]) -> list[Finding]:
    """Check the folder of a shipped journal, or the source of a copy."""
    for what, place, command in (("shipped", "to", "ship"), ("followed", "source", "follow --once")):
        if what in status:
            about = status[what]
            if about["problem"]:
                return [Finding(what, "problem", about["problem"])]
            behind = f"; {about['behind']:,} rows behind" if about["behind"] else ""
            advice = f". Next: surebayes {command} -m {shlex.quote(model)}" if behind else ""
            where = f"{about[place]}, row {about['row']:,}{behind}{advice}"
            return [Finding(what, "note" if behind else "ok", where)]
    return []


def _hosts(model: str) -> list[Finding]:
    """Compare the digests that the hosts report with those of the journal here."""
    from surebayes.errors import SurebayesError
    from surebayes.filter import hosts
    from surebayes.filter.filter import Filter
    from surebayes.filter.shared.presence import described

    try:
        found = hosts.known_hosts(model)
        if not found:
            return []
        with Filter.open(model) as opened:
            unlike = hosts.unlike(opened._session, found)
            waits = [host["name"] for host in opened.not_erased_on() or []]
    except (SurebayesError, OSError):  # the finding on the database names the problem
        return []
    if unlike:
        return [Finding("lessons of hosts", "problem", (
            f"{', '.join(unlike)}: the reported lessons differ from this host's journal at the same row. Join the "
            "database again on each of these hosts, with a new folder."
        ))]  # fmt: skip
    behind = [
        f"{host['name']} ({host['seconds']:,.0f} s ago)" for host in described(found) if host["state"] == "behind"
    ]
    pending = f"; erasures made here are still pending: {', '.join(waits)}" if waits else ""
    late = f"; behind at their last report: {', '.join(behind)}" if behind else ""
    same = f"the digests of {len(found):,} hosts match the journal"
    return [Finding("lessons of hosts", "note" if pending else "ok", f"{same}{late}{pending}")]


def _delivered(promises: Mapping[str, Mapping[str, Any]]) -> list[Finding]:
    """Report the observed precision of each class so far."""
    delivered = {label: words["delivered"] for label, words in promises.items() if words["delivered"]}
    return [
        Finding("delivered" if len(delivered) == 1 else f"delivered {label}", "ok", sentence)
        for label, sentence in delivered.items()
    ]


def _lessons(opened: Filter) -> Finding:
    """Report whether lessons arrive: the latest, and the number in the last month."""
    since = (datetime.now(UTC) - timedelta(days=30)).isoformat(timespec="seconds")
    times = [row["time"] for row in opened.history(limit=None) if row["action"] in ("learn", "forget")]
    if not times:
        return Finding("lessons", "note", "none yet. Teach the filter with `surebayes train` or `surebayes learn`")
    recent = sum(time >= since for time in times)
    latest = times[0].replace("T", " ").removesuffix("+00:00")
    return Finding("lessons", "ok", f"last at {latest} UTC; {recent:,} in the last 30 days")


def _second_stage(model: str, stages: Mapping[str, Any]) -> Finding:
    """Report the number of lessons since the second stage of a text filter was fitted."""
    number = stages["lessons_since"]
    lessons = "an unknown number of lessons" if number is None else "1 lesson" if number == 1 else f"{number:,} lessons"
    state = f"{lessons} since it was fitted" if stages["fitted"] else "not fitted yet"
    if not stages["tune_helps"]:
        return Finding("second stage", "ok" if stages["fitted"] else "note", state)
    return Finding("second stage", "note", f"{state}. Fit it with: surebayes tune -m {shlex.quote(model)}")


def _balance(documents: Mapping[str, int]) -> Finding:
    counts = ", ".join(f"{count:,} {name}" for name, count in documents.items())
    smallest = min(documents, key=lambda name: documents[name])
    if documents[smallest] == 0:
        return Finding("balance", "note", f"{counts}: without lessons of {smallest}, the verdict is never {smallest}")
    if documents[smallest] < 50:
        return Finding("balance", "note", f"{counts}: teach a few hundred documents of {smallest}")
    return Finding("balance", "ok", counts)


def _certificates(model: str, certificate: Mapping[str, Any] | None, reserved: Mapping[str, int]) -> list[Finding]:
    if certificate is None or "classes" not in certificate:
        return [_certificate(model, certificate, reserved)]
    return [_certificate(model, each, reserved) for each in certificate["classes"].values()]


def _budgets(model: str, budgets: Mapping[str, Mapping[str, Any]], facts: Mapping[str, Any]) -> list[Finding]:
    """Report the state of each budget, and advise if its debt can't be paid back or it can't flag anything."""
    checks = []
    for label, budget in budgets.items():
        name = "budget" if len(budgets) == 1 else f"budget {label}"
        sentence = (
            f"{budget['burst']:g} + {_show.percent(budget['rate'])} n alarms; debt {budget['debt']:.2f}, lift "
            f"{budget['lift']:.0%}, {budget['left']:,} left; {budget['alarms']:,} alarms in {budget['negatives']:,} "
            f"known good, {budget['in_flight']:,} in flight"
        )
        folder = shlex.quote(model)
        if budget["mute"]:
            muted = f"alarms are muted and mail passes until {budget['until_heard']:,} more good documents are known"
            checks.append(Finding(name, "problem", f"{sentence}: {muted}"))
        elif budget["threshold"] is None:
            checks.append(Finding(name, "note", (
                f"{sentence}: nothing is flagged, because no score of a good document is known. Set some aside: "
                f"surebayes calibrate -m {folder} --budget {budget['rate']:g} --ham PATH"
            )))  # fmt: skip
        elif budget["debt"] and not facts["presume_days"] and budget["negatives"] <= budget["alarms"]:
            checks.append(Finding(name, "note", (
                f"{sentence}: the debt is never paid back, because only mistakes are reported and messages are "
                "never presumed good. "
                f"Teach good mail too, or run: surebayes config set -m {folder} presume_good_after 7"
            )))  # fmt: skip
        else:
            checks.append(Finding(name, "ok", sentence))
    return checks


def _certificate(model: str, certificate: Mapping[str, Any] | None, reserved: Mapping[str, int]) -> Finding:
    """Report whether there is a promise and whether it holds, with advice."""
    if certificate is None:
        from surebayes.filter import settings

        defaults = settings.SETTINGS["max_fpr"].default, settings.SETTINGS["confidence"].default
        advice = _next_step.after_training(model, reserved, *defaults)
        return Finding("certificate", "note", f"none; the threshold is 0. Next: {advice.command} ({advice.why})")
    if certificate["assumption"].startswith("prequential") or certificate["goal"] == "budget":
        return Finding("certificate", "ok", "none for a rate: an alarm budget sets the threshold")
    max_fpr, confidence = certificate["max_fpr"], certificate["confidence"]
    promise = f"at most {_show.percent(max_fpr)} false alarms" if max_fpr is not None else (
        f"{certificate['pos_label']} at least {_show.percent(certificate['min_precision'])} precise"
    )  # fmt: skip
    promise += (
        f"{', at all times at once,' if certificate.get('anytime') else ''} with confidence {_show.percent(confidence)}"
    )
    if not certificate["stale"]:
        return Finding("certificate", "ok", f"{promise}, from {certificate['n_negatives']:,} documents")
    if certificate.get("contradicted"):
        reason = f"{certificate['state']} ({promise}): {certificate['reason']}"
        again = f"Choose the threshold again: surebayes calibrate -m {shlex.quote(model)}"
        return Finding("certificate", "problem", f"{reason}. {again}")
    needed = 1 if max_fpr is None else _next_step.needed(max_fpr, confidence)
    set_aside = sum(count for name, count in reserved.items() if name != certificate["pos_label"])
    folder = shlex.quote(model)
    if set_aside < needed:
        shortage = f"{set_aside:,} documents are set aside, {needed:,} are needed"
        advice_more = f"Add some: surebayes calibrate -m {folder} --ham PATH"
        return Finding("certificate", "note", f"{certificate['state']} ({promise}): {shortage}. {advice_more}")
    now = f"Renew it now: surebayes calibrate -m {folder}"
    when = certificate["renewed"] or certificate["reason"]
    return Finding("certificate", "note", f"{certificate['state']} ({promise}): {when}. {now}")
