"""Documents from Arrow, pandas, Polars and generators, and the one error for a missing text."""

import math
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline

import surebayes as sb
from surebayes.errors import BadInput, MissingText
from surebayes.text.documents import documents_in, is_missing

TEXTS = ["buy gold now", "see you at lunch", "gold, gold: buy", "lunch now? se\u00e9 you"] * 8
LABELS = np.array(["spam", "ham"] * 16)


def arrow(kind):
    def make(texts):
        pa = pytest.importorskip("pyarrow")
        if kind == "chunked":
            return pa.chunked_array([texts[:5], texts[5:]], pa.string())
        if kind == "dictionary":
            return pa.array(texts).dictionary_encode()
        if kind == "dictionary, chunked":
            return pa.chunked_array([texts[:5], texts[5:]], pa.string()).dictionary_encode()
        return pa.array(texts, getattr(pa, kind)())

    return make


def polars(texts):
    return pytest.importorskip("polars").Series(texts)


def polars_categories(texts):
    pl = pytest.importorskip("polars")
    return pl.Series(texts, dtype=pl.Categorical)


def pandas_arrow(texts):
    pa = pytest.importorskip("pyarrow")
    return pd.Series(texts, dtype=pd.ArrowDtype(pa.string()))


def scalars(texts):
    return list(arrow("string")(texts))


KINDS = {
    "list": list,
    "tuple": tuple,
    "generator": lambda texts: (text for text in texts),
    "numpy object": lambda texts: np.array(texts, object),
    "pandas object": lambda texts: pd.Series(texts, dtype=object),
    "pandas string": lambda texts: pd.Series(texts, dtype="string"),
    "pandas category": lambda texts: pd.Series(texts, dtype="category"),
    "pandas Arrow": pandas_arrow,
    "polars": polars,
    "polars categories": polars_categories,
    "list of Arrow scalars": scalars,
    **{f"Arrow {kind}": arrow(kind) for kind in (
        "string", "large_string", "string_view", "chunked", "dictionary", "dictionary, chunked"
    )},
}  # fmt: skip


def own_tokens(text):
    return text.split()


ESTIMATORS = {
    "count": sb.CountVectorizer,
    "count, two threads": lambda: sb.CountVectorizer(n_jobs=2),
    "count, own tokenizer": lambda: sb.CountVectorizer(tokenizer=own_tokens, token_pattern=None),
    "count, given vocabulary": lambda: sb.CountVectorizer(vocabulary=["gold", "lunch"]),
    "hash": lambda: sb.HashingVectorizer(n_features=64),
    "hash, own tokenizer": lambda: sb.HashingVectorizer(n_features=64, tokenizer=own_tokens, token_pattern=None),
    "tfidf": sb.TfidfVectorizer,
    "views": lambda: sb.Views([("words", sb.CountVectorizer()), ("pairs", sb.CountVectorizer(ngram_range=(2, 2))),
                               ("hashed", sb.HashingVectorizer(n_features=64))]),
    "pool": lambda: sb.ViewPool("text", n_features=2**12),
    "own pool": lambda: sb.ViewPool([("words", sb.CountVectorizer(), sb.MultinomialNB(contrast="rest"))]),
    "pipeline": lambda: make_pipeline(sb.CountVectorizer(), sb.MultinomialNB()),
    "guaranteed": lambda: sb.GuaranteedThreshold(
        make_pipeline(sb.CountVectorizer(), sb.MultinomialNB()), max_fpr=0.5, confidence=0.5),
    "guaranteed, folds": lambda: sb.GuaranteedThreshold(
        sb.ViewPool("text", n_features=2**12), max_fpr=0.5, confidence=0.5, cv=StratifiedKFold(3)),
    "budgeted": lambda: sb.BudgetedThreshold(make_pipeline(sb.HashingVectorizer(alternate_sign=False),
                                                           sb.MultinomialNB()), rate=0.3, burst=5),
}  # fmt: skip
SPLITTING = ("guaranteed", "guaranteed, folds", "budgeted", "pipeline")


def answers(estimator, documents):
    """Return what every method that takes documents makes of them."""
    results = {}
    for name in ("transform", "decision_function", "predict", "predict_proba", "partial_fit", "transform_stream"):
        if hasattr(estimator, name) and not (name == "partial_fit" and hasattr(estimator, "predict")):
            result = getattr(estimator, name)(documents())
            result = list(result) if name == "transform_stream" else [result]
            results[name] = [each.toarray() if hasattr(each, "toarray") else each for each in result]
    results.pop("partial_fit", None)
    return results


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_kind_of_column_gives_what_a_list_gives(name, kind):
    if kind == "generator" and name in SPLITTING:
        pytest.skip("rows are picked out of a sequence")
    expected = answers(ESTIMATORS[name]().fit(TEXTS, LABELS), lambda: TEXTS)
    fitted = ESTIMATORS[name]().fit(KINDS[kind](TEXTS), LABELS)
    found = answers(fitted, lambda: KINDS[kind](TEXTS))
    assert expected.keys() == found.keys()
    for method, parts in expected.items():
        for ours, theirs in zip(found[method], parts, strict=True):
            np.testing.assert_array_equal(ours, theirs, err_msg=method)


HOLES = {  # a kind of column -> what marks a missing text in it
    "list": (None, math.nan, np.float64("nan"), np.nan, pd.NA, pd.NaT),
    "numpy object": (None, np.nan),
    "pandas object": (None, np.nan),
    "pandas string": (None, pd.NA),
    "pandas category": (None,),
    "pandas Arrow": (None,),
    "polars": (None,),
    "polars categories": (None,),
    "generator": (None,),
    "list of Arrow scalars": (None,),
    "Arrow string": (None,),
    "Arrow string_view": (None,),
    "Arrow chunked": (None,),
    "Arrow dictionary": (None,),
}
CASES = [(name, kind, holes[0], 17) for name in ESTIMATORS for kind, holes in HOLES.items()]
CASES += [(name, kind, hole, 31) for name in ("count", "pool", "guaranteed") for kind in HOLES for hole in HOLES[kind]]
CASES += [(name, "list", None, 0) for name in ESTIMATORS]


@pytest.mark.parametrize(("name", "kind", "hole", "place"), CASES)
def test_a_missing_text_is_one_error_that_names_the_callers_row(name, kind, hole, place):
    if kind == "generator" and name in SPLITTING:
        pytest.skip("rows are picked out of a sequence")
    texts = list(TEXTS)
    texts[place] = hole
    fitted = ESTIMATORS[name]().fit(TEXTS, LABELS)
    calls = [lambda X: ESTIMATORS[name]().fit(X, LABELS)] if name != "hash" and name != "hash, own tokenizer" else []
    for method in ("transform", "predict", "decision_function", "transform_stream"):
        if hasattr(fitted, method):
            calls.append(lambda X, method=method: getattr(fitted, method)(X))
    for call in calls:
        with pytest.raises(MissingText, match=rf"^Document {place} \(counted from 0\) has no text: got .*Leave it out"):
            read(call(KINDS[kind](texts)))


def read(answer):
    """Read a stream to its end."""
    return list(answer) if hasattr(answer, "__next__") else answer


@pytest.mark.parametrize("name", ["guaranteed", "guaranteed, folds", "budgeted", "pool", "count", "tfidf"])
def test_the_row_has_its_label_in_pandas(name):
    texts = pd.Series(TEXTS, index=[f"mail-{i}" for i in range(len(TEXTS))], dtype=object)
    texts["mail-9"] = None
    with pytest.raises(MissingText, match=r"^Document 9 \(counted from 0; its index is 'mail-9'\)"):
        ESTIMATORS[name]().fit(texts, LABELS)


@pytest.mark.parametrize("chunk", [1, 3, 1000])
@pytest.mark.parametrize("name", ["count", "hash", "tfidf", "views"])
def test_streams_count_rows_from_their_start(name, chunk):
    fitted = ESTIMATORS[name]().fit(TEXTS, LABELS)
    with pytest.raises(MissingText, match=r"^Document 10 "):
        list(fitted.transform_stream(iter([*TEXTS[:10], None, *TEXTS]), chunk))


def test_views_count_rows_across_their_chunks():
    texts = [*(["gold"] * 1300), None]
    for method in ("fit", "partial_fit"):
        with pytest.raises(MissingText, match=r"^Document 1300 "):
            getattr(sb.Views([("words", sb.CountVectorizer()), ("more", sb.CountVectorizer())]), method)(texts)


def test_a_function_of_ones_own_may_read_missing_documents():
    """As in scikit-learn: an analyzer or a preprocessor gets what the caller has."""
    rows = sb.CountVectorizer(analyzer=lambda d: [] if d is None else [d["word"]]).fit_transform([{"word": "a"}, None])
    assert rows.toarray().tolist() == [[1], [0]]
    rows = sb.CountVectorizer(preprocessor=lambda d: d or "").fit_transform(["gold mine", None])
    assert rows.toarray().tolist() == [[1, 1], [0, 0]]
    assert sb.HashingVectorizer(analyzer=lambda d: [], n_features=4).transform([None]).shape == (1, 4)
    parts = sb.Views([("subject", sb.CountVectorizer(), lambda mail: mail or "none")])
    assert parts.fit_transform(["gold", None]).toarray().tolist() == [[1, 0], [0, 1]]


def test_tables_with_columns_are_refused_with_the_way_out():
    pa = pytest.importorskip("pyarrow")
    for table in (pa.table({"text": TEXTS}), pd.DataFrame({"text": TEXTS}), pa.record_batch({"text": TEXTS})):
        with pytest.raises(ValueError, match=r'X\["text"\]'):
            sb.ViewPool("text").fit(table, LABELS)


def test_arrow_is_read_a_slice_at_a_time():
    pa = pytest.importorskip("pyarrow")
    column = pa.chunked_array([[str(i) for i in range(2500)], [], ["x"]])
    assert list(documents_in(column)) == [*map(str, range(2500)), "x"]


def test_the_error_is_bad_input_and_can_be_pickled():
    error = MissingText(3, math.nan, "row")
    assert isinstance(error, BadInput)
    assert isinstance(error, ValueError)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize("value", ["", "text", b"", b"x", 0, 1.5, np.str_("x"), np.array([1, 2]), np.array([]), [], {}])
def test_what_is_not_missing(value):
    assert not is_missing(value)
