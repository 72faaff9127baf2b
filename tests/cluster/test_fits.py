"""Fits in parts are the fits of one machine, to the last byte."""

import pickle
import threading
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from alike import counts, cut, invented, same
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import surebayes as sb
from strategies import corpora
from surebayes import cluster
from surebayes.cluster.columns import select_columns
from surebayes.cluster.documents import Plan
from surebayes.cluster.parts import Reader
from surebayes.cluster.passes import Pass, merged
from surebayes.core import sampling
from surebayes.errors import BadInput, PartFailed
from variants import CHOOSING, VARIANTS

EVERY = VARIANTS | CHOOSING


@pytest.mark.parametrize("name", EVERY)
@given(data=corpora(), n_parts=st.integers(1, 5), seed=st.integers(0, 1000))
@settings(max_examples=6)
def test_rows_in_parts(name, data, n_parts, seed):
    X, y = data
    whole = clone(EVERY[name]).fit(X, y)
    fitted = cluster.fit(clone(EVERY[name]), cut(counts(X), y, n_parts, seed))
    same(fitted, whole, X)


@pytest.mark.parametrize("name", EVERY)
def test_rows_beyond_the_sample(name, monkeypatch):
    monkeypatch.setattr(sampling, "LARGEST", 20)
    texts, y = invented(80, kinds=3)
    X = sb.CountVectorizer().fit_transform(texts)
    whole = clone(EVERY[name]).fit(X, y)
    same(cluster.fit(clone(EVERY[name]), cut(X, y, 4)), whole, X)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("limits", [{}, {"min_df": 2}], ids=["all terms", "min_df"])
def test_documents_in_parts(name, limits):
    texts, y = invented(60)
    whole = make_pipeline(sb.CountVectorizer(**limits), clone(EVERY[name])).fit(texts, y)
    fitted = cluster.fit(clone(whole), cut(texts, y, 5))
    assert fitted[0].vocabulary_ == whole[0].vocabulary_
    same(fitted[1], whole[1], whole[0].transform(texts))
    np.testing.assert_array_equal(fitted.decision_function(texts), whole.decision_function(texts))


@pytest.mark.parametrize(
    "vectorizer",
    [
        sb.CountVectorizer(max_df=0.5, max_features=9),
        sb.CountVectorizer(min_df=3, max_df=20, binary=True, dtype=np.float64),
        sb.CountVectorizer(analyzer="bytes", ngram_range=(3, 4), min_df=2),
        sb.CountVectorizer(tokenizer=str.split, token_pattern=None),
        sb.CountVectorizer(vocabulary=["wak", "wbl", "wcm"]),
        sb.HashingVectorizer(n_features=2**10, norm=None, alternate_sign=False),
        sb.HashingVectorizer(n_features=64, norm="l2", alternate_sign=False, analyzer="char", ngram_range=(2, 3)),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["MultinomialNB", "abs_idf DSFS", "PNB", "PCN cv", "DTWC-KL", "DSFS mean length"])
@given(seed=st.integers(0, 1000), n_parts=st.integers(1, 6))
@settings(max_examples=3)
def test_vectorizers(vectorizer, name, seed, n_parts):
    texts, y = invented(50, kinds=3, seed=seed)
    whole = make_pipeline(clone(vectorizer), clone(EVERY[name])).fit(texts, y)
    fitted = cluster.fit(clone(whole), cut(texts, y, n_parts, seed))
    if isinstance(vectorizer, sb.CountVectorizer):
        assert fitted[0].get_feature_names_out().tolist() == whole[0].get_feature_names_out().tolist()
    same(fitted[1], whole[1], whole[0].transform(texts))


@given(seed=st.integers(0, 1000), tree=st.permutations(range(4)))
@settings(max_examples=20)
def test_answers_add_up_in_any_order_and_stay_as_they_are(seed, tree):
    texts, y = invented(30, kinds=3, seed=seed)
    plan = Plan.of(sb.OpinionPoolNB())
    task = Pass(Reader(sb.OpinionPoolNB(), [sb.CountVectorizer()], learns=True), plan.requests)
    answers = [task(k, part) for k, part in enumerate(cut(texts, y, 4, seed))]
    before = [pickle.dumps(answer) for answer in answers]
    a, b, c, d = (answers[k] for k in tree)
    left = merged([merged([merged([a, b]), c]), d])
    right = merged([d, merged([a]), merged([b, c])])
    assert [pickle.dumps(answer) for answer in answers] == before
    assert left.n_documents == right.n_documents == 30
    for mine, theirs in zip(left.statistics, right.statistics, strict=True):
        picked_left = select_columns(mine, left.terms.sorted_numbers())
        assert picked_left == select_columns(theirs, right.terms.sorted_numbers())


def test_fitting_again_forgets_the_old_vocabulary():
    first, y = invented(30, seed=1)
    second, z = ["alpha beta", "gamma delta"] * 5, np.array([0, 1] * 5)
    model = make_pipeline(sb.CountVectorizer(), sb.OpinionPoolNB())
    cluster.fit(model, cut(first, y, 3))
    cluster.fit(model, cut(second, z, 3))
    assert sorted(model[0].vocabulary_) == ["alpha", "beta", "delta", "gamma"]
    same(model[1], sb.OpinionPoolNB().fit(model[0].transform(second), z), model[0].transform(second))


# ---- labels


def test_labels_that_occur_in_one_part_only():
    texts, y = invented(40, kinds=4)
    names = np.array(["ham", "spam", "list", "newsletter"])[y]
    X = sb.CountVectorizer().fit_transform(texts)
    parts = [(X[y == k], names[y == k]) for k in range(4)]
    for estimator in (sb.OpinionPoolNB(top=3), sb.MultinomialNB(), sb.PoissonNB(weight="auto")):
        same(cluster.fit(clone(estimator), parts), clone(estimator).fit(X, names), X)


def test_sparse_indicators():
    texts, _ = invented(40)
    X = sb.CountVectorizer().fit_transform(texts)
    y = csr_array((np.random.default_rng(0).random((40, 30)) < 0.2).astype(int))
    parts = [(X[:5], y[:5]), (X[5:], y[5:])]
    same(cluster.fit(sb.OpinionPoolNB(), parts), sb.OpinionPoolNB().fit(X, y), X)


def test_one_class_in_all():
    X = counts([[1, 2], [0, 1]])
    parts = [(X[:1], ["ham"]), (X[1:], ["ham"])]
    same(cluster.fit(sb.MultinomialNB(), parts), sb.MultinomialNB().fit(X, ["ham", "ham"]), X)


def test_a_part_may_have_one_document_for_each_of_many_classes():
    X, y = counts(np.eye(60) + 1), np.arange(60)
    same(
        cluster.fit(sb.MultinomialNB(), [(X[:30], y[:30]), (X[30:], y[30:]), (X, y)]),
        sb.MultinomialNB().fit(counts(np.vstack([X.toarray()] * 2)), np.concatenate([y, y])),
        X,
    )


def test_an_array_of_priors_for_several_classes():
    texts, y = invented(40, kinds=3)
    X = sb.CountVectorizer().fit_transform(texts)
    estimator = sb.MultinomialNB(prior=[0.5, 0.3, 0.2])
    same(cluster.fit(clone(estimator), cut(X, y, 3)), clone(estimator).fit(X, y), X)


# ---- executors


class Reads:
    """A part that notes in a folder how often it is read, and fails at first if told so; a process can have it."""

    def __init__(self, folder, number, part, failures=0):
        self.folder, self.number, self.part = Path(folder), number, part
        self.failures = failures

    def __call__(self):
        with open(self.folder / str(self.number), "a") as log:
            log.write("x")
        if (self.folder / str(self.number)).stat().st_size <= self.failures:
            raise OSError("the disk was away")
        return self.part


def reads(folder):
    return [len(p.read_text()) for p in sorted(folder.iterdir())]


@pytest.mark.parametrize("workers", [None, ThreadPoolExecutor, ProcessPoolExecutor])
def test_executors(workers, tmp_path):
    texts, y = invented(60, kinds=3)
    parts = [Reads(tmp_path, k, part) for k, part in enumerate(cut(texts, y, 4))]
    whole = make_pipeline(sb.CountVectorizer(), sb.OpinionPoolNB(top=4)).fit(texts, y)
    if workers is None:
        fitted = cluster.fit(clone(whole), parts)
    else:
        with workers(2) as executor:
            fitted = cluster.fit(clone(whole), parts, executor)
    same(fitted[1], whole[1], whole[0].transform(texts))
    assert reads(tmp_path) == [3] * 4


PASSES = {
    "MultinomialNB": 1,
    "geo": 1,
    "abs_idf": 2,
    "abs_idf DSFS": 3,
    "abs three stages": 3,
    "abs at scoring": 1,
    "PNB": 2,
    "PNB auto": 3,
    "PCN": 3,
    "PCN cv": 3,
    "DTWC-O": 2,
    "NB-KL": 1,
    "NB-KL auto": 2,
}


@pytest.mark.parametrize("name", PASSES)
def test_each_pass_reads_every_part_once(name, tmp_path):
    texts, y = invented(40)
    X = sb.CountVectorizer().fit_transform(texts)
    cluster.fit(clone(EVERY[name]), [Reads(tmp_path, k, part) for k, part in enumerate(cut(X, y, 3))])
    assert reads(tmp_path) == [PASSES[name]] * 3


class SlowToAnswer(Executor):
    """Answers the latest question first, and only when nobody asks any more."""

    def __init__(self):
        self._max_workers, self.asked, self.most, self.timer = 3, [], 0, None

    def submit(self, function, *arguments):
        future = Future()
        self.asked.append((future, partial(function, *arguments)))
        self.most = max(self.most, len(self.asked))
        if self.timer is None:
            self.timer = threading.Timer(0.02, self.answer)
            self.timer.start()
        return future

    def answer(self):
        self.timer = None
        while self.asked:
            future, work = self.asked.pop()
            try:
                future.set_result(work())
            except Exception as error:
                future.set_exception(error)


def test_order_of_answers_does_not_show_and_few_parts_are_under_way():
    texts, y = invented(60)
    X = sb.CountVectorizer().fit_transform(texts)
    executor = SlowToAnswer()
    same(cluster.fit(sb.OpinionPoolNB(), cut(X, y, 20), executor), sb.OpinionPoolNB().fit(X, y), X)
    assert executor.most <= 6


@pytest.mark.parametrize("workers", [None, 2])
def test_a_part_that_fails_twice_is_read_again(workers, tmp_path):
    texts, y = invented(40)
    X = sb.CountVectorizer().fit_transform(texts)
    parts = [Reads(tmp_path, k, part, failures=2 * (k == 1)) for k, part in enumerate(cut(X, y, 3))]
    executor = workers and ThreadPoolExecutor(workers)
    same(cluster.fit(sb.MultinomialNB(), parts, executor), sb.MultinomialNB().fit(X, y), X)
    assert reads(tmp_path) == [1, 3, 1]


@pytest.mark.parametrize("workers", [None, ThreadPoolExecutor, ProcessPoolExecutor])
def test_a_part_that_always_fails_is_named(workers, tmp_path):
    texts, y = invented(40)
    parts = [Reads(tmp_path, k, part, failures=99 * (k == 2)) for k, part in enumerate(cut(texts, y, 3))]
    model = make_pipeline(sb.CountVectorizer(), sb.OpinionPoolNB())
    executor = workers and workers(2)
    with pytest.raises(PartFailed, match=r"part 2 could not be read: OSError: the disk was away") as caught:
        cluster.fit(model, parts, executor, retries=1)
    if executor:
        executor.shutdown()
    assert caught.value.part == 2
    assert reads(tmp_path)[2] == 2
    assert not hasattr(model[1], "statistics_")


def die():
    import os

    os._exit(1)


def test_a_broken_executor_is_explained():
    with ProcessPoolExecutor(1) as executor, pytest.raises(PartFailed, match="one of its processes died") as caught:
        cluster.fit(sb.MultinomialNB(), [die], executor)
    assert isinstance(caught.value.__cause__, BrokenExecutor)


# ---- bad input

X = counts([[1, 0], [0, 2], [1, 1]])
Y = [0, 1, 1]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ((counts([[1, 0, 0]]), [0]), r"part 1 has 3 columns, part 0 has 2"),
        ((csr_array((0, 3)), []), r"part 1 has 3 columns, part 0 has 2"),
        ((counts([[-1, 0]]), [0]), r"part 1: Negative values"),
        ((counts([[np.nan, 0]]), [0]), r"part 1: .*NaN"),
        ((X, [0, 1]), r"part 1: .*inconsistent numbers of samples"),
        ((X, None), r"part 1: its labels are None"),
        ((X, ["ham", "spam", "spam"]), r"part 1 has labels that are text \('ham'\), part 0 labels that are numbers"),
        ((X, [0.5, 0.25, 1.5]), r"part 1: Unknown label type"),
        ((X, np.eye(3, dtype=int)), r"part 1 has a multi-label indicator for labels, part 0 single labels"),
        ((csr_array((0, 2)), [1]), r"part 1: it has no documents but 1 labels"),
        (X, r"part 1: a part must be a pair .* Got csr_array"),
        ((X, Y, Y), r"part 1: a part must be a pair .* Got tuple of length 3"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_parts_are_named(bad, message):
    model = sb.OpinionPoolNB()
    before = model.fit(X, Y).decision_function(X)
    with pytest.raises(BadInput, match=message):
        cluster.fit(model, [(X, Y), bad, (X, Y)], retries=0)
    np.testing.assert_array_equal(model.decision_function(X), before)


def test_indicators_of_other_width_are_named():
    with pytest.raises(BadInput, match="part 1 has 3 label columns, part 0 has 2"):
        cluster.fit(sb.OpinionPoolNB(), [(X, np.ones((3, 2), int)), (X, np.eye(3, dtype=int))])


def test_empty_parts_add_nothing():
    empty = (csr_array((0, 2)), [])
    same(cluster.fit(sb.OpinionPoolNB(), [empty, (X, Y), empty]), sb.OpinionPoolNB().fit(X, Y), X)
    for parts in ([empty, empty], []):
        with pytest.raises(BadInput, match=r"the parts have no documents|no parts"):
            cluster.fit(sb.OpinionPoolNB(), parts)


def test_parts_that_change_between_passes_are_refused():
    calls = []

    def growing():
        calls.append(1)
        return (X, Y) if len(calls) == 1 else (counts(np.ones((4, 2))), [0, 1, 1, 0])

    with pytest.raises(BadInput, match="had 3 documents at first and 4 later"):
        cluster.fit(sb.OpinionPoolNB(), [growing])


def test_a_new_label_in_a_later_pass_is_refused():
    calls = []

    def changing():
        calls.append(1)
        return X, [0, 1, 1 + (len(calls) > 1)]

    with pytest.raises(BadInput, match="part 0: the label 2 is new since the first pass"):
        cluster.fit(sb.OpinionPoolNB(), [changing])


def test_data_frames_keep_their_names():
    frame = pd.DataFrame(X.toarray(), columns=["gold", "lunch"])
    whole = sb.OpinionPoolNB().fit(frame, Y)
    fitted = cluster.fit(sb.OpinionPoolNB(), [(frame[:1], Y[:1]), (frame[1:], Y[1:])])
    assert fitted.feature_names_in_.tolist() == ["gold", "lunch"]
    same(fitted, whole, frame)
    with pytest.raises(BadInput, match="columns of part 1 differ"):
        cluster.fit(sb.OpinionPoolNB(), [(frame, Y), (frame[["lunch", "gold"]], Y)])


def test_nothing_but_stop_words():
    model = make_pipeline(sb.CountVectorizer(stop_words=["the"]), sb.OpinionPoolNB())
    with pytest.raises(ValueError, match="empty vocabulary"):
        cluster.fit(model, [(["the", "the the"], [0, 1])])
    texts, y = ["the", "the gold", "lunch"], np.array([0, 1, 0])
    same(
        cluster.fit(clone(model), [(texts[:1], y[:1]), (texts[1:], y[1:])])[1], clone(model).fit(texts, y)[1], [[1, 0]]
    )


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (sb.TunedNB(), "TunedNB compares hundreds of models .* best_estimator_"),
        (make_pipeline(sb.HashingVectorizer(), sb.ViewPool()), "ViewPool takes documents: fit it without"),
        (LogisticRegression(), "Only classifiers of surebayes .* Got LogisticRegression"),
        (make_pipeline(TfidfVectorizer(), sb.MultinomialNB()), "TfidfVectorizer must be fitted .* weight='idf'"),
        (make_pipeline(sb.TermWeighting(), sb.MultinomialNB()), "TermWeighting must be fitted"),
    ],
)
def test_what_cannot_be_fitted_in_parts(estimator, message):
    with pytest.raises(TypeError, match=message):
        cluster.fit(estimator, [(["a b", "b c"], [0, 1])])


def test_bad_parameters_are_refused_before_anything_is_read():
    def never():
        raise AssertionError("read")

    with pytest.raises(ValueError, match="'smoothing' parameter"):
        cluster.fit(sb.MultinomialNB(smoothing=-1), [never])


def test_the_bar_counts_parts(capsys):
    cluster.fit(sb.OpinionPoolNB(), [(X, Y), (X, Y)], progress=True)
    shown = capsys.readouterr().err
    assert "pass 1: plain sums" in shown
    assert "pass 2: sums" in shown
    assert "2/2" in shown


@pytest.mark.parametrize("name", ["NB log tf", "abs_idf DSFS", "PNB auto", "PCN cv", "DTWC-KL", "reversal of a pool"])
def test_tables_too_large_to_be_plain(name, monkeypatch):
    from surebayes.core import sums

    monkeypatch.setattr(sums, "DENSE_BYTES", 0)
    texts, y = invented(60, kinds=4)
    whole = make_pipeline(sb.CountVectorizer(), clone(EVERY[name])).fit(texts, y)
    fitted = cluster.fit(clone(whole), cut(texts, y, 4))
    same(fitted[1], whole[1], whole[0].transform(texts))
    X = whole[0].transform(texts)
    parts = [(X[y == k], y[y == k]) for k in range(4)]
    same(cluster.fit(clone(EVERY[name]), parts), whole[1], X)
