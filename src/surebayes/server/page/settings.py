"""The place "Settings": configuration of the running server, retention, tokens, people, erasure."""

from __future__ import annotations

import os
import platform
from collections import Counter
from typing import Any

from surebayes import __version__
from surebayes.errors import BadConfig, BadInput
from surebayes.server.access import read_tokens
from surebayes.server.page.look import count
from surebayes.server.page.texts import TEXTS, plain
from surebayes.server.page.visit import Done, Visit
from surebayes.server.service import Service

ROWS = 100


async def settings(visit: Visit) -> dict[str, Any]:
    """Return the settings of the running server."""
    service, options = visit.service, visit.service.options
    learnt, retention, shared = await visit.ask(
        lambda mine: (mine.learnt(), mine.memory_status(), mine.shared_status().get("shared"))
    )
    return {
        **server(visit), "folder": os.path.abspath(options.model), "bytes": learnt["bytes"], "retention": retention,
        "shared": shared,
        "tokens": _tokens(service),
        "tokens_file": None if options.tokens is None else os.path.abspath(options.tokens),
    }  # fmt: skip


def _tokens(service: Service) -> list[dict[str, Any]] | None:
    """Return the number of tokens by role and person; None without a token file."""
    if service.tokens is None:
        return None
    try:
        grants = read_tokens(service.tokens.path, service.tokens.persons).values()
    except (BadConfig, OSError):  # damaged since the start; the log has the error, and valid lines are in force
        return []
    numbers = Counter((grant.role, grant.person) for grant in grants)
    ranked = sorted(numbers.items(), key=lambda item: (item[0][1] or "", item[0][0]))
    return [{"role": role, "person": person, "tokens": number} for (role, person), number in ranked]


def server(visit: Visit) -> dict[str, Any]:
    """Return the version, the host and the listening addresses of the server."""
    options = visit.service.options
    return {
        "version": __version__, "host": platform.node(), "workers": options.workers,
        "listeners": [{"name": name, "address": str(at)} for name, at in sorted(options.listeners.items())],
    }  # fmt: skip


# ---------------------------------------------------------------------- people


async def people(visit: Visit) -> dict[str, Any]:
    """Return the people with a layer."""
    options = visit.service.options
    quota = {"lessons": options.quota_lessons, "bytes": options.quota_bytes}
    if visit.service.layers is None:
        return {"people": [], "next": None, "has_people": False, "quota": quota}
    return {**await visit.service.people(visit.field("after"), ROWS), "has_people": True, "quota": quota}


async def confirm_person(visit: Visit) -> dict[str, Any]:
    """Return the data of the confirmation before a person is deleted."""
    name = visit.field("name")
    if not name:
        raise BadInput(plain("people.no-address"))
    return {"name": visit.service.person_of(name)}


async def forget_person(visit: Visit) -> Done:
    """Delete a person's lessons and remembered verdicts."""
    name = visit.field("name")
    if not name:
        raise BadInput(plain("people.no-name"))
    person = visit.service.person_of(name)
    assert person is not None
    deleted = await visit.service.forget_person(person)
    layer = TEXTS["people.layer" if deleted["layer"] else "people.no-layer"]
    remembered = count(deleted["remembered"], "remembered verdict")
    return Done(plain("people.done", name=name, layer=layer, remembered=remembered), "/settings/people")


# ---------------------------------------------------------------------- erasing


async def erase(visit: Visit) -> dict[str, Any]:
    """Return the data of the form for erasure."""
    return {"message_id": visit.field("message_id")}


async def erase_mail(visit: Visit) -> Done:
    """Erase a message from the model, the journal and the remembered verdicts."""
    raw = visit.form.get("message_id", "")
    names = [line.strip() for line in raw.splitlines() if line.strip()] if isinstance(raw, str) else []
    if not names:
        raise BadInput(plain("erase.no-id"))
    if visit.field("sure") != "yes":
        raise BadInput(plain("erase.not-sure"))
    erased = await visit.service.erase(names, visit.who, visit.person)
    numbers = {name: count(number) for name, number in erased.items()}
    numbers["remembered"] = count(erased["remembered"], "remembered verdict")
    return Done(plain("erase.done", **numbers), "/settings/erase")
