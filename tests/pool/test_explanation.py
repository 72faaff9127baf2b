"""An explanation as JSON: whatever is shown, it adds up to the score, and each span is a piece of the text."""

import json

import pytest

import surebayes as sb
from surebayes import synthetic

MAILS, LABELS = synthetic.as_lists(120, seed=5)


@pytest.fixture(scope="module")
def pool():
    return sb.ViewPool().fit(MAILS[:100], LABELS[:100])


@pytest.mark.parametrize("top", [None, 0, 1, 3, 10_000])
def test_what_is_shown_and_the_rest_add_up(pool, top):
    for why, score in zip(pool.explain(MAILS[100:]), pool.decision_function(MAILS[100:])):
        found = json.loads(json.dumps(why.to_dict(top), allow_nan=False))
        assert found["bias"] + sum(view["share"] for view in found["views"]) == pytest.approx(score)
        assert [view["view"] for view in found["views"]] == [view.name for view in why.views]
        for view, whole in zip(found["views"], why.views):
            assert len(view["terms"]) == min(len(whole.terms), top if top is not None else len(whole.terms))
            assert len(view["spans"]) == len(whole.spans(top))
            if whole.text is None:
                assert sum(term["share"] for term in view["terms"]) + view["rest"] == pytest.approx(view["share"])
            else:
                assert view["rest"] == whole.rest
            for span in view["spans"]:
                assert span["text"] == whole.text[span["start"] : span["stop"]]


def test_an_explanation_of_terms_is_plain_values():
    X, y = sb.CountVectorizer().fit_transform(["cheap pills", "see you", "pills"]), [1, 0, 1]
    (why,) = sb.MultinomialNB().fit(X, y).explain(X[:1])
    found = json.loads(json.dumps(why.to_dict()))
    assert found["bias"] + sum(term["share"] for term in found["terms"]) == pytest.approx(found["score"])
    assert [term["term"] for term in found["terms"]] == why.terms
