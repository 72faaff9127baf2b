"""The overview: what is to be done, in which order; the sentence; charts over time against a plain count."""

import asyncio
import time
from datetime import UTC, datetime

import pytest

import surebayes as sb
from surebayes.server.options import Options
from surebayes.server.page import charts
from surebayes.server.page.dashboard import MUST, SHOULD, sentences, todo_list
from surebayes.server.service import Service

HOLDS = {"pos_label": "spam", "state": "holds", "stale": False, "renewed": None, "reason": None, "max_fpr": 0.02}
WELL = {"certificate": HOLDS, "budgets": {}, "audit": {}, "documents": {"ham": 5, "spam": 5}}
BUDGET = {"mute": False, "until_heard": 0, "rate": 0.01}
MODE = {"shadow": False, "remembers": True, "jumped": False, "share": 0.3, "max_share": 0.95}
HOURS = {"hours": [], "verdicts": [{"ham": 3, "spam": 2, "unsure": 1}, {}]}


def todo(status=WELL, mode=MODE, drift=None, have=10_000):
    return todo_list(status, mode, drift, "ham", have)


def test_nothing_is_to_be_done_where_all_is_well():
    assert todo() == []
    assert todo(drift={"alarm": False}) == []
    assert todo({**WELL, "certificate": None, "budgets": {"spam": BUDGET}}) == []
    assert todo({**WELL, "certificate": {**HOLDS, "stale": True, "renewed": "with the next 30 lessons"}}) == []


@pytest.mark.parametrize(
    ("case", "level", "to", "words"),
    [
        ({"status": {**WELL, "certificate": {**HOLDS, "state": "revoked", "stale": True, "reason": "drift."}}}, MUST,
         "/promise/threshold", "for spam is revoked: drift."),
        ({"status": {**WELL, "certificate": {**HOLDS, "stale": True, "reason": "learnt"}}}, SHOULD,
         "/promise/threshold", "for spam is out of date: learnt."),
        ({"status": {**WELL, "budgets": {"spam": {**BUDGET, "mute": True, "until_heard": 7}}}}, MUST, "/promise",
         "No message will be judged spam until the filter has received 7 more good messages."),
        ({"drift": {"alarm": True}}, MUST, "/promise", "more frequent than promised"),
        ({"mode": {**MODE, "jumped": True, "share": 0.97}}, MUST, "/mail", "97% of recent mail"),
        ({"mode": {**MODE, "shadow": True}}, SHOULD, "/settings", "Shadow mode"),
        ({"mode": {**MODE, "remembers": False}}, SHOULD, "/settings", "not remembered"),
        ({"status": {**WELL, "certificate": None}}, SHOULD, "/promise/threshold", "no promise yet"),
    ],
)  # fmt: skip
def test_each_trouble_has_its_line(case, level, to, words):
    (only,) = todo(**case)
    assert (only["level"], only["to"]) == (level, to)
    assert words in only["text"]
    assert only["do"]


def test_missing_messages_are_named_where_there_is_no_promise():
    first, second = todo({**WELL, "certificate": None}, have=9)
    assert "no promise" in first["text"]
    assert "A promise of at most 5% false alarms needs 50 more good messages" in second["text"]


def test_urgent_items_come_first():
    mode = {**MODE, "shadow": True, "jumped": True}
    assert [each["level"] for each in todo(mode=mode)] == [MUST, SHOULD]


def test_one_sentence_says_whether_all_is_well():
    audited = {"spam": {"known": {"n": 100, "alarms": 1, "lower": 0.0, "upper": 0.05}}}
    status = {**WELL, "audit": audited}
    assert sentences([], status, HOURS, "ham") == [
        "All is well.", "Last 24 hours: 6 messages, 2 judged spam.",
        "So far, 1 false alarm among 100 good messages whose correct label is known.",
        "This is consistent with the promise of 2%.",
    ]  # fmt: skip
    assert sentences([{"level": SHOULD}], WELL, HOURS, "ham")[0] == "All is well; 1 improvement suggested."
    must = sentences([{"level": MUST}, {"level": SHOULD}], status, {"verdicts": [{}]}, "ham")
    assert must[:2] == ["1 problem to fix.", "No messages in the last 24 hours."]
    assert not any("consistent" in each for each in must)
    audited["spam"]["known"]["lower"] = 0.021  # the promise is not kept
    assert not any("consistent" in each for each in sentences([], status, HOURS, "ham"))


# ---------------------------------------------------------------------- figures over time


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A filter with verdicts and labels of five days, the last of them today."""
    now = datetime.now(UTC).replace(hour=12, minute=30, second=0, microsecond=0).timestamp() - 4 * 86400
    clock = [now]
    monkeypatch.setattr(time, "time", lambda: clock[0])
    with sb.Filter.create(tmp_path / "filter", model="words") as mine:
        for k in range(20):
            mine.teach(
                f"Subject: {'agenda' if k % 2 else 'pills'} {k}\n\nbody {k}\n".encode(), "ham" if k % 2 else "spam"
            )
        mine.remember(True, details=True, presume_good_after=0)
        for day in range(5):
            clock[0] = now + day * 86400
            for k in range(6):
                raw = f"Subject: {'pills' if k < 3 else 'agenda'} {day} {k}\n\nwords {day * 10 + k}\n".encode()
                mine.judge(raw)
                if k < 4:
                    mine.teach(raw, "ham", "ann")
        yield mine


def test_the_audit_over_days_ends_with_the_audit(mine):
    history, audit = mine.audit_history(30)["spam"], mine.audit()["spam"]["known"]
    assert {name: history[-1][name] for name in audit} == audit
    assert [point["n"] for point in history] == [4, 8, 12, 16, 20]
    alarms = [point["alarms"] for point in history]
    assert alarms == sorted(alarms)
    assert history[0]["day"] == datetime.fromtimestamp(time.time() - 4 * 86400, UTC).date().isoformat()
    assert all(point["lower"] <= point["alarms"] / point["n"] <= point["upper"] for point in history)
    assert [point["n"] for point in mine.audit_history(2)["spam"]] == [16, 20]
    assert charts.band(history, 0.01)
    assert charts.band(history[:1], None)


def test_counts_over_time_are_those_of_the_verdicts(mine):
    verdicts = mine.remembered(limit=100)
    by_day = {}
    for each in verdicts:
        of_day = by_day.setdefault(each.time[:10], {})
        of_day[each.label] = of_day.get(each.label, 0) + 1
    activity = mine.activity(30)
    assert {day: counts for day, counts in zip(activity["days"], activity["verdicts"]) if counts} == by_day
    hours = mine.hours(24)
    assert len(hours["hours"]) == len(hours["verdicts"]) == 24
    assert sum(hours["verdicts"][-1].values()) == 6
    assert not any(hours["verdicts"][:-1])
    assert sum(sum(hour.values()) for hour in mine.hours(25)["verdicts"]) == 12  # the same hour of yesterday
    scores = mine.recent_scores(4)
    assert len(scores) == 4
    assert set(scores) <= {(each.score, each.truth) for each in verdicts}


# ---------------------------------------------------------------------- cached figures


def test_cached_figures_are_renewed_behind_the_answer(folder, monkeypatch):
    from surebayes.server import service as module

    service, clock, asked = Service(Options(str(folder), log_level="error")), [1000.0], []

    def question(mine):
        asked.append(clock[0])
        return len(asked)

    async def run():
        monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
        seen = [await service.cached("x", question)]
        for seconds in (module.FRESH - 1, 2, 0, module.STALE + 1):
            clock[0] += seconds
            seen.append(await service.cached("x", question))
            if "x" in service._refreshing:
                await service._refreshing["x"]
        return seen

    try:
        # made, still fresh, given once more while a new one is made, the new one, too old to be given
        assert asyncio.run(run()) == [1, 1, 1, 2, 3]
    finally:
        monkeypatch.undo()
        service.close()
