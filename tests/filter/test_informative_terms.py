"""Terms that tell most: their counts are those of an independent count of the raw lessons."""

import re
from collections import Counter, defaultdict
from math import log2

import numpy as np
import pytest

import surebayes as sb
from surebayes.filter.persons import Persons
from surebayes.mail.header_tokens import header_tokens
from surebayes.synthetic import mail_stream

MAILS = [(mail.raw, mail.label) for mail in mail_stream(90, seed=7)]


def pieces(view, raw):
    """Return the distinct (kind, term) of a message in a view, cut without the library's tokenizers."""
    message = sb.read_message(raw)
    text = f"{message.subject}\n{message.text}"
    if view.kind == "bytes":
        source = text.encode()[:3000] if view.part == "text" else sb.filter.filter.Document(raw, "mail").raw[:3000]
        seen = {source[i : i + n] for n in range(view.low, view.high + 1) for i in range(len(source) - n + 1)}
        return {("bytes", term.decode("utf-8", "backslashreplace")) for term in seen}
    words = re.findall(r"\w+", text[:20_000].lower())
    sizes = range(view.low, view.high + 1)
    seen = {("word", " ".join(words[i : i + n])) for n in sizes for i in range(len(words) - n + 1)}
    return seen | ({("header", token) for token in header_tokens(message)} if view.tokens else set())


def counted(views, lessons):
    """Return for each (view, kind, term) the numbers of lessons by class."""
    found = defaultdict(Counter)
    for raw, label in lessons:
        for view in views:
            for kind, term in pieces(view, raw):
                found[view.name, kind, term][label] += 1
    return found


def bits(counts, documents):
    """Return the mutual information of presence and class, by its definition."""
    n, total = sum(documents.values()), 0.0
    for present in (True, False):
        joint = {c: counts[c] if present else documents[c] - counts[c] for c in documents}
        for c, both in joint.items():
            if both:
                total += both / n * log2(both * n / (sum(joint.values()) * documents[c]))
    return total


def check(found, views, lessons, top):
    documents = Counter(label for _, label in lessons)
    independent = counted(views, lessons)
    assert found["documents"] == {"ham": documents["ham"], "spam": documents["spam"]}
    by_group = defaultdict(list)
    for row in found["terms"]:
        counts = independent[row["view"], row["kind"], row["term"]]
        assert row["documents"] == {"ham": counts["ham"], "spam": counts["spam"]}, row
        assert row["information"] == pytest.approx(bits(counts, documents), abs=1e-9)
        more_ham = counts["ham"] * documents["spam"] > counts["spam"] * documents["ham"]
        assert row["information"] < 1e-9 or row["label"] == ("ham" if more_ham else "spam")
        by_group[row["view"], row["kind"]].append(row["information"])
    groups = defaultdict(list)
    for (view, kind, _), counts in independent.items():
        groups[view, kind].append(bits(counts, documents))
    assert set(by_group) == set(groups)
    for group, values in by_group.items():
        assert values == pytest.approx(sorted(groups[group], reverse=True)[:top], abs=1e-9)


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    with sb.Filter.create(tmp_path_factory.mktemp("pool") / "filter") as opened:
        opened.train(MAILS[:60], reserve=0.2)
        for mail in MAILS[60:]:
            opened.teach(*mail)
        for raw, _ in MAILS[60:70]:
            opened.forget(raw)
        yield opened


def learnt(opened):
    """Return the lessons of a filter among the messages of this file."""
    return [(raw, label) for raw, label in MAILS
            if next(iter(opened.history(raw, limit=1)))["action"] == "learn"]  # fmt: skip


def test_counts_are_those_of_the_raw_lessons(pool):
    found = pool.informative_terms(top=15)
    lessons = learnt(pool)
    assert 0 < len(lessons) < 80  # neither the reserve nor forgotten lessons
    assert found["lessons"] == found["with_content"] == len(lessons)
    check(found, pool._session.current_state().engine.views, lessons, 15)
    assert list(dict.fromkeys(row["kind"] for row in found["terms"])) == ["header", "word", "bytes"]


def test_a_view_that_is_asked_for(pool):
    found = pool.informative_terms(np.int64(3), views=["phrases"])
    assert [row["view"] for row in found["terms"]] == ["phrases"] * 3
    with pytest.raises(ValueError, match=r"no view 'phrase'\. This filter has 'raw 4', "):
        pool.informative_terms(views=["phrase"])
    with pytest.raises(ValueError, match="top must be at least 1"):
        pool.informative_terms(0)
    with pytest.raises(TypeError, match="views"):
        pool.informative_terms(views="phrases")


def test_terms_that_share_a_column_are_counted_apart(tmp_path):
    with sb.Filter.create(tmp_path / "f", model="words", width=2**10) as narrow:
        for mail in MAILS[:40]:
            narrow.teach(*mail)
        found = narrow.informative_terms(top=5)
        (view,) = narrow._session.current_state().engine.views
    independent = counted([view], MAILS[:40])
    for row in found["terms"]:
        assert row["documents"] == {c: independent[view.name, row["kind"], row["term"]][c] for c in ("ham", "spam")}


def test_a_layer_counts_its_own_lessons(tmp_path):
    with sb.Filter.create(tmp_path / "site", model="words") as site:
        site.train(MAILS[:40], reserve=0.0)
    people = Persons(str(tmp_path / "people"), str(tmp_path / "site"))
    with people.layer("ann") as ann:
        for mail in MAILS[40:50]:
            ann.teach(*mail)
        ann.forget(MAILS[40][0])
        check(ann.informative_terms(top=6), ann._session.current_state().engine.views, MAILS[41:50], 6)
    with sb.Filter.open(tmp_path / "site") as site:
        check(site.informative_terms(top=6), site._session.current_state().engine.views, MAILS[:40], 6)


def test_only_lessons_with_content_are_counted(tmp_path):
    with sb.Filter.create(tmp_path / "f", model="words", content=False) as opened:
        opened.train(MAILS[:10], reserve=0.0)
        assert opened.informative_terms() == {
            "lessons": 10, "with_content": 0, "documents": {"ham": 0, "spam": 0}, "terms": [],
        }  # fmt: skip
        opened.keep_content(True)
        for mail in MAILS[10:20]:
            opened.teach(*mail)
        opened.train(MAILS[20:25], reserve=0.0, journal=False)
        found = opened.informative_terms(top=4)
        assert (found["lessons"], found["with_content"]) == (25, 10)
        check(found, opened._session.current_state().engine.views, MAILS[10:20], 4)


def test_more_than_two_classes_and_one(tmp_path):
    texts = [("red apple", "fruit"), ("green apple", "fruit"), ("red car", "car"), ("fast car", "car"), ("oak", "tree")]
    with sb.Filter.create(tmp_path / "f", classes=("fruit", "car", "tree"), reader="text", model="words") as opened:
        assert opened.informative_terms()["terms"] == []
        opened.teach(*texts[0])
        assert [row["information"] for row in opened.informative_terms()["terms"]] == [0.0, 0.0]
        for text in texts[1:]:
            opened.teach(*text)
        found = {row["term"]: row for row in opened.informative_terms()["terms"]}
    assert found["apple"]["label"] == "fruit"
    assert found["car"]["label"] == "car"
    assert found["oak"]["label"] == "tree"
    assert found["red"]["documents"] == {"fruit": 1, "car": 1, "tree": 0}
    assert found["apple"]["information"] == pytest.approx(bits(Counter({1: 2}), {1: 2, 0: 3}))
