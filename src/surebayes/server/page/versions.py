"""Versions and deletion: changes, rollback, persons, erasure; comparison with other filters."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from surebayes.errors import BadInput
from surebayes.server.page.look import count
from surebayes.server.page.visit import Done, Visit

ROWS = 100


async def versions(visit: Visit) -> dict[str, Any]:
    """Return the versions of the model, and the changes between two of them."""
    versions = await visit.service.versions(visit.person)
    latest = await visit.service.history(1, visit.person)
    now = latest[0]["version"] if latest else 0
    first, last = visit.number("from"), visit.number("to")
    changed = None
    if first is not None:
        changed = await visit.service.difference(first, now if last is None else last, ROWS, visit.person)
    return {"versions": versions, "now": now, "first": first, "last": last, "changed": changed}


async def confirm_rollback(visit: Visit) -> dict[str, Any]:
    """Return the lessons that a rollback would undo."""
    version = visit.number("version")
    if version is None:
        raise BadInput("The address has no version. Use /versions/confirm?version=1.")
    latest = await visit.service.history(1, visit.person)
    now = latest[0]["version"] if latest else 0
    return {"version": version, "changed": await visit.service.difference(version, now, 20, visit.person)}


async def rollback(visit: Visit) -> Done:
    """Restore a version."""
    version = visit.number("version")
    if version is None:
        raise BadInput("The form has no version. Load the page again.")
    outcome = await visit.service.rollback(version, visit.who, visit.person)
    return Done(f"Returned to version {version:,}: {count(outcome['undone'], 'entry', 'entries')} undone.", "/versions")


# ---------------------------------------------------------------------- persons


async def people(visit: Visit) -> dict[str, Any]:
    """Return the persons with a layer."""
    if visit.service.layers is None:
        return {"people": [], "next": None, "has_people": False}
    return {**await visit.service.people(visit.field("after"), ROWS), "has_people": True}


async def confirm_person(visit: Visit) -> dict[str, Any]:
    """Ask for confirmation before a person is forgotten."""
    name = visit.field("name")
    if not name:
        raise BadInput("The address has no person. Use /people/confirm?name=ann@example.org.")
    return {"name": visit.service.person_of(name)}


async def forget_person(visit: Visit) -> Done:
    """Delete a person's lessons and remembered verdicts."""
    name = visit.field("name")
    if not name:
        raise BadInput("The form has no person. Load the page again.")
    person = visit.service.person_of(name)
    assert person is not None
    gone = await visit.service.forget_person(person)
    layer = "their layer" if gone["layer"] else "no layer"
    return Done(f"Deleted {name}: {layer} and {gone['remembered']:,} remembered verdicts.", "/people")


# ---------------------------------------------------------------------- erasing


async def erase(visit: Visit) -> dict[str, Any]:
    """Return the form: a Message-ID, and the data to be erased."""
    return {"message_id": visit.field("message_id")}


async def erase_mail(visit: Visit) -> Done:
    """Erase a message from the model, the journal and the remembered verdicts."""
    raw = visit.form.get("message_id", "")
    names = [line.strip() for line in raw.splitlines() if line.strip()] if isinstance(raw, str) else []
    if not names:
        raise BadInput("No Message-ID given. Enter it as in the header: <...@...>")
    if visit.field("sure") != "yes":
        raise BadInput("Erasing cannot be undone. Tick the box to confirm.")
    erased = await visit.service.erase(names, visit.who, visit.person)
    sentences = [
        f"Found {erased['messages']:,} in the model",
        f"{erased['forgotten']:,} forgotten, {erased['released']:,} no longer set aside",
        f"content of {erased['rows']:,} journal rows overwritten",
        f"{erased['remembered']:,} remembered verdicts erased",
    ]
    return Done(f"{'; '.join(sentences)}.", "/erase")


# ---------------------------------------------------------------------- other filters


async def shadow(visit: Visit) -> dict[str, Any]:
    """Return verdicts beside those that other filters wrote into the same messages, disagreements first."""
    comparisons = await visit.service.compared(visit.person)
    field = visit.field("field") or (comparisons[0]["field"] if comparisons else "")
    same = visit.field("same") == "yes"
    listed: dict[str, Any] = {"verdicts": [], "next": None}
    if field:
        which = {"agrees" if same else "differs": field}
        listed = await visit.service.remembered(
            person=visit.person, limit=ROWS // 2, before=visit.number("before"), **which
        )
    here = urlencode({"field": field, **({"same": "yes"} if same else {})})
    return {"comparisons": comparisons, "field": field, "same": same, **listed, "back": f"/shadow?{here}",
            "more": f"/shadow?{here}&"}  # fmt: skip
