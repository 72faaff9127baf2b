"""A batch without documents has an answer without rows, whatever takes several documents."""

import re

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import surebayes as sb
from variants import SETTINGS

TEXTS = ["buy gold now", "see you at lunch", "gold, gold: buy", "lunch now? see you"] * 8
ROWS = np.random.default_rng(0).integers(0, 3, (32, 6))
TWO = np.array(["spam", "ham"] * 16)
THREE = np.array(["a", "b", "c", "a"] * 8)
INDICATORS = np.random.default_rng(1).integers(0, 2, (32, 3))
TAKES_LABELS = ("partial_fit", "forget")
METHODS = (
    "transform", "predict", "decision_function", "predict_proba", "predict_log_proba", "scores", "expert_scores",
    "explain", "reversal", *TAKES_LABELS,
)  # fmt: skip


def words():
    return make_pipeline(sb.CountVectorizer(), sb.MultinomialNB())


OF_TEXT = {
    "CountVectorizer": sb.CountVectorizer,
    "CountVectorizer, tokenizer": lambda: sb.CountVectorizer(tokenizer=str.split, token_pattern=None),
    "HashingVectorizer": lambda: sb.HashingVectorizer(n_features=64),
    "HashingVectorizer, tokenizer": lambda: sb.HashingVectorizer(
        n_features=64, tokenizer=str.split, token_pattern=None),
    "TfidfVectorizer": sb.TfidfVectorizer,
    "Views": lambda: sb.Views([("words", sb.CountVectorizer()), ("tfidf", sb.TfidfVectorizer()),
                               ("bytes", sb.HashingVectorizer(analyzer="bytes", n_features=64))]),
    "ViewPool": sb.ViewPool,
    "ViewPool of text": lambda: sb.ViewPool("text", n_features=2**12),
    "ViewPool of own views": lambda: sb.ViewPool([("words", sb.CountVectorizer(), sb.MultinomialNB(contrast="rest"))]),
    "a pipeline": words,
    "GuaranteedThreshold": lambda: sb.GuaranteedThreshold(words(), max_fpr=0.6, confidence=0.5),
    "GuaranteedThreshold, own probabilities": lambda: sb.GuaranteedThreshold(
        words(), max_fpr=0.6, confidence=0.5, probabilities=None),
    "BudgetedThreshold": lambda: sb.BudgetedThreshold(words(), rate=0.3, burst=5),
}  # fmt: skip
OF_ROWS = {
    **{" ".join(repr(each).split()): each for each in SETTINGS},
    "TunedNB": sb.TunedNB(),
    "GuaranteedThreshold": sb.GuaranteedThreshold(LogisticRegression(), max_fpr=0.6, confidence=0.5),
    "GuaranteedThreshold, own probabilities": sb.GuaranteedThreshold(
        LogisticRegression(), max_fpr=0.6, confidence=0.5, probabilities=None),
    "BudgetedThreshold": sb.BudgetedThreshold(sb.MultinomialNB(), rate=0.3, burst=5),
}  # fmt: skip


def shapes(answer):
    """Return the shape of each array, or the length of a list."""
    if hasattr(answer, "multiplicity"):
        return [answer.score.shape, answer.multiplicity.shape, answer.rdist.shape]
    return [answer.shape] if hasattr(answer, "shape") else [(len(answer),)]


def check_empty(estimator, documents, nothing, y):
    """Compare answers to no documents with those to all, and see that learning none changes nothing."""
    tried = 0
    before = estimator.decision_function(documents) if hasattr(estimator, "decision_function") else None
    for name in METHODS:
        method = getattr(estimator, name, None)
        if method is None:
            continue
        tried += 1
        if name in TAKES_LABELS:
            assert method(nothing, y[:0]) is estimator
        else:
            try:
                answer = method(documents)
            except ValueError as refused:  # a reversal where classes compete
                with pytest.raises(ValueError, match=re.escape(str(refused))):
                    method(nothing)
                continue
            expected = [(0, *shape[1:]) for shape in shapes(answer)]
            assert shapes(method(nothing)) == expected, name
    if before is not None:
        np.testing.assert_array_equal(estimator.decision_function(documents), before)
    assert tried


@pytest.mark.filterwarnings("ignore:Most of these documents have no mail header")
@pytest.mark.parametrize("y", [TWO, THREE], ids=["two classes", "three classes"])
@pytest.mark.parametrize("name", OF_TEXT)
def test_no_texts(name, y):
    estimator = OF_TEXT[name]().fit(TEXTS, y)
    check_empty(estimator, TEXTS, [], y)
    if hasattr(estimator, "transform_stream"):
        assert list(estimator.transform_stream([])) == []
    if hasattr(estimator, "transform"):
        assert estimator.transform(iter([])).shape[0] == 0
        assert estimator.transform([]).dtype == estimator.transform(TEXTS).dtype


@pytest.mark.parametrize("y", [TWO, THREE, INDICATORS], ids=["two classes", "three classes", "indicators"])
@pytest.mark.parametrize("name", OF_ROWS)
def test_no_rows(name, y):
    estimator = OF_ROWS[name]
    if y is not TWO and name.startswith("Budgeted") and y is INDICATORS:
        estimator = sb.BudgetedThreshold(sb.OpinionPoolNB(), rate=0.3, burst=5)
    if y is INDICATORS and name.startswith("Guaranteed"):
        estimator = sb.GuaranteedThreshold(sb.OpinionPoolNB(), max_fpr=0.6, confidence=0.5)
    try:
        fitted = clone(estimator).fit(csr_array(ROWS), y)
    except ValueError:
        if y is TWO:
            raise
        pytest.skip("not for such labels")
    check_empty(fitted, csr_array(ROWS), csr_array((0, 6), dtype=ROWS.dtype), y)


def test_no_texts_for_a_scorer():
    vectorizer = sb.CountVectorizer()
    nb = sb.MultinomialNB().fit(vectorizer.fit_transform(TEXTS), THREE)
    assert nb.text_scorer(vectorizer).decision_function([]).shape == (0, 3)


def test_fitting_on_nothing_is_refused():
    for estimator in (sb.CountVectorizer(), sb.ViewPool("text"), words(), sb.TfidfVectorizer()):
        with pytest.raises(ValueError, match=r"empty vocabulary|at least two classes|0 sample"):
            estimator.fit([], [])
    with pytest.raises(ValueError, match="0 sample"):
        sb.MultinomialNB().fit(np.zeros((0, 3)), [])


def test_no_documents_for_a_filter(tmp_path):
    with sb.Filter.create(tmp_path / "f", classes=("ham", "spam"), reader="text") as mine:
        assert mine.train([])["learnt"] == 0
        assert mine.train(iter([]))["learnt"] == 0
        mine.train(
            [(text, label) for text, label in zip([f"{text} {i}" for i, text in enumerate(TEXTS * 3)], [*TWO] * 3)]
        )
        before = mine.status()["documents"]
        assert mine.train([])["learnt"] == 0
        assert mine.status()["documents"] == before
