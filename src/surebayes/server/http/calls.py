"""Handlers of the API's endpoints: each returns the answer to a call."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from surebayes import __version__
from surebayes.errors import BadInput, NoInput
from surebayes.filter.filter import Filter
from surebayes.pool.explanation import explanation_of
from surebayes.server.http.body import decoded
from surebayes.server.http.endpoint import Call

LISTENER = "http"

# ---------------------------------------------------------------------- documents


async def classify(call: Call) -> dict[str, Any]:
    """Judge documents."""
    remember = call.query.get("remember", not call.several)
    judged = await call.service.verdicts(call.documents, LISTENER, call.person, remember)
    verdicts = [verdict.to_dict() for verdict in judged]
    return {"verdicts": verdicts} if call.several else verdicts[0]


async def explain(call: Call) -> dict[str, Any]:
    """Explain the verdicts on documents."""
    top = call.query["top"]

    def question(mine: Filter) -> list[dict[str, Any]]:
        return [_explained(mine, document, top) for document in call.documents]

    explanations = await call.service.ask(question, call.person)
    return {"explanations": explanations} if call.several else explanations[0]


def _explained(mine: Filter, document: bytes | str, top: int) -> dict[str, Any]:
    verdict = mine.judge(document, remember=False)
    why = explanation_of(mine.explain(document, top), mine.classes, verdict.label)
    copies = verdict.reversal
    turns = copies if copies is not None and math.isfinite(copies) else None
    return {**verdict.to_dict(), "reversal": turns, **why.to_dict(top)}


async def learn(call: Call) -> dict[str, Any]:
    """Teach documents."""
    outcomes = await call.service.teach(call.documents, call.query["as"], LISTENER, call.query.get("who"), call.person)
    return {"outcomes": outcomes} if call.several else {"outcome": outcomes[0]}


async def forget(call: Call) -> dict[str, Any]:
    """Undo the lessons of documents."""
    outcomes = await call.service.forget(call.documents, LISTENER, call.query.get("who"), call.person)
    return {"outcomes": outcomes} if call.several else {"outcome": outcomes[0]}


# ---------------------------------------------------------------------- history


async def history(call: Call) -> dict[str, Any]:
    """List the journal's rows."""
    return {"rows": await call.service.history(call.query["limit"], call.person)}


async def versions(call: Call) -> dict[str, Any]:
    """List the versions of the model."""
    return {"versions": await call.service.versions(call.person)}


async def difference(call: Call) -> dict[str, Any]:
    """Return the changes between two versions."""
    query = call.query
    return await call.service.difference(query["from"], query["to"], query["limit"], call.person)


async def rollback(call: Call) -> dict[str, Any]:
    """Restore a version."""
    return await call.service.rollback(call.query["version"], call.query.get("who"), call.person)


class Calibration(msgspec.Struct, forbid_unknown_fields=True):
    """Body of `calibrate`."""

    max_fpr: float | None = None
    confidence: float | None = None
    positive: str | None = None
    budget: float | None = None
    burst: float | None = None


async def calibrate(call: Call) -> dict[str, Any]:
    """Choose the threshold that keeps a promise on false alarms, or start a budget."""
    wanted = decoded(call.body, Calibration) if call.body else Calibration()
    for name in ("max_fpr", "confidence", "budget"):
        value = getattr(wanted, name)
        if value is not None and not 0 < value < 1:
            raise BadInput(f"{name} must be a number between 0 and 1, exclusive. Got {value!r}.")
    if wanted.burst is not None and not 1 <= wanted.burst <= 1_000_000:
        raise BadInput(f"burst must be a number from 1 to 1,000,000. Got {wanted.burst!r}.")
    terms = {name: getattr(wanted, name) for name in ("max_fpr", "confidence", "budget", "burst")}
    return await call.service.calibrate(wanted.positive, call.person, **terms)


class Messages(msgspec.Struct, forbid_unknown_fields=True):
    """Body of `erase`: Message-IDs."""

    message_ids: list[str]


async def erase(call: Call) -> dict[str, int]:
    """Erase messages from the model, the journal and the remembered verdicts."""
    names = decoded(call.body, Messages).message_ids
    if not 1 <= len(names) <= 1000 or not all(len(name.split()) > 0 and len(name) <= 1000 for name in names):
        raise BadInput("message_ids must be 1 to 1,000 Message-IDs of 1 to 1,000 characters each.")
    return await call.service.erase(names, call.query.get("who"), call.person)


async def status(call: Call) -> dict[str, Any]:
    """Return the status of the filter and the server."""
    return {**await call.service.status(call.person), "version": __version__}


# ---------------------------------------------------------------------- remembered verdicts


async def verdicts(call: Call) -> dict[str, Any]:
    """List remembered verdicts."""
    names = ("sender", "subject", "day", "label", "known", "differs", "agrees", "before")
    wanted = {name: call.query.get(name) for name in names}
    return await call.service.remembered(person=call.person, limit=call.query["limit"], **wanted)


async def verdict(call: Call) -> dict[str, Any]:
    """Return one remembered verdict."""
    return await call.service.remembered_verdict(call.query["id"], call.person)


async def explain_verdict(call: Call) -> dict[str, Any]:
    """Explain the present verdict on a remembered message."""
    number, top = call.query["id"], call.query["top"]
    verdict = await call.service.remembered_verdict(number, call.person)
    explained = await call.service.explain_verdict(number, top, call.person)
    now = await call.service.verdict_now(number, top, call.person)
    if explained is None or now is None:
        raise NoInput(f"The verdict {number} can't be explained, because its message was not stored.")
    why = explanation_of(explained, call.service.classes, now["label_now"])
    return {**verdict, **now, **why.to_dict(top)}


async def tell(call: Call) -> dict[str, Any]:
    """Learn the correct label of a remembered verdict."""
    query = call.query
    return {"outcome": await call.service.tell(query["id"], query["as"], query.get("who"), call.person)}


async def untell(call: Call) -> dict[str, Any]:
    """Remove the correct label of a remembered verdict."""
    return {"outcome": await call.service.untell(call.query["id"], call.query.get("who"), call.person)}


async def comparison(call: Call) -> dict[str, Any]:
    """Compare verdicts with those that other filters wrote into the same messages."""
    return {"comparisons": await call.service.compared(call.person)}


# ---------------------------------------------------------------------- persons


async def people(call: Call) -> dict[str, Any]:
    """List persons."""
    return await call.service.people(call.query.get("after", ""), call.query["limit"])


async def forget_person(call: Call) -> dict[str, Any]:
    """Delete a person's lessons and remembered verdicts."""
    person = call.service.person_of(call.query["person"])
    assert person is not None
    return await call.service.forget_person(person)
