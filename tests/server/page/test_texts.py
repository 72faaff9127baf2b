"""Texts of the page: singular and plural, at the values of a page; capitals and full stops."""

import re

import pytest

from surebayes.server.page.look import count, rendered, sentence
from surebayes.server.page.texts import TEXTS, plain, text

COUNTED = [
    ("todo.mute", {"label": "spam"}, "missing", "more good message",
     "The alarm budget for spam is spent. No message will be judged spam until the filter has received {}."),
    ("dashboard.today", {"positives": "0", "positive": "spam"}, "messages", "message",
     "Last 24 hours: {}, 0 judged spam."),
    ("settings.hosts-waiting", {}, "lessons", "lesson", "Waiting on this host for the database: {}."),
    ("mail.reported-noted", {}, "recorded", "message",
     "Labelled but not learnt, because the content was not stored: {}."),
    ("mail.undone", {}, "restored", "message", "Report undone for {}."),
    ("mail.undone-changed", {}, "changed", "message", "Not undone because of later changes: {}."),
    ("people.done", {"name": "ann", "layer": "no layer"}, "remembered", "remembered verdict",
     "Deleted the data of ann (no layer, {})."),
    ("promise.based-text", {"allowed": 0}, "negatives", "good message",
     "{} never learnt; at most 0 may be above the threshold"),
    ("promise.precision-text", {"right": 1, "low": "2%", "high": "100%"}, "given", "reviewed alarm",
     "1 of {} correct; true precision 2% to 100%"),
    ("settings.kept-text", {"days": "30 days", "bytes": "5.0 MB"}, "most", "verdict",
     "30 days, up to {} and 5.0 MB"),
    ("learning.needed-about", {}, "have", "good message",
     "These numbers are for 95% confidence. Set aside so far: {}. <code>surebayes calibrate --ham PATH</code> adds "
     "more."),
]  # fmt: skip


@pytest.mark.parametrize(("name", "values", "counted", "unit", "wanted"), COUNTED, ids=[case[0] for case in COUNTED])
@pytest.mark.parametrize(("number", "plural"), [(0, "s"), (1, ""), (2, "s"), (1234, "s")])
def test_counted_texts_fit_any_number(name, values, counted, unit, wanted, number, plural):
    given = count(number, unit)
    assert given == f"{number:,} {unit}{plural}"
    assert plain(name, **values, **{counted: given}) == wanted.format(given)


def test_no_verb_follows_a_counted_noun():
    """A verb after "{messages}" fits either one message or several, so no text has one there."""
    nouns = (
        "messages|missing|lessons|recorded|restored|changed|alarms|known|negatives|entries|turns|have|settings|given"
    )
    verb = re.compile(
        rf"{{({nouns})}}( that| which)? (is|are|was|were|has|have|wait|waits|arrive|arrives|need|needs)\b"
    )
    assert [name for name, each in TEXTS.items() if verb.search(each)] == []
    assert verb.search("until {missing} arrive")
    assert verb.search("{negatives} that were")


def test_an_erasure_is_counted_in_full():
    shown = plain("erase.done", messages=1, forgotten=1, released=0, rows=2, remembered=count(1, "remembered verdict"))
    assert shown == (
        "Messages found in the model: 1 (1 forgotten, 0 no longer set aside). Journal rows overwritten: 2. "
        "Erased: 1 remembered verdict."
    )


@pytest.mark.parametrize("outcome", ["forgotten", "moved", "already", "noted", "unknown", "waiting"])
def test_each_outcome_of_a_cleared_label_is_a_sentence(outcome):
    shown = TEXTS[f"cleared.{outcome}"]
    assert re.fullmatch(r"[A-Z][^{}]+\.", shown)


def test_texts_have_no_double_spaces_or_punctuation():
    for name, each in TEXTS.items():
        assert not re.search(r"  | [.,;:!?](\s|$)|\.\.|,,", each.replace("<...@...>", "")), name
        assert each == each.strip() or name == "check.placeholder", name


def test_a_sentence_has_a_capital_and_one_full_stop():
    assert sentence("at most 0.1% of ham") == "At most 0.1% of ham."
    assert sentence("Done.") == "Done."
    assert sentence("") == ""


def test_a_renewed_promise_names_its_renewal():
    when = "after 1 more lesson, or immediately if you run `surebayes calibrate`"
    assert f"It will be renewed {when}. Until then" in text("promise.renewed", renewed=when)
    assert "{" not in rendered("piece-problem.html", detail=plain("promise.stale", reason="the model has changed"))
