"""The classifiers inside scikit-learn: everything that people plug them into."""

import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.sparse import csr_matrix
from sklearn.calibration import CalibratedClassifierCV
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.multioutput import ClassifierChain
from sklearn.pipeline import make_pipeline

import surebayes as sb
from surebayes import synthetic
from variants import SETTINGS as ESTIMATORS


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_tags(estimator):
    tags = sklearn.utils.get_tags(estimator)
    assert tags.input_tags.sparse
    assert tags.input_tags.positive_only is not isinstance(estimator, sb.BernoulliNB)
    if tags.classifier_tags is not None:
        joint = getattr(estimator, "contrast", "joint" if hasattr(estimator, "alpha") else "rest") == "joint"
        assert tags.classifier_tags.multi_label is not joint


@pytest.fixture(scope="module")
def mails():
    stream = list(synthetic.mail_stream(160, seed=3))
    return [mail.raw.decode("latin-1") for mail in stream], np.array([mail.label for mail in stream])


def test_in_a_pipeline_and_a_grid(mails):
    texts, y = mails
    pipeline = make_pipeline(CountVectorizer(), sb.OpinionPoolNB())
    grid = GridSearchCV(
        pipeline, {"opinionpoolnb__top": [None, 25], "opinionpoolnb__smoothing": [0.01, 1.0]}, cv=3, n_jobs=1
    )
    assert grid.fit(texts, y).best_score_ > 0.75
    assert len(cross_val_predict(pipeline, texts, y, cv=3, method="decision_function")) == len(y)
    weighted = make_pipeline(CountVectorizer(), sb.TermWeighting(top=50, norm="l2"), LogisticRegression())
    assert cross_val_score(weighted, texts, y, cv=3).mean() > 0.75


def test_calibrated(mails):
    texts, y = mails
    X = CountVectorizer().fit_transform(texts)
    calibrated = CalibratedClassifierCV(sb.DecisionReversalNB(), cv=3).fit(X, y)
    p = calibrated.predict_proba(X)
    assert ((p > 0) & (p < 1)).all()
    spam = p[:, list(calibrated.classes_).index("spam")]
    assert abs(spam.mean() - (y == "spam").mean()) < 0.05  # calibrated: probabilities add up to the number of spam
    assert (calibrated.predict(X) == y).mean() > 0.9


def test_in_a_chain_of_labels():
    generator = np.random.default_rng(0)
    X = generator.poisson(1.0, (40, 12))
    Y = (X[:, :3] > 0).astype(int)
    chain = ClassifierChain(sb.OpinionPoolNB(weight="abs")).fit(X, Y)
    earlier = X
    for k in range(3):  # each link sees the labels before it as columns
        np.testing.assert_array_equal(
            chain.estimators_[k].statistics_.mass.at(),
            sb.OpinionPoolNB(weight="abs").fit(earlier, Y[:, k]).statistics_.mass.at(),
        )
        earlier = np.hstack([earlier, Y[:, [k]]])
    assert (chain.predict(X) == Y).mean() > 0.75


def test_sample_weights_are_routed(mails):
    texts, y = mails
    X = CountVectorizer().fit_transform(texts)
    weight = np.where(y == "spam", 3.0, 1.0)
    with sklearn.config_context(enable_metadata_routing=True):
        grid = GridSearchCV(
            sb.MultinomialNB(contrast="rest").set_fit_request(sample_weight=True).set_score_request(sample_weight=True),
            {"smoothing": [0.1, 1.0]},
            cv=3,
        )
        grid.fit(X, y, sample_weight=weight)
    alone = sb.MultinomialNB(contrast="rest", **grid.best_params_).fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(grid.decision_function(X), alone.decision_function(X))


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_frames_names_and_joblib(estimator, tmp_path):
    generator = np.random.default_rng(1)
    X = pd.DataFrame(generator.poisson(1.0, (30, 5)), columns=list("abcde"))
    y = generator.integers(0, 2, 30)
    fitted = sklearn.base.clone(estimator).fit(X, y)
    assert list(fitted.feature_names_in_) == list("abcde")
    call = fitted.transform if hasattr(fitted, "transform") else fitted.decision_function
    with pytest.raises(ValueError, match="feature names"):
        call(X.rename(columns={"a": "z"}))
    joblib.dump(fitted, tmp_path / "model")
    again = joblib.load(tmp_path / "model")
    same = again.transform if hasattr(again, "transform") else again.decision_function
    left, right = call(X), same(X)
    np.testing.assert_array_equal(
        left.toarray() if hasattr(left, "toarray") else left, right.toarray() if hasattr(right, "toarray") else right
    )
    dense, sparse = call(X), None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a sparse matrix has no column names
        sparse = call(csr_matrix(X.to_numpy()))
    np.testing.assert_array_equal(
        dense.toarray() if hasattr(dense, "toarray") else dense,
        sparse.toarray() if hasattr(sparse, "toarray") else sparse,
    )
