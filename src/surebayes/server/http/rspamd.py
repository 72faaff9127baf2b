"""Emulation of rspamd's HTTP interface: /checkv2, /learnspam, /learnham, /stat, /ping."""

from __future__ import annotations

import re
from typing import Any

from surebayes import __version__
from surebayes.filter.model import UNSURE
from surebayes.server.marks import REQUIRED, fields_of, forged_names, symbol_of
from surebayes.server.service import Judgement, Service

LISTENER = "rspamd"
_NOT_HERE = (
    "connections", "control_connections", "pools_allocated", "pools_freed", "bytes_allocated", "chunks_allocated",
    "shared_chunks_allocated", "chunks_freed", "chunks_oversized", "fragmented",
)  # fmt: skip
"""Statistics on rspamd's memory and connections, reported as 0, because rspamc requires them."""
_MESSAGE_ID = re.compile(rb"^message-id:[ \t]*<([^>\r\n]{1,900})>", re.IGNORECASE | re.MULTILINE)


async def check(service: Service, mail: bytes, person: str | None) -> dict[str, Any]:
    """Judge a message, and answer in rspamd's format."""
    judgement = await service.judge_mail(mail, LISTENER, person)
    match = _MESSAGE_ID.search(mail[:65536])
    symbols = {} if not judgement.marks else {symbol_of(judgement): _symbol(judgement)}
    return {
        "is_skipped": not judgement.marks,
        "score": judgement.points,
        "required_score": REQUIRED,
        "action": "add header" if judgement.is_marked else "no action",
        "thresholds": {"add header": REQUIRED},
        "symbols": symbols,
        "messages": {},
        "message-id": match[1].decode("ascii", "replace") if match else "undef",
        "milter": _milter(mail, judgement),
    }


def _symbol(judgement: Judgement) -> dict[str, Any]:
    verdict = judgement.verdict
    return {
        "name": symbol_of(judgement),
        "score": judgement.points,
        "metric_score": judgement.points,
        "description": "Naive Bayes with few false alarms",
        "options": [f"{verdict.probability:.4f}"],
    }


def _milter(mail: bytes, judgement: Judgement) -> dict[str, Any]:
    """Return header changes for a milter in front of rspamd; they remove all forged fields, not only those it adds."""
    if not judgement.cleans:
        return {}
    added: dict[str, list[dict[str, Any]]] = {}
    for name, value in fields_of(judgement):
        added.setdefault(name.decode(), []).append({"value": value.decode(), "order": 0})
    known = {name.lower() for name in added}
    forged = [name.decode("utf-8", "replace") for name in forged_names(mail)]
    return {
        "remove_headers": dict.fromkeys([*added, *(name for name in forged if name.lower() not in known)], 0),
        "add_headers": {name: values[0] if len(values) == 1 else values for name, values in added.items()},
    }


async def learn(
    service: Service, mail: bytes, word: str, who: str | None, person: str | None
) -> tuple[int, dict[str, Any]]:
    """Teach a message; return status and answer in rspamd's format."""
    label = service.class_named(word)
    (outcome,) = await service.teach([mail], label, LISTENER, who, person)
    if outcome == "already":
        return 208, {"error": f"the mail has been already learned as {word}, ignore it"}
    return 200, {"success": True}


async def stat(service: Service) -> dict[str, Any]:
    """Return the figures of `rspamc stat`; 0 for figures that surebayes does not have."""
    learnt = await service.ask(lambda mine: mine.status()["documents"])
    judged = service.counters.judged()
    plain = sum(count for label, count in judged.items() if label in (service.classes[0], UNSURE))
    scanned, total = sum(judged.values()), sum(learnt.values())
    files = [
        {"symbol": f"SUREBAYES_{label}", "type": "surebayes", "revision": count, "used": 0, "total": 0, "size": 0,
         "languages": 0, "users": 1}
        for label, count in learnt.items()
    ]  # fmt: skip
    return {
        "version": __version__, "read_only": False, "scanned": scanned, "learned": total,
        "actions": {"add header": scanned - plain, "no action": plain}, "spam_count": scanned - plain,
        "ham_count": plain, **dict.fromkeys(_NOT_HERE, 0), "fuzzy_hashes": {}, "statfiles": files,
        "total_learns": total,
    }  # fmt: skip
