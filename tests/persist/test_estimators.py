"""Saved estimators: same scores, same bytes, exact learning on; and files that are not what they should be."""

import json
import os
import pickle
import random

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, Pipeline

import surebayes as sb
from surebayes.errors import BadModel, NewerModel, NoModel
from surebayes.persist import estimators, folder
from surebayes.persist.manifest import READS, seal

random_state = np.random.default_rng(7)
X = csr_array(random_state.poisson(0.4, size=(60, 30)))
Y2 = np.array(["ham", "spam"])[random_state.integers(0, 2, 60)]
Y3 = random_state.integers(0, 3, 60)
INDICATOR = (random_state.random((60, 3)) < 0.4).astype(int)
TEXTS = [" ".join(random_state.choice(["gold", "lunch", "Größe", "mine", "now", "you"], 6)) for _ in range(60)]
MAILS = [f"Subject: {text}\n\n{text}\n" for text in TEXTS]

CLASSIFIERS = [
    sb.MultinomialNB(),
    sb.MultinomialNB(weight="idf", norm="l2", contrast="rest", prior=[0.25, 0.75]),
    sb.MultinomialNB(weight=("idf", "chi2"), top=(5, "ig"), norm="l1", scale="mean", contrast="rest"),
    sb.OpinionPoolNB(),
    sb.OpinionPoolNB(top=7, steepness=0.1, stages=3),
    sb.OpinionPoolNB(weighting="scoring", weight="abs"),
    sb.PoissonNB(weight="auto", interpolation="auto"),
    sb.ClassNormalizedNB(length="cv"),
    sb.CentroidClassifier(),
    sb.TermDiscriminant(fit_bias=True),
    sb.DecisionReversalNB(features=10, discount="inverse", gamma="auto"),
    sb.DecisionReversalNB(sb.OpinionPoolNB()),
]


def files_of(folder):
    return {name: (folder / name).read_bytes() for name in sorted(os.listdir(folder)) if name != "lock"}


def can_learn(classifier, y):
    if y is not Y2 and isinstance(getattr(classifier, "prior", None), list):  # priors of two classes
        return False
    return y is not INDICATOR or getattr(classifier, "contrast", None) != "joint"


@pytest.mark.parametrize(
    ("classifier", "y"),
    [(c, y) for c in CLASSIFIERS for y in (Y2, Y3, INDICATOR) if can_learn(c, y)],
    ids=lambda v: repr(v)[:60] if hasattr(v, "fit") else "",
)
def test_a_classifier_comes_back_whole(classifier, y, tmp_path):
    classifier.fit(X, y)
    sb.save(classifier, tmp_path / "m")
    again = sb.load(tmp_path / "m")
    assert np.array_equal(again.decision_function(X), classifier.decision_function(X))
    assert again.get_params().keys() == classifier.get_params().keys()
    assert repr(again) == repr(classifier)
    assert again.statistics_ == classifier.statistics_
    again.partial_fit(X[:9], y[:9]).forget(X[:9], y[:9])
    sb.save(again, tmp_path / "n")
    assert files_of(tmp_path / "n") == files_of(tmp_path / "m")
    classifier.merge(again)  # equal in all that merging asks for


def test_learning_on_does_not_change_the_files(tmp_path):
    nb = sb.MultinomialNB().fit(X, Y2)
    sb.save(nb, tmp_path / "m")
    before = files_of(tmp_path / "m")
    learner, two = sb.load(tmp_path / "m"), sb.load(tmp_path / "m")
    learner.partial_fit(X, Y2)
    assert files_of(tmp_path / "m") == before
    assert np.array_equal(two.decision_function(X), nb.decision_function(X))
    assert np.array_equal(learner.decision_function(X), nb.partial_fit(X, Y2).decision_function(X))


@pytest.mark.parametrize(
    "vectorizer",
    [
        sb.CountVectorizer(),
        sb.CountVectorizer(min_df=2, ngram_range=(1, 2), stop_words=["you"], dtype=np.float32),
        sb.CountVectorizer(analyzer="bytes", ngram_range=(2, 3)),
        sb.CountVectorizer(analyzer="char_wb", ngram_range=(2, 3)),
        sb.CountVectorizer(vocabulary={"gold": 1, "lunch": 0}),
        sb.CountVectorizer(token_pattern=r"[a-z]+"),
        sb.HashingVectorizer(n_features=64, norm=None),
    ],
    ids=lambda v: repr(v)[:60],
)
def test_a_vectorizer_comes_back_whole(vectorizer, tmp_path):
    rows = vectorizer.fit_transform(TEXTS)
    sb.save(vectorizer, tmp_path / "v")
    again = sb.load(tmp_path / "v")
    assert (again.transform(TEXTS) != rows).nnz == 0
    assert again.transform(TEXTS).dtype == rows.dtype
    if isinstance(vectorizer, sb.CountVectorizer):
        assert again.vocabulary_ == vectorizer.vocabulary_
        assert again.get_feature_names_out().tolist() == vectorizer.get_feature_names_out().tolist()


def test_pipelines_unions_weightings_and_thresholds(tmp_path):
    union = FeatureUnion(
        [
            ("words", sb.CountVectorizer()),
            ("hashed", sb.HashingVectorizer(norm=None, n_features=32, alternate_sign=False)),
        ]
    )
    pipeline = Pipeline(
        [("rows", union), ("weigh", sb.TermWeighting(weight="abs")), ("nb", sb.OpinionPoolNB(weight="uniform"))]
    )
    pipeline.fit(TEXTS, Y2)
    sb.save(pipeline, tmp_path / "p")
    assert np.array_equal(sb.load(tmp_path / "p").decision_function(TEXTS), pipeline.decision_function(TEXTS))
    sure = sb.GuaranteedThreshold(sb.MultinomialNB(), max_fpr=0.3, cv=0.5).fit(X, Y2)
    sb.save(sure, tmp_path / "s")
    again = sb.load(tmp_path / "s")
    assert again.certificate_ == sure.certificate_
    assert np.array_equal(again.predict(X), sure.predict(X))
    assert np.array_equal(again.predict_proba(X), sure.predict_proba(X))


@pytest.mark.parametrize("views", ["mail", "text", "given"])
def test_a_pool_comes_back_whole(views, tmp_path):
    if views == "given":
        views = [("words", sb.CountVectorizer(), sb.OpinionPoolNB()), ("nb", sb.CountVectorizer(), sb.MultinomialNB())]
    documents = MAILS if views == "mail" else TEXTS
    pool = sb.ViewPool(views=views, n_features=2**12).fit(documents, Y2)
    sb.save(pool, tmp_path / "p")
    again = sb.load(tmp_path / "p")
    assert np.array_equal(again.decision_function(documents), pool.decision_function(documents))
    for learner in (pool, again):
        learner.partial_fit(documents[:1], ["spam"]).forget(documents[:1], ["spam"])
    assert np.array_equal(again.decision_function(documents), pool.decision_function(documents))


def test_a_tuned_classifier_comes_back_whole(tmp_path):
    tuned = sb.TunedNB(budget=3).fit(X, Y2)
    sb.save(tuned, tmp_path / "t")
    again = sb.load(tmp_path / "t")
    assert np.array_equal(again.decision_function(X), tuned.decision_function(X))
    assert repr(again.results_) == repr(tuned.results_)


def test_what_can_not_be_saved_is_said(tmp_path):
    with pytest.raises(TypeError, match="LogisticRegression"):
        sb.save(LogisticRegression(), tmp_path / "m")
    with pytest.raises(TypeError, match=r"tokenizer is a function"):
        sb.save(sb.CountVectorizer(tokenizer=str.split, token_pattern=None).fit(TEXTS), tmp_path / "m")
    with pytest.raises(TypeError, match="an estimator of surebayes"):
        sb.save([1, 2], tmp_path / "m")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("precious")
    with pytest.raises(FileExistsError, match="other files"):
        sb.save(sb.MultinomialNB().fit(X, Y2), tmp_path / "other")
    assert not (tmp_path / "m").exists()


def test_saving_again_replaces_and_leaves_nothing_behind(tmp_path):
    sb.save(sb.MultinomialNB().fit(X, Y2), tmp_path / "m")
    sb.save(sb.MultinomialNB().fit(X, Y3), tmp_path / "m")
    assert len(files_of(tmp_path / "m")) == 2
    assert sb.load(tmp_path / "m").classes_.tolist() == [0, 1, 2]


def test_no_space_left_keeps_the_old_model(tmp_path, monkeypatch):
    sb.save(sb.MultinomialNB().fit(X, Y2), tmp_path / "m")
    before = files_of(tmp_path / "m")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        sb.save(sb.MultinomialNB().fit(X, Y3), tmp_path / "m")
    monkeypatch.undo()
    assert files_of(tmp_path / "m") == before


# ---- files that are not what they should be


def saved(folder):
    sb.save(sb.OpinionPoolNB().fit(X, Y2), folder)
    (arrays,) = [name for name in os.listdir(folder) if name.endswith(".safetensors")]
    return folder / "manifest.json", folder / arrays


def rewrite(manifest, change):
    body = json.loads(manifest.read_bytes())
    body.pop("crc32")
    change(body)
    manifest.write_bytes(seal(json.dumps(body, indent=1).encode()))


def test_missing_foreign_and_newer(tmp_path):
    with pytest.raises(NoModel, match="No model"):
        sb.load(tmp_path / "nowhere")
    manifest, arrays = saved(tmp_path / "m")
    rewrite(manifest, lambda body: body.update(version=99))
    with pytest.raises(NewerModel, match="Upgrade surebayes"):
        sb.load(tmp_path / "m")
    rewrite(manifest, lambda body: body.update(version=1, format="other"))
    with pytest.raises(BadModel, match="format 'other'"):
        sb.load(tmp_path / "m")
    rewrite(manifest, lambda body: body.update(format="surebayes", kind="filter"))
    with pytest.raises(BadModel, match="'filter'"):
        sb.load(tmp_path / "m")
    manifest.write_bytes(b"{}")
    with pytest.raises(BadModel, match="checksum"):
        sb.load(tmp_path / "m")
    arrays.unlink()
    with pytest.raises(BadModel):
        sb.load(tmp_path / "m")


class Bomb:
    fired = False

    def __reduce__(self):
        return setattr, (Bomb, "fired", True)


def test_nothing_that_is_read_is_run(tmp_path):
    manifest, arrays = saved(tmp_path / "m")
    arrays.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(BadModel):
        sb.load(tmp_path / "m")
    for path in ("../m/x.safetensors", "/etc/passwd", ".hidden", ""):
        saved(tmp_path / "m")
        rewrite(manifest, lambda body, path=path: body["files"]["arrays"].update(file=path))
        with pytest.raises(BadModel):
            sb.load(tmp_path / "m")
    for estimator in (
        {"$estimator": "system", "state": {}},
        {"$estimator": "Pipeline", "state": {"fit": "x"}},
        {"$estimator": "MultinomialNB", "state": {"__class__": "x"}},
        {"$record": "Path", "fields": {}},
        {"$reader": 1},
        {"$array": "nothing"},
        {"$dtype": "O", "scalar": True},
    ):
        saved(tmp_path / "m")
        rewrite(manifest, lambda body, estimator=estimator: body.update(estimator=estimator))
        with pytest.raises(BadModel):
            sb.load(tmp_path / "m")
    assert not Bomb.fired


def test_consistent_checksums_do_not_hide_inconsistent_arrays(tmp_path):
    nb = sb.OpinionPoolNB().fit(X, Y2)
    nb.statistics_.mass.values[0, 0] = -1
    sb.save(nb, tmp_path / "m")
    with pytest.raises(BadModel, match="below zero"):
        sb.load(tmp_path / "m")
    nb = sb.OpinionPoolNB().fit(X, Y2)
    nb.n_features_in_ = 29
    sb.save(nb, tmp_path / "m")
    with pytest.raises(BadModel):
        sb.load(tmp_path / "m")


def test_every_flipped_bit_and_every_cut_is_noticed(tmp_path):
    files = saved(tmp_path / "m")
    originals = [path.read_bytes() for path in files]
    dice = random.Random(1)
    for _ in range(150):
        which = dice.randrange(2)
        content = bytearray(originals[which])
        if dice.random() < 0.3:
            del content[dice.randrange(len(content)) :]
        else:
            content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
        files[which].write_bytes(content)
        with pytest.raises(BadModel):
            sb.load(tmp_path / "m")
        files[which].write_bytes(originals[which])
    sb.load(tmp_path / "m")


@pytest.mark.parametrize("replaced", [0, 1, READS - 1, READS])
def test_a_model_that_is_replaced_while_it_is_read_is_read_again(tmp_path, monkeypatch, replaced):
    models = [sb.MultinomialNB(smoothing=1.0 + i).fit([[2 + i, 0], [0, 1]], [0, 1]) for i in range(READS + 1)]
    sb.save(models[0], tmp_path / "m")
    turns, whole = iter(models[1 : replaced + 1]), estimators.read_arrays

    def read(folder, entry):
        for model in turns:  # a writer comes between the manifest and its files
            sb.save(model, tmp_path / "m")
            break
        return whole(folder, entry)

    monkeypatch.setattr(estimators, "read_arrays", read)
    if replaced < READS:
        assert sb.load(tmp_path / "m").smoothing == 1.0 + replaced
    else:
        with pytest.raises((BadModel, FileNotFoundError)):
            sb.load(tmp_path / "m")


def test_files_that_are_missing_are_not_looked_for_again(tmp_path, monkeypatch):
    sb.save(sb.MultinomialNB().fit([[2, 0], [0, 1]], [0, 1]), tmp_path / "m")
    calls = []
    monkeypatch.setattr(estimators, "read_arrays", lambda *_: calls.append(1) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        sb.load(tmp_path / "m")
    monkeypatch.undo()
    for file in (tmp_path / "m").glob("*.safetensors"):
        file.unlink()
    monkeypatch.setattr(estimators, "read_arrays", lambda *a: calls.append(1) or folder.read_arrays(*a))
    with pytest.raises(BadModel):
        sb.load(tmp_path / "m")
    assert len(calls) == 2
