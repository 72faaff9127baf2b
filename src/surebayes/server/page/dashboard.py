"""Overview: one sentence on the state of the filter, the next tasks, verdicts, lessons and the audit over time."""

from __future__ import annotations

from typing import Any

from surebayes.filter.filter import Filter
from surebayes.filter.model import UNSURE
from surebayes.server.page.learning import needs
from surebayes.server.page.look import count, percent
from surebayes.server.page.promise import DAYS, band, certificates, promised
from surebayes.server.page.settings import server
from surebayes.server.page.texts import plain
from surebayes.server.page.visit import Visit

HOURS = 24
MUST, SHOULD = "must", "should"
"""Levels of pending tasks: now, and when there is time."""


async def dashboard(visit: Visit) -> dict[str, Any]:
    """Return the state of the filter and the server in one sentence, and the figures behind it."""
    status = await visit.ask(lambda mine: mine.status())
    flow = await visit.service.cached("flow", _flow)
    first, surge, options = visit.service.classes[0], visit.service.surge, visit.service.options
    have = status["reserved"].get(first, 0)
    mode = {
        "shadow": options.shadow, "remembers": options.remember, "jumped": surge.is_active, "share": surge.share,
        "max_share": surge.max_share,
    }  # fmt: skip
    todo = todo_list(status, mode, flow["drift"], first, have)
    return {
        "level": todo[0]["level"] if todo else "well", "sentences": sentences(todo, status, flow["hours"], first),
        "todo": todo, "activity": flow["activity"], "hours": flow["hours"], "band": await band(visit),
        "promised": promised(status), "documents": status["documents"], "reserved": status["reserved"],
        "needs": needs(have), "model": status["model"], **server(visit),
    }  # fmt: skip


def _flow(mine: Filter) -> dict[str, Any]:
    return {"activity": mine.activity(DAYS), "hours": mine.hours(HOURS), "drift": mine.drift()}


# ---------------------------------------------------------------------- tasks


def todo_list(
    status: dict[str, Any], mode: dict[str, Any], drift: dict[str, Any] | None, first: str, have: int
) -> list[dict[str, str]]:
    """Return pending tasks, the most urgent first.

    Parameters
    ----------
    status : dict
        `Filter.status`.
    mode : dict
        The server's mode: shadow, remembers, jumped, share, max_share.
    drift : dict or None
        `Filter.drift`.
    first : str
        The negative class.
    have : int
        Documents of that class set aside.
    """
    todo: list[dict[str, str]] = []

    def add(level: str, name: str, to: str, **values: str) -> None:
        todo.append({"level": level, "text": plain(f"todo.{name}", **values), "do": plain(f"todo.{name}-do"), "to": to})

    issued = certificates(status["certificate"])
    for each in issued:
        label, reason = each["pos_label"] or "", (each.get("reason") or "").rstrip(".")
        if each["state"] == "revoked":
            add(MUST, "revoked", "/promise/threshold", label=label, reason=reason)
        elif each["stale"] and not each["renewed"]:
            add(SHOULD, "stale", "/promise/threshold", label=label, reason=reason)
    if drift is not None and drift["alarm"] and not any(thing["level"] == MUST for thing in todo):
        add(MUST, "drift", "/promise")
    for label, budget in status["budgets"].items():
        if budget["mute"]:
            missing = count(budget["until_heard"], "more good message")
            add(MUST, "mute", "/promise", label=label, missing=missing)
    if mode["jumped"]:
        add(MUST, "surge", "/mail", share=percent(mode["share"]), most=percent(mode["max_share"]))
    if not issued and not status["budgets"]:
        add(SHOULD, "none", "/promise/threshold")
        weakest = needs(have)[0]
        if weakest["missing"]:
            missing = count(weakest["missing"], "more good message")
            add(SHOULD, "reserve", "/learning", missing=missing, rate=percent(weakest["max_fpr"]))
    if mode["shadow"]:
        add(SHOULD, "shadow", "/settings")
    if not mode["remembers"]:
        add(SHOULD, "forgetful", "/settings")
    return sorted(todo, key=lambda thing: thing["level"] != MUST)


def sentences(todo: list[dict[str, str]], status: dict[str, Any], hours: dict[str, Any], first: str) -> list[str]:
    """Return the answer to "is all well?" and the figures that support it."""
    must = sum(thing["level"] == MUST for thing in todo)
    if must:
        answer = [plain("dashboard.must", problems=count(must, "problem"))]
    elif todo:
        answer = [plain("dashboard.should", improvements=count(len(todo), "improvement"))]
    else:
        answer = [plain("dashboard.well")]
    came = sum(sum(hour.values()) for hour in hours["verdicts"])
    positives = sum(
        number for hour in hours["verdicts"] for label, number in hour.items() if label not in (first, UNSURE)
    )
    names = [label for label in status["documents"] if label != first]
    if came:
        positive = names[0] if len(names) == 1 else plain("dashboard.positive")
        answer.append(
            plain("dashboard.today", messages=count(came, "message"), positives=count(positives), positive=positive)
        )
    else:
        answer.append(plain("dashboard.quiet"))
    for label, audited in status["audit"].items():
        known = audited["known"]
        if known["n"]:
            answer.append(plain("dashboard.delivered", alarms=count(known["alarms"], "false alarm"),
                              known=count(known["n"], "good message")))  # fmt: skip
            rate = promised(status).get(label)
            if rate is not None and known["lower"] <= rate and not must:
                answer.append(plain("dashboard.compatible", rate=percent(rate)))
            break
    return answer
