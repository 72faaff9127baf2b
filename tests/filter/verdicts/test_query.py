"""Search words: what each means, the round trip of any text, and errors that tell the way."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surebayes.errors import BadInput
from surebayes.filter.verdicts.query import MOST_CHARACTERS, MOST_WORDS, Query, WantedText, parse

CLASSES = ["ham", "spam"]
NOW = datetime(2026, 3, 4, 15, tzinfo=UTC)
DAY = datetime(2026, 3, 4, tzinfo=UTC).timestamp()


def read(text):
    return parse(text, CLASSES, NOW)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("", Query()),
        ("   ", Query()),
        ("Invoice", Query(texts=(WantedText("", "invoice"),))),
        ("two words", Query(texts=(WantedText("", "two"), WantedText("", "words")))),
        ('"two words"', Query(texts=(WantedText("", "two words"),))),
        ("FROM:Ann", Query(texts=(WantedText("sender", "ann"),))),
        ("from:ann from:example", Query(texts=(WantedText("sender", "ann"), WantedText("sender", "example")))),
        ('subject:"x y" z', Query(texts=(WantedText("subject", "x y"), WantedText("", "z")))),
        ("is:spam", Query(labels=("spam",))),
        ("is:SPAM", Query(labels=("spam",))),
        ("is:unsure", Query(unsure=True)),
        ("is:reviewed", Query(reviewed=True)),
        ("is:unreviewed", Query(reviewed=False)),
        ("is:wrong", Query(wrong=True)),
        ("person:ann@example.org", Query(people=("ann@example.org",))),
        ("since:7d", Query(start=NOW.timestamp() - 7 * 86400)),
        ("since:12h until:2h", Query(start=NOW.timestamp() - 12 * 3600, end=NOW.timestamp() - 2 * 3600)),
        ("since:2w", Query(start=NOW.timestamp() - 14 * 86400)),
        ("since:yesterday", Query(start=DAY - 86400)),
        ("until:today", Query(end=DAY + 86400)),
        ("on:2026-03-01", Query(start=DAY - 3 * 86400, end=DAY - 2 * 86400)),
        ("since:7d since:2d", Query(start=NOW.timestamp() - 2 * 86400)),
        ("until:7d until:2d", Query(end=NOW.timestamp() - 7 * 86400)),
        ("Re: lunch", Query(texts=(WantedText("", "re:"), WantedText("", "lunch")))),
        ("http://example.org", Query(texts=(WantedText("", "http://example.org"),))),
        ('"from:ann"', Query(texts=(WantedText("", "from:ann"),))),
    ],
)
def test_words_have_one_meaning(text, query):
    assert read(text) == query


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("form:ann", "Did you mean from:ann?"),
        ("sbject:x", "Did you mean subject:x?"),
        ('subject:"x', "has no partner"),
        ("from:", "from:ann"),
        ('from:""', "from:ann"),
        ("is:", "is:unsure"),
        ("is:good", "is:ham, is:spam, is:unsure"),
        ("since:soon", "since: takes an age such as 12h"),
        ("until:2026-02-30", "until: takes"),
        ("on:7d", "on: takes a date"),
        ("since:99999y99", "since: takes"),
        ("is:reviewed is:unreviewed", "either reviewed or unreviewed"),
        ("x" * (MOST_CHARACTERS + 1), "at most"),
        ("x " * (MOST_WORDS + 1), "at most"),
    ],
)
def test_an_error_says_what_to_write(text, advice):
    with pytest.raises(BadInput) as error:
        read(text)
    assert advice in str(error.value)


def test_a_class_may_have_the_name_of_a_state():
    assert parse("is:wrong", ["right", "wrong"], NOW) == Query(labels=("wrong",))


def test_a_query_of_a_person_is_limited_to_them():
    assert read("person:ben").of("ann").people == ("ben", "ann")
    assert read("x").of(None) == read("x")


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_in_a_sentence(text):
    try:
        query = read(text)
    except BadInput as error:
        query = str(error)
    assert isinstance(query, Query) or " " in query


@given(st.text(st.characters(exclude_characters='"', exclude_categories=["Cs"]), min_size=1, max_size=40))
def test_a_quoted_text_is_that_text(text):
    wanted = text.casefold().strip()
    assert read(f'"{text}"').texts == ((WantedText("", wanted),) if wanted else ())
    if text.strip() and wanted:
        assert read(f'subject:"{text}"').texts == (WantedText("subject", text.strip().casefold().strip()),)


@given(
    st.lists(st.sampled_from(["from:ann", "is:spam", "is:unsure", "invoice", 'subject:"a b"', "person:x"]), max_size=6)
)
def test_the_order_of_words_does_not_matter(words):
    one, other = read(" ".join(words)), read(" ".join(reversed(words)))
    assert sorted(one.texts, key=repr) == sorted(other.texts, key=repr)
    assert (sorted(one.labels), sorted(one.people), one.unsure) == (
        sorted(other.labels),
        sorted(other.people),
        other.unsure,
    )
