"""The vectorizers against scikit-learn's: the same matrix, vocabulary and names, with the kernel and its reference."""

import copy
import io
import pickle
import re
import string
import threading
import warnings

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction import text as sklearn_text
from sklearn.feature_extraction.text import CountVectorizer as TheirCount
from sklearn.feature_extraction.text import HashingVectorizer as TheirHashing
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline

from strategies import representations, text_corpora, texts, vectorizer_options
from surebayes import CountVectorizer, HashingVectorizer, TextScorer, TfidfVectorizer, Views, kernels
from surebayes.core.represent import Representation, places
from surebayes.kernels.reference import text as reference
from surebayes.streams import read_files, read_parquet
from surebayes.text import batching

CORPUS = [
    "The quick brown Fox jumps over the lazy dog",
    "the the the DOG dog: ÉCOLE école, naïve façade!",
    "ΟΔΥΣΣΕΥΣ ὈΔΥΣΣΕΎΣ Σ σ ΑΣ. İstanbul, ISTANBUL",
    "a b c 1 22 333 _x __ don't e-mail   two  spaces\n\n\ttabs",
    "",
    "한국어 문서 國語 日本語テキスト 😀 emoji\ud800lone",
    "fox fox fox lazy lazy quick" * 3,
]

CHOICES = {
    "plain": {},
    "bigrams": {"ngram_range": (1, 2)},
    "trigrams alone": {"ngram_range": (3, 3)},
    "stop words": {"stop_words": "english", "ngram_range": (1, 2)},
    "own stop words": {"stop_words": ["fox", "école", "22"]},
    "case kept": {"lowercase": False},
    "ascii accents": {"strip_accents": "ascii"},
    "unicode accents": {"strip_accents": "unicode"},
    "own accents": {"strip_accents": str.upper},
    "one letter": {"token_pattern": r"(?u)\b\w+\b"},
    "own pattern": {"token_pattern": r"[a-z]+"},
    "group pattern": {"token_pattern": r"(\w)\w+"},
    "tokenizer": {"tokenizer": str.split, "token_pattern": None},
    "preprocessor": {"preprocessor": str.swapcase},
    "own analyzer": {"analyzer": str.split},
    "char": {"analyzer": "char", "ngram_range": (1, 3)},
    "char_wb": {"analyzer": "char_wb", "ngram_range": (2, 5)},
    "long char_wb": {"analyzer": "char_wb", "ngram_range": (1, 50)},
    "binary": {"binary": True},
    "floats": {"dtype": np.float64},
    "small ints": {"dtype": np.int32},
    "bytes dtype": {"dtype": np.uint8},
}
LIMITS = {
    "min_df": {"min_df": 2},
    "min share": {"min_df": 0.3},
    "max_df": {"max_df": 1},
    "max share": {"max_df": 0.25},
    "most": {"max_features": 5},
    "most binary": {"max_features": 4, "binary": True},
    "all limits": {"max_features": 3, "min_df": 2, "max_df": 0.9, "dtype": np.float32},
}


@pytest.fixture(params=["kernel", "reference"])
def kernel(request, monkeypatch):
    """Every test that asks for it runs on both."""
    if request.param == "reference":
        monkeypatch.setitem(kernels._chosen, "text", reference)
    else:
        pytest.importorskip("surebayes.kernels._text")
    return request.param


def assert_same(ours, theirs):
    theirs = theirs.copy()
    theirs.has_sorted_indices = False
    theirs.sort_indices()
    assert type(ours) is type(theirs)
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    for name in ("indptr", "indices", "data"):
        a, b = getattr(ours, name), getattr(theirs, name)
        assert a.dtype == b.dtype, name
        np.testing.assert_array_equal(a, b, err_msg=name)
    assert ours.has_canonical_format


def assert_same_count(options, documents, more=()):
    ours, theirs = CountVectorizer(**options), TheirCount(**options)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = theirs.fit_transform(documents)
    except ValueError as error:
        with warnings.catch_warnings(action="ignore"), pytest.raises(type(error), match=re.escape(str(error))):
            ours.fit_transform(documents)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_same(ours.fit_transform(documents), expected)
        assert ours.vocabulary_ == theirs.vocabulary_
        assert ours.fixed_vocabulary_ == theirs.fixed_vocabulary_
        np.testing.assert_array_equal(ours.get_feature_names_out(), theirs.get_feature_names_out())
        assert_same(ours.transform([*documents, *more]), theirs.transform([*documents, *more]))
        assert_same(CountVectorizer(**options).fit(documents).transform(documents), theirs.transform(documents))
    for a, b in zip(ours.inverse_transform(expected), theirs.inverse_transform(expected)):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", [*CHOICES, *LIMITS])
def test_count_equals_scikit_learn(kernel, name):
    assert_same_count((CHOICES | LIMITS)[name], CORPUS, ["unseen words", "the fox"])


@pytest.mark.parametrize("name", CHOICES)
def test_hashing_equals_scikit_learn(kernel, name):
    options = CHOICES[name]
    documents = [text.encode("utf-8", "ignore").decode() for text in CORPUS]
    for more in ({}, {"n_features": 10, "norm": None}, {"n_features": 33, "alternate_sign": False, "norm": "l1"}):
        merged = {"dtype": np.float32} if options.get("dtype") == np.uint8 else options
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert_same(
                HashingVectorizer(**merged, **more).fit_transform(documents),
                TheirHashing(**merged, **more).fit_transform(documents),
            )


@settings(max_examples=150)
@given(text_corpora, vectorizer_options, text_corpora)
def test_count_equals_scikit_learn_on_any_text(documents, options, more):
    assert_same_count(options, documents, more)


@settings(max_examples=100)
@given(
    text_corpora,
    vectorizer_options,
    st.sampled_from([1, 3, 1000, 2**20, 2**31 - 1]),
    st.booleans(),
    st.sampled_from([None, "l1", "l2"]),
)
def test_hashing_equals_scikit_learn_on_any_text(documents, options, n_features, sign, norm):
    options = {key: value for key, value in options.items() if key not in ("min_df", "max_df", "max_features")}
    options |= {"n_features": n_features, "alternate_sign": sign, "norm": norm}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = TheirHashing(**options).transform(documents)
        except UnicodeEncodeError:
            with pytest.raises(UnicodeEncodeError):
                HashingVectorizer(**options).transform(documents)
            return
        try:
            ours = HashingVectorizer(**options).transform(documents)
        except UnicodeEncodeError:  # a surrogate that no n-gram was long enough to hold
            assert any("\ud800" <= c <= "\udfff" for document in documents for c in document)
            return
        assert_same(ours, expected)


@pytest.mark.parametrize("jobs", [2, 3, -1])
def test_threads_change_nothing(jobs):
    rng = np.random.default_rng(5)
    documents = [" ".join(rng.choice([f"w{i}" for i in range(900)], 30)) for _ in range(3000)]
    for options in ({}, {"min_df": 3, "max_features": 500}, {"ngram_range": (1, 2)}):
        alone, many = CountVectorizer(**options), CountVectorizer(**options, n_jobs=jobs)
        assert_same(many.fit_transform(iter(documents)), alone.fit_transform(documents))
        assert alone.vocabulary_ == many.vocabulary_
        assert_same(many.transform(documents), alone.transform(documents))
    assert_same(HashingVectorizer(n_jobs=jobs).transform(documents), HashingVectorizer().transform(documents))
    log_odds = rng.normal(size=len(alone.vocabulary_))
    np.testing.assert_array_equal(
        TextScorer(alone, log_odds, norm="l1").decision_function(documents),
        TextScorer(many, log_odds, norm="l1").decision_function(documents),
    )


def test_an_error_in_a_thread_is_raised():
    with pytest.raises(TypeError, match="must be str"):
        CountVectorizer(n_jobs=2).fit(["fine"] * 2000 + [3])


# -------------------------------------------------------------------------------- given vocabularies, input, encodings


@pytest.mark.parametrize(
    "vocabulary",
    [
        ["fox", "dog", "the"],
        {"fox", "dog"},
        {"dog": 1, "fox": 0},
        ["fox", "", "\ud800"],
        ["quick brown"],
    ],
    ids=lambda v: f"{type(v).__name__} of {len(v)}",
)
def test_given_vocabulary(kernel, vocabulary):
    assert_same_count({"vocabulary": vocabulary}, CORPUS)
    assert_same_count({"vocabulary": vocabulary, "ngram_range": (1, 2), "binary": True}, CORPUS)
    ours = CountVectorizer(vocabulary=vocabulary)
    assert_same(ours.transform(CORPUS), TheirCount(vocabulary=vocabulary).transform(CORPUS))


def test_a_vocabulary_that_the_kernel_can_not_hold(kernel):
    vocabulary = {"dog": 0, 3: 1}
    assert_same(
        CountVectorizer(vocabulary=vocabulary).transform(CORPUS), TheirCount(vocabulary=vocabulary).transform(CORPUS)
    )


@pytest.mark.parametrize("vocabulary", [[], ["a", "a"], {"a": 0, "b": 0}, {"a": 0, "b": 2}])
def test_bad_vocabulary(vocabulary):
    assert_same_count({"vocabulary": vocabulary}, CORPUS)


def test_upper_case_vocabulary_warns():
    with pytest.warns(UserWarning, match="Upper case characters found"):
        CountVectorizer(vocabulary=["Fox"]).fit(CORPUS)


def test_vocabulary_can_be_assigned(kernel):
    ours = CountVectorizer().fit(CORPUS)
    ours.vocabulary_ = {"fox": 0, "lazy": 1}
    assert ours.transform(["fox lazy lazy dog"]).toarray().tolist() == [[1, 2]]
    assert ours.get_feature_names_out().tolist() == ["fox", "lazy"]


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
@pytest.mark.parametrize("error", ["strict", "replace", "ignore"])
def test_bytes_are_decoded(kernel, encoding, error):
    documents = ["école naïve".encode(encoding), "plain str", b"caf\xe9 cr\xc3\xa8me"]
    options = {"encoding": encoding, "decode_error": error}
    try:
        expected = TheirCount(**options).fit_transform(documents)
    except UnicodeDecodeError:
        with pytest.raises(UnicodeDecodeError):
            CountVectorizer(**options).fit_transform(documents)
        return
    assert_same(CountVectorizer(**options).fit_transform(documents), expected)


def test_files_and_file_names(kernel, tmp_path):
    names = [str(tmp_path / f"{i}.txt") for i in range(3)]
    for i, name in enumerate(names):
        (tmp_path / name).write_bytes(f"file number {i} é".encode())
    assert_same(
        CountVectorizer(input="filename").fit_transform(names), TheirCount(input="filename").fit_transform(names)
    )
    opened = [io.BytesIO(b"one two"), io.StringIO("two three")]
    ours = CountVectorizer(input="file").fit(opened)
    assert ours.get_feature_names_out().tolist() == ["one", "three", "two"]
    raw = CountVectorizer(input="filename", analyzer="bytes", max_bytes=4).fit(names)
    assert raw.get_feature_names_out().tolist() == ["e", "f", "i", "l"]


@pytest.mark.parametrize("vectorizer", [CountVectorizer(), HashingVectorizer()])
def test_a_single_string_is_refused(vectorizer):
    for method in ("fit", "fit_transform", "transform", "partial_fit"):
        if isinstance(vectorizer, HashingVectorizer) and method == "partial_fit":
            continue
        with pytest.raises(ValueError, match="Iterable over raw text documents expected"):
            getattr(vectorizer, method)("a single string")
    with pytest.raises(ValueError, match="Iterable over raw text documents expected"):
        list(vectorizer.transform_stream("a single string"))


@pytest.mark.parametrize("document", [np.nan, None, 7])
def test_documents_that_are_no_text(kernel, document):
    with pytest.raises((ValueError, TypeError)):
        CountVectorizer().fit(["text", document])


def test_other_kinds_of_str_and_iterable(kernel):
    expected = TheirCount().fit_transform(CORPUS[:4])
    assert_same(CountVectorizer().fit_transform(np.array(CORPUS[:4])), expected)
    assert_same(CountVectorizer().fit_transform(tuple(CORPUS[:4])), expected)
    assert_same(CountVectorizer().fit_transform(text for text in CORPUS[:4]), expected)


def test_nothing_to_count():
    with pytest.raises(ValueError, match="empty vocabulary"):
        CountVectorizer().fit([])
    with pytest.raises(ValueError, match="empty vocabulary"):
        CountVectorizer().fit(["a", ""])
    assert CountVectorizer(vocabulary=["fox"]).transform([]).shape == (0, 1)
    assert HashingVectorizer(n_features=8).transform([]).shape == (0, 8)
    with pytest.raises(NotFittedError):
        CountVectorizer().transform(["text"])
    with pytest.raises(NotFittedError):
        CountVectorizer().get_feature_names_out()
    assert not hasattr(CountVectorizer(), "vocabulary_")


@pytest.mark.parametrize(
    "options",
    [
        {"ngram_range": (2, 1)},
        {"analyzer": "sentence"},
        {"max_bytes": -1},
        {"n_jobs": "two"},
        {"min_df": 5, "max_df": 2},
    ],
)
def test_bad_parameters(options):
    with pytest.raises(ValueError):
        CountVectorizer(**options).fit(["some text", "more text"])


def test_unused_parameters_warn():
    with pytest.warns(UserWarning, match="stop_words"):
        CountVectorizer(analyzer="bytes", stop_words="english").fit(["text"])
    with pytest.warns(UserWarning, match="inconsistent"):
        CountVectorizer(stop_words=["don't"]).fit(["some text"])


# -------------------------------------------------------------------------------- byte n-grams


def byte_ngrams(low, high, max_bytes, decode):
    def analyze(document):
        raw = document if isinstance(document, bytes) else document.encode("utf-8", "surrogatepass")
        raw = raw[:max_bytes]
        grams = [raw[i : i + n] for n in range(low, high + 1) for i in range(len(raw) - n + 1)]
        return [gram.decode("latin-1") for gram in grams] if decode else grams

    return analyze


@settings(max_examples=60)
@given(
    st.lists(st.one_of(st.binary(max_size=60), texts), min_size=1, max_size=5),
    st.sampled_from([(1, 1), (4, 6), (2, 9), (12, 14)]),
    st.sampled_from([0, 3, 20, 3000]),
)
def test_byte_ngrams(documents, ngrams, max_bytes):
    options = {"analyzer": "bytes", "ngram_range": ngrams, "max_bytes": max_bytes}

    # scikit-learn decodes bytes before it analyzes them: give it something it leaves alone
    class Raw:
        def __init__(self, content):
            self.content = content

    def analyze(decode):
        return lambda raw: byte_ngrams(*ngrams, max_bytes, decode)(raw.content)

    raw = [Raw(document) for document in documents]
    theirs = TheirHashing(analyzer=analyze(False), n_features=64).transform(raw)
    assert_same(HashingVectorizer(**options, n_features=64).transform(documents), theirs)
    try:
        expected = TheirCount(analyzer=analyze(True)).fit(raw)
    except ValueError:
        with pytest.raises(ValueError, match="empty vocabulary"):
            CountVectorizer(**options).fit(documents)
        return
    ours = CountVectorizer(**options).fit(documents)
    assert ours.vocabulary_ == expected.vocabulary_
    assert_same(ours.transform(documents), expected.transform(raw))
    again = CountVectorizer(**options, vocabulary=ours.vocabulary_).transform(documents)
    assert_same(again, expected.transform(raw))
    assert sorted(set(ours.build_analyzer()(documents[0]))) == sorted(set(analyze(True)(raw[0])))


def test_byte_documents_of_other_types(kernel):
    ours = CountVectorizer(analyzer="bytes", ngram_range=(2, 2))
    expected = ours.fit_transform([b"abc"]).toarray().tolist()
    assert ours.transform([bytearray(b"abc")]).toarray().tolist() == expected
    assert ours.transform([memoryview(b"abc")]).toarray().tolist() == expected
    assert ours.transform(["ABC"]).nnz == 0


# -------------------------------------------------------------------------------- partial_fit, streams


@pytest.mark.parametrize(
    "options", [{}, {"tokenizer": str.split, "token_pattern": None}, {"analyzer": "bytes"}, {"n_jobs": 2}]
)
def test_partial_fit_appends(kernel, options):
    ours = CountVectorizer(**options)
    first = ours.partial_fit(["dog cat", "cat"]).get_feature_names_out().tolist()
    assert first == sorted(first)
    second = ours.partial_fit(["bird dog", "ant"]).get_feature_names_out().tolist()
    assert second[: len(first)] == first
    assert second[len(first) :] == sorted(second[len(first) :])
    assert ours.vocabulary_ == {term: i for i, term in enumerate(second)}
    assert set(second) == set(CountVectorizer(**options).fit(["dog cat", "cat", "bird dog", "ant"]).vocabulary_)
    wide = ours.transform(["ant cat cat"])
    assert wide.shape[1] == len(second)
    assert wide.has_canonical_format


@settings(max_examples=50)
@given(st.lists(text_corpora, min_size=1, max_size=4))
def test_partial_fit_sees_what_fit_sees(batches):
    ours = CountVectorizer(analyzer="char")
    for batch in batches:
        ours.partial_fit(batch)
    everything = [text for batch in batches for text in batch]
    if not any(everything):
        assert ours.vocabulary_ == {}
        return
    whole = CountVectorizer(analyzer="char").fit(everything)
    assert set(whole.vocabulary_) == set(ours.vocabulary_)
    order = [ours.vocabulary_[term] for term in whole.get_feature_names_out()]
    np.testing.assert_array_equal(ours.transform(everything).toarray()[:, order], whole.transform(everything).toarray())


def test_partial_fit_after_fit_and_with_a_given_vocabulary(kernel):
    ours = CountVectorizer().fit(["dog cat"])
    ours.partial_fit(["ant dog"])
    assert ours.vocabulary_ == {"cat": 0, "dog": 1, "ant": 2}
    fixed = CountVectorizer(vocabulary=["dog"]).partial_fit(["ant"])
    assert fixed.vocabulary_ == {"dog": 0}
    with pytest.raises(ValueError, match="partial_fit keeps every term"):
        CountVectorizer(min_df=2).partial_fit(["ant"])


def test_streams_are_read_as_they_are_needed(kernel):
    read = []

    def endless():
        for i in range(10**9):
            read.append(i)
            yield f"document number n{i}"

    ours = CountVectorizer(vocabulary=["document", "n7"])
    stream = ours.transform_stream(endless(), chunk=10)
    assert next(stream).sum() == 11
    assert next(stream).sum() == 10
    assert len(read) == 20
    hashed = HashingVectorizer().transform_stream(endless(), chunk=7)
    assert next(hashed).shape == (7, 2**20)


def test_large_documents_are_held_a_few_at_a_time(monkeypatch):
    monkeypatch.setattr(batching, "CHUNK_SIZE", 100)
    held = [len(chunk) for chunk in CountVectorizer()._documents(["x" * 60] * 7)]
    assert held == [2, 2, 2, 1]
    assert_same(CountVectorizer().fit_transform(CORPUS), TheirCount().fit_transform(CORPUS))


def test_reading_files_and_parquet(tmp_path):
    for name in ("b", "a"):
        (tmp_path / "folder" / name).mkdir(parents=True)
        (tmp_path / "folder" / name / "mail").write_bytes(name.encode() * 3)
    single = tmp_path / "single"
    single.write_bytes(b"one")
    assert list(read_files([tmp_path / "folder", single])) == [b"aaa", b"bbb", b"one"]
    table = tmp_path / "t.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"text": ["x y", "zz"] * 30, "n": range(60)}), table)
    assert list(read_parquet(table, chunk=7)) == ["x y", "zz"] * 30
    assert sum(rows.shape[0] for rows in HashingVectorizer().transform_stream(read_parquet(table), 25)) == 60
    with pytest.raises(ValueError, match="no column 'body': it has text, n"):
        next(read_parquet(table, "body"))


# -------------------------------------------------------------------------------- scikit-learn's contract


@pytest.mark.parametrize("copier", [lambda v: pickle.loads(pickle.dumps(v)), copy.deepcopy], ids=["pickle", "deepcopy"])
@pytest.mark.parametrize(
    "options", [{}, {"analyzer": "bytes"}, {"vocabulary": ["fox"]}, {"tokenizer": str.split, "token_pattern": None}]
)
def test_copies(kernel, copier, options):
    documents = [text.encode("utf-8", "ignore").decode() for text in CORPUS]
    ours = CountVectorizer(**options).fit(documents)
    for twin in (copier(ours), copier(copier(ours))):
        assert twin.vocabulary_ == ours.vocabulary_
        assert_same(twin.transform(documents), ours.transform(documents))
    assert not hasattr(clone(ours), "vocabulary_")
    assert copier(CountVectorizer()).get_params() == CountVectorizer().get_params()


def test_pipelines_and_searches(kernel):
    documents = [
        "buy gold now",
        "cheap gold",
        "buy cheap pills",
        "see you at lunch",
        "lunch today",
        "minutes of today",
    ] * 4
    y = [1, 1, 1, 0, 0, 0] * 4
    ours = make_pipeline(CountVectorizer(), TfidfTransformer(), LogisticRegression())
    theirs = make_pipeline(TheirCount(), TfidfTransformer(), LogisticRegression())
    np.testing.assert_array_equal(
        ours.fit(documents, y).predict_proba(documents), theirs.fit(documents, y).predict_proba(documents)
    )
    search = GridSearchCV(
        ours, {"countvectorizer__ngram_range": [(1, 1), (1, 2)], "countvectorizer__binary": [True]}, cv=2
    )
    assert search.fit(documents, y).score(documents, y) == 1.0
    assert ours.set_params(countvectorizer__analyzer="char")[0].analyzer == "char"
    params = CountVectorizer().get_params()
    assert set(params) - set(TheirCount().get_params()) == {"max_bytes", "n_jobs"}


def test_one_fitted_vectorizer_in_many_threads():
    documents = [f"w{i % 50} common é{i % 9}é" for i in range(1200)]
    ours = CountVectorizer().fit(documents)
    expected, failed = ours.transform(documents), []

    def work():
        for _ in range(5):
            if (ours.transform(documents) != expected).nnz:
                failed.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


# -------------------------------------------------------------------------------- scoring without a matrix


def score_matrix(X, representation, log_odds, prior):
    """The matrix route."""
    rows = csr_array(X)
    classes = np.atleast_2d(log_odds)
    scores = [
        csr_array((representation(rows, c), rows.indices, rows.indptr), rows.shape) @ lo for c, lo in enumerate(classes)
    ]
    return np.column_stack(scores) + prior if np.ndim(log_odds) > 1 else scores[0] + prior


WORDS = list(string.ascii_lowercase[:10])


@settings(max_examples=120)
@given(
    st.lists(st.lists(st.sampled_from(WORDS), max_size=15), min_size=1, max_size=5),
    representations,
    st.sampled_from([0, 1, 3]),
    st.sampled_from(["count", "binary count", "hashing", "slow"]),
    st.integers(0, 10**6),
)
def test_scores_are_those_of_the_matrix(rows, options, classes, route, seed):
    rng = np.random.default_rng(seed)
    documents = [" ".join(row) for row in rows]
    pattern = {"token_pattern": r"\w+"} if route != "slow" else {"token_pattern": r"[a-z]+"}
    vectorizer = CountVectorizer(vocabulary=WORDS[:8][::-1], binary=route == "binary count", **pattern)
    if route == "hashing":
        vectorizer = HashingVectorizer(n_features=8, norm=None, alternate_sign=False, **pattern)
    shape = (classes, 8) if classes else (8,)
    by_class = options["weighted"] == "by class"
    worth = rng.integers(0, 3, shape if by_class else 8).astype(float)
    norm = "l1" if options["steepness"] and options["norm"] is None else options["norm"]
    representation = Representation(
        tf=options["tf"],
        weights=None if options["weighted"] == "no" else worth + 0.5,
        ranking=places(worth),
        top=options["top"],
        steepness=options["steepness"],
        norm=norm,
        length=options["length"] if norm else 1.0,
        pad=options["pad"],
        keep=rng.random(8) < 0.7 if options["kept"] else None,
    )
    log_odds, prior = rng.normal(size=shape), rng.normal(size=shape[:-1])
    scorer = TextScorer.of(vectorizer, representation, log_odds, prior)
    expected = score_matrix(vectorizer.transform(documents), representation, log_odds, prior)
    for each in (scorer, pickle.loads(pickle.dumps(scorer))):
        np.testing.assert_allclose(each.decision_function(documents), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(scorer.score_one(documents[0]), expected[0], rtol=1e-12, atol=1e-12)


def test_scorer_ties_go_to_the_lower_column(kernel):
    vectorizer = CountVectorizer().fit(["bb aa cc dd"])
    scorer = TextScorer(vectorizer, [1.0, 10.0, 100.0, 1000.0], ranking=[1, 0, 1, 1], top=2)
    assert scorer.score_one("dd cc bb aa") == 11.0
    assert scorer.decision_function(["dd cc", "dd cc aa", ""]).tolist() == [1100.0, 101.0, 0.0]


def test_scorer_equals_scikit_learn_naive_bayes(kernel):
    y = np.array([0, 1, 0, 1, 0, 1, 0])
    vectorizer = CountVectorizer()
    model = MultinomialNB().fit(vectorizer.fit_transform(CORPUS), y)
    log_odds = model.feature_log_prob_[1] - model.feature_log_prob_[0]
    prior = model.class_log_prior_[1] - model.class_log_prior_[0]
    joint = model.predict_joint_log_proba(vectorizer.transform(CORPUS))
    np.testing.assert_allclose(
        TextScorer(vectorizer, log_odds, prior).decision_function(CORPUS), joint[:, 1] - joint[:, 0]
    )
    both = TextScorer(vectorizer, model.feature_log_prob_, model.class_log_prior_)
    np.testing.assert_allclose(both.decision_function(CORPUS), joint)


@pytest.mark.parametrize(
    ("vectorizer", "options", "says"),
    [
        (CountVectorizer(vocabulary=["aa", "bb"]), {"log_odds": [1.0]}, "one value for each of the 2 columns"),
        (CountVectorizer(vocabulary=["aa"]), {"log_odds": [1.0], "weights": [1.0, 2.0]}, "weights must have"),
        (CountVectorizer(vocabulary=["aa"]), {"log_odds": [1.0], "top": 3}, "top needs a ranking"),
        (CountVectorizer(vocabulary=["aa"]), {"log_odds": [1.0], "top": 0}, "at least 1"),
        (HashingVectorizer(n_features=2), {"log_odds": [1.0, 2.0]}, "norm must be None"),
        (HashingVectorizer(n_features=2, norm=None), {"log_odds": [1.0, 2.0], "tf": "log"}, "alternate_sign=False"),
    ],
)
def test_scorers_that_make_no_sense(vectorizer, options, says):
    with pytest.raises(ValueError, match=says):
        TextScorer(vectorizer, **options)


def test_signed_hashes_score_as_the_matrix_does(kernel):
    vectorizer = HashingVectorizer(n_features=4, norm=None)
    log_odds = np.array([1.0, 10.0, 100.0, 1000.0])
    documents = [text.encode("utf-8", "ignore").decode() for text in CORPUS]
    np.testing.assert_allclose(
        TextScorer(vectorizer, log_odds).decision_function(documents), vectorizer.transform(documents) @ log_odds
    )


# -------------------------------------------------------------------------------- views


def make_views(**options):
    return Views(
        [
            ("words", CountVectorizer()),
            ("pairs", CountVectorizer(ngram_range=(2, 2), binary=True)),
            ("own", CountVectorizer(tokenizer=str.split, token_pattern=None)),
            ("bytes", HashingVectorizer(analyzer="bytes", ngram_range=(3, 4), n_features=50, norm=None)),
        ],
        **options,
    )


@pytest.mark.parametrize("jobs", [None, 2])
def test_views_are_their_vectorizers_side_by_side(kernel, jobs):
    views = make_views(n_jobs=jobs)
    X = views.fit_transform(iter(CORPUS))
    for name, vectorizer in views.views:
        assert_same(type(X)(X[:, views.blocks_[name]]), vectorizer.fit_transform(CORPUS).astype(X.dtype))
    more = ["the fox", "unseen"]
    expected = [vectorizer.transform(more).toarray() for _, vectorizer in views.views]
    np.testing.assert_array_equal(views.transform(iter(more)).toarray(), np.hstack(expected))
    assert [rows.shape[0] for rows in views.transform_stream(iter(CORPUS), 3)] == [3, 3, 1]
    assert len(views.get_feature_names_out()) == X.shape[1]
    assert views.get_feature_names_out()[views.blocks_["pairs"]][0].startswith("pairs__")
    assert_same(pickle.loads(pickle.dumps(views)).transform(CORPUS), X)


def test_views_of_parts(kernel):
    class Mail:
        def __init__(self, subject, body):
            self.subject, self.body = subject, body

    mails = [Mail("gold", "buy it"), Mail("lunch", "see you")]
    views = Views(
        [
            ("subject", CountVectorizer(), "subject"),
            ("body", CountVectorizer(), lambda mail: mail.body),
        ]
    ).fit(mails)
    assert views.get_feature_names_out().tolist() == [
        "subject__gold",
        "subject__lunch",
        *(f"body__{w}" for w in ("buy", "it", "see", "you")),
    ]
    assert views.transform([Mail("gold gold", "")]).toarray().tolist() == [[2, 0, 0, 0, 0, 0]]
    as_dicts = Views([("subject", CountVectorizer(), "subject")]).fit([{"subject": "gold"}])
    assert as_dicts.transform([{"subject": "gold"}]).toarray().tolist() == [[1]]


def test_views_grow():
    views = Views([("words", CountVectorizer()), ("letters", CountVectorizer(analyzer="char"))])
    views.partial_fit(["dog"])
    assert views.blocks_ == {"words": slice(0, 1), "letters": slice(1, 4)}
    views.partial_fit(["cat"])
    assert views.blocks_ == {"words": slice(0, 2), "letters": slice(2, 8)}
    assert views.transform(["dog cat"]).shape == (1, 8)


def test_views_parameters():
    views = make_views()
    assert views.get_params()["pairs__ngram_range"] == (2, 2)
    views.set_params(words__lowercase=False)
    assert views.views[0][1].lowercase is False
    assert clone(views).get_params()["words__lowercase"] is False
    with pytest.raises(NotFittedError):
        views.transform(CORPUS)
    with pytest.raises(ValueError, match="distinct names"):
        Views([("a", CountVectorizer()), ("a", CountVectorizer())]).fit(CORPUS)


# -------------------------------------------------------------------------------- subclasses and tf-idf


def truncating(base, hook):
    """Make a subclass that overrides one hook, as the recipes for stemming do."""

    def build_tokenizer(self):
        tokens = base.build_tokenizer(self)
        return lambda text: [token[:3] for token in tokens(text)]

    def build_preprocessor(self):
        preprocess = base.build_preprocessor(self)
        return lambda text: preprocess(text).replace("fox", "cat")

    def build_analyzer(self):
        analyze = base.build_analyzer(self)
        return lambda document: [token[::-1] for token in analyze(document)]

    def decode(self, document):
        return base.decode(self, document) + " appended"

    def _word_ngrams(self, tokens, stop_words=None):
        return [*tokens, f"{len(tokens)} words"]

    def _char_ngrams(self, text):
        return list(text)

    return type("Truncating", (base,), {hook: locals()[hook]})


@pytest.mark.parametrize(
    "hook",
    ["build_tokenizer", "build_preprocessor", "build_analyzer", "decode", "_word_ngrams", "_char_ngrams"],
)
@pytest.mark.parametrize("ours", [CountVectorizer, HashingVectorizer, TfidfVectorizer])
def test_overridden_hooks_are_called_as_in_scikit_learn(ours, hook):
    options = {"analyzer": "char"} if hook == "_char_ngrams" else {}
    theirs = getattr(sklearn_text, ours.__name__)
    documents = ["The quick brown fox jumps", "over the lazy dogs", "a fox, again, quietly"]  # qui: quick, quietly
    rows = truncating(ours, hook)(**options).fit_transform(documents)
    want = truncating(theirs, hook)(**options).fit_transform(documents)
    assert abs(rows - want).max() < 1e-14
    plain = ours(**({"ngram_range": (2, 2)} if hook == "_char_ngrams" else {}), **options).fit_transform(documents)
    assert [rows.shape, *map(np.ndarray.tolist, (rows.indices, rows.data))] != [
        plain.shape,
        *map(np.ndarray.tolist, (plain.indices, plain.data)),
    ]


def test_a_hook_set_on_the_object_is_called():
    vectorizer = CountVectorizer()
    vectorizer.build_tokenizer = lambda: str.split
    assert "dog." in vectorizer.fit(["The dog."]).vocabulary_


@pytest.mark.parametrize("ours", [CountVectorizer, TfidfVectorizer])
def test_a_vocabulary_may_be_an_iterator(ours):
    vectorizer = ours(vocabulary=iter(["fox", "dog"])).fit(CORPUS)
    want = getattr(sklearn_text, ours.__name__)(vocabulary=iter(["fox", "dog"])).fit(CORPUS)
    np.testing.assert_allclose(vectorizer.transform(CORPUS).toarray(), want.transform(CORPUS).toarray(), rtol=1e-14)


@given(
    text_corpora,
    st.fixed_dictionaries(
        {
            "norm": st.sampled_from(["l1", "l2", None]),
            "use_idf": st.booleans(),
            "smooth_idf": st.booleans(),
            "sublinear_tf": st.booleans(),
            "binary": st.booleans(),
            "dtype": st.sampled_from([np.float64, np.float32]),
            "ngram_range": st.sampled_from([(1, 1), (1, 2)]),
            "analyzer": st.sampled_from(["word", "char", "char_wb"]),
        }
    ),
)
@settings(max_examples=25)
def test_tf_idf_is_scikit_learns(documents, options):
    theirs, ours = sklearn_text.TfidfVectorizer(**options), TfidfVectorizer(**options)
    try:
        want = theirs.fit_transform(documents)
    except ValueError as error:
        with pytest.raises(ValueError, match=str(error)[:20]):
            ours.fit_transform(documents)
        return
    rows = ours.fit_transform(documents)
    assert rows.dtype == want.dtype
    assert ours.vocabulary_ == theirs.vocabulary_
    # scikit-learn's fit_transform adds up a row in the order of its words, ours in that of its columns
    np.testing.assert_allclose(rows.toarray(), want.toarray(), rtol=1e-5 if options["dtype"] is np.float32 else 1e-14)
    np.testing.assert_array_equal(ours.transform(documents).toarray(), theirs.transform(documents).toarray())
    if options["use_idf"]:
        np.testing.assert_array_equal(ours.idf_, theirs.idf_)


def test_tf_idf_has_no_scorer_and_no_partial_fit():
    vectorizer = TfidfVectorizer(norm=None).fit(CORPUS)
    assert not hasattr(vectorizer, "partial_fit")
    with pytest.raises(ValueError, match="tf-idf"):
        TextScorer(vectorizer, np.ones(len(vectorizer.vocabulary_)))


# -------------------------------------------------------------------------------- real corpora

FILES = {
    "spamassassin": "raw",
    "news20_19997": "raw",
    "reuters21578": "text",
    "webkb": "raw",
    "movie_reviews_v2": "text",
    "enron_spam": "raw",
    "lingspam": "text",
    "sms_spam": "text",
    "klue_ynat_dacon_train": "text",
    "korean_news_1600": "text",
}


def check_corpus(folder, name, every):
    file = folder / f"{name}.parquet"
    if not file.exists():
        pytest.skip(f"no {file.name} in SUREBAYES_DATA")
    documents = list(read_parquet(file, FILES[name]))[::every]
    documents = [text.decode("latin-1") if isinstance(text, bytes) else text or "" for text in documents]
    for options in ({}, {"ngram_range": (1, 2), "stop_words": "english", "min_df": 2}):
        ours, theirs = CountVectorizer(**options), TheirCount(**options)
        assert_same(ours.fit_transform(documents), theirs.fit_transform(documents))
        assert ours.vocabulary_ == theirs.vocabulary_
    assert_same(HashingVectorizer().transform(documents), TheirHashing().transform(documents))


@pytest.mark.corpus
@pytest.mark.parametrize("name", FILES)
def test_a_sample_of_each_corpus(corpora_folder, name):
    check_corpus(corpora_folder, name, 61)


@pytest.mark.corpus
@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_whole_corpora(corpora_folder, name):
    check_corpus(corpora_folder, name, 1)
