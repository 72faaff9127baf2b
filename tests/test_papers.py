"""The reproductions: their machinery on small data, every row of the table of results on whole corpora (slow)."""

import json

import numpy as np
import pytest
from scipy.sparse import csr_array

from surebayes import papers
from surebayes.papers import __main__ as command
from surebayes.papers import frank_bouckaert, junejo_karim, kim_seo_rim, kolcz_chowdhury
from surebayes.papers._baselines import BalancedWinnow, TunedSVM, maximum_entropy
from surebayes.papers._cache import Cache, digest
from surebayes.papers._porter import stem
from surebayes.papers._rows import Counted, seen_columns
from surebayes.papers._text import Words


@pytest.fixture(scope="module")
def lab(corpora_folder, tmp_path_factory):
    return papers.Lab(corpora_folder, tmp_path_factory.mktemp("cache"))


# ---- text


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("caresses", "caress"), ("ponies", "poni"), ("cats", "cat"), ("feed", "feed"), ("agreed", "agre"),
        ("plastered", "plaster"), ("bled", "bled"), ("motoring", "motor"), ("sing", "sing"), ("conflated", "conflat"),
        ("troubled", "troubl"), ("sized", "size"), ("hopping", "hop"), ("falling", "fall"), ("hissing", "hiss"),
        ("filing", "file"), ("happy", "happi"), ("sky", "sky"), ("relational", "relat"), ("conditional", "condit"),
        ("rational", "ration"), ("digitizer", "digit"), ("triplicate", "triplic"), ("formative", "form"),
        ("revival", "reviv"), ("adjustment", "adjust"), ("adoption", "adopt"), ("probate", "probat"), ("rate", "rate"),
        ("cease", "ceas"), ("controll", "control"), ("roll", "roll"), ("is", "is"),
    ],
)  # fmt: skip
def test_porter_gives_the_examples_of_his_paper(word, expected):
    assert stem(word) == expected


def test_stems_add_up_their_words():
    X, terms = Words(r"[a-z]+", stems=True).count(["cat cats dog", "dogs"])
    assert terms == ["cat", "dog"]
    assert X.toarray().tolist() == [[2, 1], [0, 1]]
    assert X.indices.dtype == np.int32  # liblinear takes no other


def test_rare_words_are_those_of_the_training_rows():
    X, Z = seen_columns(csr_array([[1, 0, 3], [1, 0, 0]]), csr_array([[5, 6, 7]]), at_least=2)
    assert X.toarray().tolist() == [[1, 3], [1, 0]]
    assert Z.toarray().tolist() == [[5, 7]]


# ---- cache and lab

calls = []


def work(lab, value):
    calls.append(value)
    return {"square": value * value}


def test_results_are_kept_and_a_run_goes_on_where_it_stopped(tmp_path):
    calls.clear()
    lab = papers.Lab(cache=tmp_path)
    module = "papers._cache"
    work.__module__, own = f"surebayes.{module}", work.__module__  # a module whose source can be digested
    try:
        assert lab.map(work, [{"value": 2}], "") == [{"square": 4}]
        assert papers.Lab(cache=tmp_path).map(work, [{"value": 2}, {"value": 3}], "") == [{"square": 4}, {"square": 9}]
    finally:
        work.__module__ = own
    assert calls == [2, 3]


def test_a_torn_result_counts_as_none(tmp_path):
    cache, key = Cache(tmp_path), digest("x")
    cache.write(key, [1])
    next(tmp_path.rglob("*.json")).write_text("[1")
    assert cache.read(key) is None
    (next(tmp_path.rglob("*.json")).parent / f"{key}.npz").write_bytes(b"torn")
    assert cache.arrays(key, lambda: {"a": np.arange(2)})["a"].tolist() == [0, 1]


# ---- report


def test_json_has_the_fields_of_the_contract_and_no_nan():
    record = papers.Record("p", "table 2", "c", "r", "k", None, float("nan"), "s")
    (said,) = json.loads(papers.as_json([papers.Result("p", "table 2", "t", [record])]))
    assert list(said) == ["paper", "item", "corpus", "row", "column", "published", "ours", "setting"]
    assert said["ours"] is None


def test_files_are_written_and_drawn_alike_each_time(tmp_path):
    results = papers.reproduce("frank-bouckaert", "figure 1", papers.Lab(cache=tmp_path))
    for name in ("a", "b"):
        papers.write(results, tmp_path / name)
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == [
        "frank-bouckaert-figure-1.png", "frank-bouckaert-figure-1.svg", "results.csv", "results.json", "results.md",
    ]  # fmt: skip
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_missing_corpora_are_told_and_the_command_fails(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    arguments = ["kim-seo-rim", "--table", "2", "--data", str(tmp_path / "empty"), "--cache", str(tmp_path / "cache")]
    (result,) = papers.reproduce("kolcz-chowdhury", "figure 1", papers.Lab(tmp_path / "empty", tmp_path / "cache"))
    assert result.records == []
    assert command.main(arguments) == 1
    assert capsys.readouterr().err.strip()


def test_wrong_names_are_refused():
    with pytest.raises(ValueError, match="Did you mean 'kolcz-yih'"):
        papers.reproduce("kolcz-yhi")
    with pytest.raises(ValueError, match="has no 'table 9'"):
        papers.reproduce("kolcz-yih", "table 9")
    with pytest.raises(ValueError, match="no option 'runz'"):
        papers.reproduce("frank-bouckaert", "figure 2", runz=3)


def test_every_item_has_a_title_and_every_paper_its_items():
    for paper in papers.PAPERS:
        assert papers.title(paper)
        assert all(function.__doc__ for function in papers.items(paper).values())


# ---- baselines


def test_baselines_learn_what_can_be_learnt():
    random = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 40)
    X = random.poisson(np.where(np.arange(9)[None, :] // 3 == y[:, None], 3.0, 0.3))
    for model in (BalancedWinnow(), TunedSVM(), maximum_entropy(3)):
        assert (model.fit(X[::2], y[::2]).predict(X[1::2]) == y[1::2]).mean() > 0.9


def test_maximum_entropy_of_two_classes_is_that_of_two_vectors():
    random = np.random.default_rng(1)
    X, y = random.poisson(1.0, (60, 4)).astype(float), random.integers(0, 2, 60)
    both = maximum_entropy(2).set_params(tol=1e-10).fit(X, y)
    # one vector a class, each with prior variance 1: their difference w has |w|^2 / 4 as least penalty
    w, b = both.coef_[0], both.intercept_[0]

    def loss(v):
        return np.logaddexp(0, -(2 * y - 1) * (X @ v + b)).sum() + v @ v / 4

    assert all(loss(w) <= loss(w + step) for step in 1e-3 * np.vstack([np.eye(4), -np.eye(4)]))


# ---- small parts of the experiments


def test_balanced_winnow_minds_the_order_and_draws_come_class_by_class():
    train, test = junejo_karim.draw(np.repeat([0, 1], 10), 6, 4, 0)
    assert (np.diff(np.repeat([0, 1], 10)[train]) >= 0).all()
    assert not set(train) & set(test)


def test_cuts_give_no_document_to_a_class_never_learnt_and_floor_a_bad_one():
    scores = np.array([[0.0, 5.0], [0.0, 4.0], [0.0, 3.0], [0.0, 2.0], [0.0, 1.0], [0.0, 0.5], [0.0, 0.1]])
    labels = np.zeros((7, 2), bool)
    labels[[0, 6], [0, 1]] = True
    assert kim_seo_rim.cuts_of_best_f1(scores, labels).tolist() == [np.inf, 5.0]


def test_newton_counts_steps_to_the_crossing():
    class Line:
        def lift_and_slope(self, copies):
            return 2.0 * copies, np.full(len(copies), 2.0)

    assert kolcz_chowdhury.newton_steps(Line(), np.array([0.0, 3.0])).tolist() == [0, 1]


def test_strata_keep_rare_sets_of_labels_together():
    y = np.zeros((30, 2), bool)
    y[:10, 0], y[10:20, 1], y[29] = True, True, True
    data = Counted(csr_array((30, 1)), ["a", "b"], y, np.array([""] * 30), np.zeros(30, int))
    assert len(np.unique(frank_bouckaert._strata(data)[:10])) == 1


@pytest.mark.corpus
def test_every_paper_runs_on_a_part_of_its_corpora(lab):
    small = {
        "frank-bouckaert": ("figure 2", {"corpora": ["webkb"], "runs": 3, "documents": 800}),
        "kim-seo-rim": ("table 2", {"documents": 600}),
        "kolcz-chowdhury": ("table 2", {"corpora": ["reuters21578"], "features": 500, "documents": 600}),
        "kolcz-yih": (
            "table 2",
            {"corpora": ["spamassassin"], "rows": ["NB", "geo", "idf", "abs_idf", "SVM"], "sizes": [10, 50],
             "documents": 1200},
        ),
        "junejo-karim": ("table 2", {"sizes": [100], "runs": 2, "methods": ["DTWC-KL", "NB", "SVM"]}),
    }  # fmt: skip
    for paper, (item, options) in small.items():
        (result,) = papers.reproduce(paper, item, lab, **options)
        ours = [record.ours for record in result.records if record.ours is not None]
        assert ours
        assert np.isfinite(ours).all()
        if paper == "junejo-karim":
            assert result.value("Avg", "DTWC-KL") > 65
        if paper == "frank-bouckaert":
            assert result.value("MNB_PCN against MNB", "wins", "webkb") >= 3


# ---- the table of results, on whole corpora


@pytest.mark.slow
@pytest.mark.corpus
def test_frank_per_class_normalisation(lab):
    (result,) = papers.reproduce("frank-bouckaert", "figure 2", lab)
    row = "MNB_PCN against MNB"
    found = {c: [result.value(row, k, c) for k in ("wins", "losses")] for c in ("reuters21578", "webkb", "news20")}
    assert abs(found["reuters21578"][0] - 8) <= 1
    assert found["webkb"] == [4, 0]
    assert found["news20"] == [0, 20]
    assert result.value(row, "significant losses", "news20") >= 16


@pytest.mark.slow
@pytest.mark.corpus
def test_frank_centroids(lab):
    (result,) = papers.reproduce("frank-bouckaert", "figure 5", lab)
    row = "MNB_PCNmin against centroid"
    assert [result.value(row, k) for k in ("wins", "losses")] == [20, 0]
    assert result.value(row, "significant wins") >= 17
    (result,) = papers.reproduce("frank-bouckaert", "figure 4", lab)
    for corpus in ("reuters21578", "webkb", "news20"):
        assert result.value("centroid L1 against MNB_PCN", "largest difference of AUC", corpus) < 1e-4


@pytest.mark.slow
@pytest.mark.corpus
def test_kim_table_4(lab):
    (result,) = papers.reproduce("kim-seo-rim", "table 4", lab)
    for name, (micro, macro) in kim_seo_rim.TABLE_4.items():
        assert abs(result.value(name, "MicroF1") - micro) <= 0.015, name
        assert abs(result.value(name, "MacroF1") - macro) <= 0.045, name
    order = ["UM", "PNB", "PNB-IG", "PNB-CHI", "PNB-PrR", "PNB*"]
    assert sorted(order, key=lambda name: result.value(name, "MicroF1")) == order


@pytest.mark.slow
@pytest.mark.corpus
def test_kim_table_4_swaps_but_one_pair_by_macro_f1(lab):
    """In print PNB-PrR is .010 above PNB-IG by MacroF1; no reading of the text that was tried gives that."""
    (result,) = papers.reproduce("kim-seo-rim", "table 4", lab)
    printed_order = sorted(kim_seo_rim.TABLE_4, key=lambda name: kim_seo_rim.TABLE_4[name][1])
    ours = sorted(printed_order, key=lambda name: result.value(name, "MacroF1"))
    swapped = ["PNB-PrR" if name == "PNB-IG" else "PNB-IG" if name == "PNB-PrR" else name for name in printed_order]
    assert ours in (printed_order, swapped)


@pytest.fixture(scope="module")
def movie_averages(lab):
    (result,) = papers.reproduce("junejo-karim", "table 2", lab)
    return {name: result.value("Avg", name) for name in junejo_karim.METHODS}


def printed(name):
    return junejo_karim.TABLE_2["Avg"][junejo_karim.METHODS.index(name)]


@pytest.mark.slow
@pytest.mark.corpus
def test_junejo_movie_reviews(movie_averages):
    for name in junejo_karim.METHODS:
        assert abs(movie_averages[name] - printed(name)) <= 1.0, name
    assert max(movie_averages, key=movie_averages.__getitem__) == "DTWC-KL"
    assert min(movie_averages, key=movie_averages.__getitem__) == "BW"


@pytest.mark.slow
@pytest.mark.corpus
def test_junejo_four_classes(lab):
    (result,) = papers.reproduce("junejo-karim", "table 3", lab)
    found = {name: result.value("Avg", name, "news20") for name in junejo_karim.METHODS}
    assert found["DTWC-O"] > found["NB"] > max(found["DTWC-LO"], found["SVM"])
    assert min(found["DTWC-LO"], found["SVM"]) > found["DTWC-KL"] > found["BW"]


@pytest.mark.slow
@pytest.mark.corpus
def test_chowdhury_table_2(lab):
    (result,) = papers.reproduce("kolcz-chowdhury", "table 2", lab)
    for corpus, allowed in (("reuters21578", 0.03), ("news20", 0.06)):
        for column in ("NB", "NB-KL"):
            value = result.value(kolcz_chowdhury.NAMES[corpus], column)
            assert abs(value - kolcz_chowdhury.PUBLISHED[corpus][column]) <= allowed
    assert result.value("Reuters-21578", "NB-KL") - result.value("Reuters-21578", "NB") >= 0.15
    for seed in kolcz_chowdhury.SEEDS:
        row = f"20 Newsgroups, seed {seed}"
        assert result.value(row, "NB-KL") > result.value(row, "NB")


@pytest.mark.slow
@pytest.mark.corpus
def test_kolcz_yih_findings_hold_or_are_told(lab):
    rows = ["NB", "NB-IR", "geo", "idf", "abs", "abs_idf"]
    (result,) = papers.reproduce("kolcz-yih", "table 2", lab, rows=rows)
    told = " ".join(result.notes)
    for corpus in ("spamassassin", "enron_spam"):
        abs_idf, idf, geo = (result.value(row, "all features", corpus) for row in ("abs_idf", "idf", "geo"))
        holds = abs_idf > idf > geo
        assert (f"{corpus}: abs_idf {abs_idf:.4f}, idf {idf:.4f}, geo {geo:.4f}: the paper's order" in told) == holds
        assert f"{corpus}: DSFS lifts" in told
        assert f"{corpus}: the best N for NB is" in told
    lift = {
        row: result.value(row, "DSFS", "enron_spam") - result.value(row, "all features", "enron_spam") for row in rows
    }
    assert max(lift, key=lift.__getitem__) == "NB"
