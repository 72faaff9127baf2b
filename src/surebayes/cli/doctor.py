"""doctor: whether the installation and a filter are well, and what to do where they are not."""

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
    """What was looked at, how it is ("ok", "note" or "problem"), and what was found."""

    name: str
    state: str
    detail: str


@click.command(
    cls=Command,
    settings=False,
    examples=(
        ("surebayes doctor", "The installation."),
        ("surebayes doctor -m ~/mail-filter", "The filter too: store, lessons, balance, certificate."),
        ("surebayes doctor -m ~/mail-filter --recount",
         "Every lesson counted again, to see that they add up to the model."),
        ("surebayes doctor -m ~/mail-filter --compact", "Less room: one file of tables, a journal without gaps."),
        ("surebayes doctor -m ~/mail-filter --mail --spamd 127.0.0.1:783",
         "A marked mail through a running server: judged, taught, judged again, forgotten."),
    ),
)  # fmt: skip
@model_option(required=False)
@click.option("--recount", is_flag=True, help=(
    "Count every lesson of the journal again and compare with the model: as much work as training."
))  # fmt: skip
@click.option("--compact", is_flag=True, help=(
    "Put the tables into one file first, and write the journal anew without unused room."
))  # fmt: skip
@click.option("--repair", is_flag=True, help=(
    "Put right what can be put right without a copy: old rows with labels of numpy, files that every user may read, "
    "leftovers of killed processes. Nothing that was learnt changes."
))  # fmt: skip
@click.option("--mail", is_flag=True, help=(
    "Send a marked mail to a running `surebayes serve`, teach it, check that the verdict moves, and forget it. "
    "SUREBAYES_TOKEN is the token for HTTP."
))  # fmt: skip
@setting("http")
@setting("spamd")
@setting("milter")
@_show.output_options
@click.pass_context
def doctor(
    ctx: click.Context, /, model: str | None, recount: bool, compact: bool, repair: bool, mail: bool,
    http: str | None, spamd: str | None, milter: str | None, as_json: bool | None,
) -> None:  # fmt: skip
    """Check the installation and a filter; exit code 1 if there is a problem.

    Kernel and extras, settings, the store with every checksum, whether lessons arrive, class balance, certificate.
    """
    if mail and model is None:
        raise click.UsageError(
            "--mail needs the folder of the server's filter, -m DIR: its key signs the mail, so that it counts nowhere."
        )
    checks = _installation()
    if repair:
        checks.append(_repair(model))
    if compact:
        checks.append(_compact(model))
    if model is not None:
        with _show.progress("checking the filter", unit="rows") as counter:
            checks += [_settings(model), *_filter(model, recount, counter)]
    if mail and model is not None:
        with _show.progress("going round the loop"):
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
    ("server", "starlette", "the commands serve and doctor --mail"),
)


def _installation() -> list[Finding]:
    from importlib.util import find_spec

    import surebayes
    from surebayes.kernels import is_compiled

    compiled = is_compiled()
    python = ".".join(map(str, sys.version_info[:3]))
    slow = "pure Python, slower: install a C compiler, then surebayes again"
    checks = [
        Finding("version", "ok", f"surebayes {surebayes.__version__}, Python {python}"),
        Finding("kernel", "ok", "compiled") if compiled else Finding("kernel", "note", slow),
    ]
    for extra, module, what in _EXTRAS:
        installed = find_spec(module) is not None
        advice = f"no {module}: {what} need pip install 'surebayes[{extra}]'"
        checks.append(
            Finding(f"extra {extra}", "ok" if installed else "note", f"{module} is there" if installed else advice)
        )
    return checks


def _mail(model: str, addresses: Mapping[str, str | None]) -> list[Finding]:
    """Whether a lesson goes all the way round; the first link that doesn't hold is what to mend."""
    from surebayes.filter import settings
    from surebayes.server.address import Address
    from surebayes.server.mail.proof import prove

    stored = settings.resolve(model)
    texts = {door: addresses[door] or stored[door].value for door in ("http", "spamd", "milter")}
    doors = {door: Address.parse(text) for door, text in texts.items() if text}
    if not doors:
        doors = {"http": Address.parse("127.0.0.1:8025")}
    links = prove(doors, model, token=os.environ.get("SUREBAYES_TOKEN", ""))
    return [Finding(f"mail: {link.name}", "ok" if link.holds else "problem", link.detail) for link in links]


def _compact(model: str | None) -> Finding:
    from surebayes.errors import SurebayesError
    from surebayes.filter.filter import Filter

    if model is None:
        raise click.UsageError("--compact needs a filter: -m DIR.")
    try:
        with Filter.open(model) as opened, _show.progress("compacting"):
            room = opened.compact()
    except (SurebayesError, OSError) as error:
        return Finding("compacted", "problem", str(error))
    return Finding("compacted", "ok", f"{room['before'] / 2**20:,.1f} MB before, {room['after'] / 2**20:,.1f} MB now")


def _repair(model: str | None) -> Finding:
    from surebayes.errors import SurebayesError
    from surebayes.filter.filter import Filter

    if model is None:
        raise click.UsageError("--repair needs a filter: -m DIR.")
    try:
        with Filter.open(model) as opened, _show.progress("repairing"):
            done = _repaired({**opened.repair(), "persons": _half_forgotten(model, finish=True)})
    except (SurebayesError, OSError) as error:
        return Finding("repaired", "problem", str(error))
    return Finding("repaired", "ok", done or "nothing to repair")


def _repaired(found: Mapping[str, Any]) -> str:
    """Say in words what `Filter.repair` returns; "" for nothing."""
    rows, parts = found["rows"], []
    if rows:
        parts.append(f"{rows:,} {'row' if rows == 1 else 'rows'} of the journal with labels or names of numpy")
    if found["leftovers"]:
        parts.append(f"left by processes that were killed: {', '.join(map(_show.visible, found['leftovers']))}")
    if found["persons"]:
        parts.append(f"persons half forgotten: {', '.join(map(_show.visible, found['persons']))}")
    if found["private"]:
        parts.append("files that every user of this machine could read")
    return "; ".join(parts)


def _half_forgotten(model: str, finish: bool = False) -> list[str]:
    """Return the folders of persons whose deletion was cut short; or finish it."""
    from surebayes.errors import BadConfig
    from surebayes.filter import settings
    from surebayes.filter.persons import Persons

    try:
        users = settings.resolve(model)["users"].value
    except (BadConfig, OSError):  # that has a line of its own
        return []
    if not users:
        return []
    persons = Persons(users)
    return persons.finish_forgetting() if finish else persons.half_forgotten()


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
            repairable = _repaired({**opened.repair(pretend=True), "persons": _half_forgotten(model)})
            status, lessons, standing = opened.status(), _lessons(opened), opened.health()
            unweighed = opened.unweighed()
            facts = opened.remember() if status["budgets"] else {}
    except (SurebayesError, OSError) as error:
        return [Finding("store", "problem", str(error))]
    size = f"{status['bytes'] / 2**20:,.1f} MB, {status['rows']:,} rows"
    checks = [Finding("store", "problem", problem) for problem in problems] or [
        Finding("store", "ok", f"every checksum is right{', every lesson counted' if recount else ''}; {size}")
    ]
    if repairable:
        command = f"surebayes doctor -m {shlex.quote(model)} --repair"
        checks.append(Finding("repairs", "note", f"{repairable}. Nothing is lost; to put it right: {command}"))
    if standing is not None:
        checks.append(Finding("base", *standing))
    checks.append(lessons)
    if unweighed:
        cut_short = (
            f"{unweighed:,} documents were learnt by a training that was cut short before it weighed the experts"
        )
        checks.append(Finding("weights", "note", f"{cut_short}: train on the same documents again"))
    if status["second_stage"] is not None:
        checks.append(_second_stage(model, status["second_stage"]))
    if status["unabsorbed"]:
        checks.append(
            Finding("absorbed", "note", f"{status['unabsorbed']:,} rows wait; the next command takes them in")
        )
    if standing is not None and status["certificate"] is None:
        promise = "none, and no promise for this layer: the threshold is the base's, found with other mail than its own"
        checks.append(Finding("certificate", "note", promise))
    else:
        checks += [_balance(status["documents"]), *_certificates(model, status["certificate"], status["reserved"])]
    return [*checks, *_delivered(status["promise"]), *_budgets(model, status["budgets"], facts)]


def _delivered(promises: Mapping[str, Mapping[str, Any]]) -> list[Finding]:
    """Say what each class's answers were worth so far."""
    delivered = {label: words["delivered"] for label, words in promises.items() if words["delivered"]}
    return [
        Finding("delivered" if len(delivered) == 1 else f"delivered {label}", "ok", sentence)
        for label, sentence in delivered.items()
    ]


def _lessons(opened: Filter) -> Finding:
    """Whether lessons arrive: the latest, and how many in the last month."""
    since = (datetime.now(UTC) - timedelta(days=30)).isoformat(timespec="seconds")
    times = [row["time"] for row in opened.history(limit=None) if row["action"] in ("learn", "forget")]
    if not times:
        return Finding("lessons", "note", "none yet: teach it with `surebayes train` or `surebayes learn`")
    recent = sum(time >= since for time in times)
    latest = times[0].replace("T", " ").removesuffix("+00:00")
    return Finding("lessons", "ok", f"the latest at {latest} UTC; {recent:,} in the last 30 days")


def _second_stage(model: str, stages: Mapping[str, Any]) -> Finding:
    """How many lessons the frozen part of a filter of text has not seen, and what to do."""
    number = stages["lessons_since"]
    lessons = "an unknown number of lessons" if number is None else "1 lesson" if number == 1 else f"{number:,} lessons"
    state = f"{lessons} since it was fitted" if stages["fitted"] else "not fitted yet"
    if not stages["tune_helps"]:
        return Finding("second stage", "ok" if stages["fitted"] else "note", state)
    return Finding("second stage", "note", f"{state}: surebayes tune -m {shlex.quote(model)} would help")


def _balance(documents: Mapping[str, int]) -> Finding:
    counts = ", ".join(f"{count:,} {name}" for name, count in documents.items())
    smallest = min(documents, key=lambda name: documents[name])
    if documents[smallest] == 0:
        return Finding("balance", "note", f"{counts}: {smallest} was never taught, so it is never given")
    if documents[smallest] < 50:
        return Finding("balance", "note", f"{counts}: a few hundred of {smallest} would do better")
    return Finding("balance", "ok", counts)


def _certificates(model: str, certificate: Mapping[str, Any] | None, reserved: Mapping[str, int]) -> list[Finding]:
    if certificate is None or "classes" not in certificate:
        return [_certificate(model, certificate, reserved)]
    return [_certificate(model, each, reserved) for each in certificate["classes"].values()]


def _budgets(model: str, budgets: Mapping[str, Mapping[str, Any]], facts: Mapping[str, Any]) -> list[Finding]:
    """How each budget of alarms is; whether anything pays it back, and whether it can flag at all."""
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
            heard = f"mute, so mail passes, until {budget['until_heard']:,} more good documents are known"
            checks.append(Finding(name, "problem", f"{sentence}: {heard}"))
        elif budget["threshold"] is None:
            checks.append(Finding(name, "note", (
                f"{sentence}: no good document's score is known, so nothing is flagged. Set some aside: "
                f"surebayes calibrate -m {folder} --budget {budget['rate']:g} --ham PATH"
            )))  # fmt: skip
        elif budget["debt"] and not facts["presume_days"] and budget["negatives"] <= budget["alarms"]:
            checks.append(Finding(name, "note", (
                f"{sentence}: nothing pays the debt back, since silence doesn't count and only mistakes are told. "
                f"surebayes config set -m {folder} presume_good_after 7, or teach good mail too"
            )))  # fmt: skip
        else:
            checks.append(Finding(name, "ok", sentence))
    return checks


def _certificate(model: str, certificate: Mapping[str, Any] | None, reserved: Mapping[str, int]) -> Finding:
    """Whether there is a promise, whether it holds, and what to do if it doesn't."""
    if certificate is None:
        from surebayes.filter import settings

        defaults = settings.SETTINGS["max_fpr"].default, settings.SETTINGS["confidence"].default
        advice = _next_step.after_training(model, reserved, *defaults)
        return Finding("certificate", "note", f"none: the threshold is 0. Next: {advice.command} ({advice.why})")
    if certificate["assumption"].startswith("prequential") or certificate["goal"] == "budget":
        return Finding("certificate", "ok", "none of a rate: a budget of alarms stands for the threshold")
    max_fpr, confidence = certificate["max_fpr"], certificate["confidence"]
    promise = f"false alarms at most {_show.percent(max_fpr)}" if max_fpr is not None else (
        f"{certificate['pos_label']} right at least {_show.percent(certificate['min_precision'])}"
    )  # fmt: skip
    promise += f" with confidence {_show.percent(confidence)}"
    if not certificate["stale"]:
        return Finding("certificate", "ok", f"{promise}, from {certificate['n_negatives']:,} documents")
    needed = 1 if max_fpr is None else _next_step.needed(max_fpr, confidence)
    set_aside = sum(count for name, count in reserved.items() if name != certificate["pos_label"])
    folder = shlex.quote(model)
    if set_aside < needed:
        lack = f"{set_aside:,} documents are set aside and {needed:,} are needed"
        advice_more = f"Add some: surebayes calibrate -m {folder} --ham PATH"
        return Finding("certificate", "note", f"{certificate['state']} ({promise}): {lack}. {advice_more}")
    now = f"Renew it now: surebayes calibrate -m {folder}"
    when = certificate["renewed"] or certificate["reason"]
    return Finding("certificate", "note", f"{certificate['state']} ({promise}): {when}. {now}")
