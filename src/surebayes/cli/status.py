"""The `status` command: a filter's promises, documents and size on one screen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from surebayes.cli.shared import next_step as _next_step
from surebayes.cli.shared import show as _show
from surebayes.cli.shared.command import Command, model_option


@click.command(
    cls=Command,
    first=("model",),
    examples=(
        ("surebayes status -m ~/mail-filter", "Show the promise, the delivered rate, and the worst case."),
        ("surebayes status -m ~/mail-filter --json | jq .promise", "Print the promises as JSON."),
        (
            "surebayes status -m ~/mail-filter --digest",
            "Print the digest, to compare two filters: equal digests mean equal lessons.",
        ),
    ),
)
@model_option()
@click.option("--digest", is_flag=True, help=(
    "Also compute the digest of all lessons in the journal, and print the public key that verifies receipts."
))  # fmt: skip
@_show.output_options
def status(model: str, digest: bool, as_json: bool | None) -> None:
    """Show a filter's promises, its error rates so far, and its lessons.

    Use `doctor` to check a filter's files.
    """
    from surebayes.filter.filter import Filter

    with Filter.open(model) as opened:
        state = opened.status()
        if "shared" in state:
            state["shared"]["hosts"] = _known_hosts(model, state["shared"]["erasure"])
        latest = next((row["time"] for row in opened.history(limit=1)), None)
        if digest:
            with _show.progress("reading the journal"):
                state["lessons"] = opened.lesson_digest()
        advice = _next_step.for_filter(opened, model) if not state["promise"] and "base" not in state else None
    if _show.wants_json(as_json):
        _show.print_json(state)
        return
    facts = _facts(state, latest)
    for label, words in state["promise"].items():
        suffix = f" {label}" if len(state["promise"]) > 1 else ""
        facts |= {f"{name}{suffix}": sentence for name, sentence in _promise(words).items()}
    if digest:
        facts |= _digest(state["lessons"])
    _show.print_facts(facts, model)
    if advice is not None:
        advice.print()


def _facts(state: Mapping[str, Any], latest: str | None) -> dict[str, Any]:
    """Return the lines about documents and files, by their names."""
    waiting = {"waiting": f"{state['unabsorbed']:,} journal rows; the next command adds them"}
    last_change = {"last change": f"{latest.replace('T', ' ').removesuffix('+00:00')} UTC"} if latest else {}
    return {
        "model": state["model"],
        "learnt": _counts(state["documents"]),
        "set aside": _counts(state["reserved"]),
        **last_change,
        **(waiting if state["unabsorbed"] else {}),
        **_shared(state.get("shared")),
        **_shipped(state),
        "size": f"{state['bytes'] / 2**20:,.1f} MB, {state['rows']:,} rows",
    }


def _known_hosts(model: str, erasure: int) -> list[dict[str, Any]]:
    """Return the hosts of a shared journal; none if the database is unreachable."""
    from surebayes.errors import SurebayesError

    try:
        from surebayes.filter.hosts import known_hosts
        from surebayes.filter.shared.presence import described

        return described(known_hosts(model), erasure)
    except (SurebayesError, OSError, ImportError):
        return []


def _shared(shared: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the lines about a journal that several hosts share."""
    if shared is None:
        return {}
    lines = {"journal": shared["url"]}
    for host in shared["hosts"]:
        this = ", this host" if host["this"] else ""
        lines[f"host {host['name']}"] = (
            f"{host['state']}, row {host['row']:,}, {host['seconds']:,.0f} s ago, release {host['release']}{this}"
            f"{'' if host['erased'] else ', has not erased up to row ' + format(shared['erasure'], ',')}"
        )
    if shared["waiting"]:
        lines["to be sent"] = (
            f"{shared['waiting']:,} lessons since {shared['waiting_since'][:19].replace('T', ' ')} UTC"
        )
    return lines


def _shipped(state: Mapping[str, Any]) -> dict[str, str]:
    """Return the line about a shipped journal, or about the source of a copy."""
    if "shipped" in state:
        shipped = state["shipped"]
        mode = ", each lesson before it is acknowledged" if shipped["sync"] else ""
        return {"shipped to": f"{shipped['to']}{mode}: {_way(shipped)}"}
    if "followed" in state:
        followed = state["followed"]
        return {"copy of": f"{followed['source']}: {_way(followed)}"}
    return {}


def _way(about: Mapping[str, Any]) -> str:
    """Return how far a source or a copy has come."""
    if about["problem"]:
        return str(about["problem"])
    return f"row {about['row']:,}, {about['behind']:,} behind"


def _digest(lessons: Mapping[str, Any]) -> dict[str, str]:
    """Return the lines about the digest of all lessons, by their names."""
    missing = f"none: {lessons['uncovered']:,} documents were counted without a fingerprint"
    key = {} if lessons["key"] is None else {"receipts' key": lessons["key"]}
    return {"digest": lessons["digest"] or missing, **key}


def _counts(documents: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in documents.items())


def _promise(words: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sentences about one class, by their names; missing figures are marked as such."""
    promised = words["promised"] or "no rate"
    if words["state"] is not None:
        promised += f" ({words['state']}{': ' + words['renewed'] if words['renewed'] else ''})"
    return {
        "promised": promised,
        "delivered": words["delivered"] or "not measured: no verdicts are remembered",
        "worst case": words["worst"] or "unlimited: no budget is set",
    }
