"""GuaranteedThreshold around scikit-learn's meta-estimators, and the name of what was calibrated."""

import copy
import inspect
import pickle
import threading
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin, is_classifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.utils import all_estimators

from strategies import arrays
from surebayes.guarantees.guaranteed_threshold import GuaranteedThreshold, name_of

random = np.random.default_rng(0)
Y = random.random(400) < 0.5
X = random.normal(size=(400, 3)) + 2 * Y[:, None]

ARGUMENTS = {
    "estimator": LogisticRegression(),
    "base_estimator": LogisticRegression(),
    "estimators": [("linear", LogisticRegression()), ("normal", GaussianNB())],
    "steps": [("linear", LogisticRegression())],
    "param_grid": {"C": [0.1, 1.0]},
    "param_distributions": {"C": [0.1, 1.0]},
}
OPTIONS = {
    "FrozenEstimator": {"estimator": LogisticRegression().fit(X, Y)},
    "RandomizedSearchCV": {"n_iter": 2},
    "VotingClassifier": {"voting": "soft"},
}
WITHOUT_SCORES = {"OutputCodeClassifier"}
INDICATORS = {"ClassifierChain", "MultiOutputClassifier"}


def meta_estimators():
    """Return scikit-learn's classifiers around classifiers: whatever a classifier can be given to."""
    found = {}
    for name, made in [*all_estimators(), ("FrozenEstimator", FrozenEstimator)]:
        parameters = inspect.signature(made).parameters
        if parameters.keys() & {"estimator", "base_estimator", "estimators", "steps"}:
            given_ones = {key: value for key, value in ARGUMENTS.items() if key in parameters}
            estimator = made(**(given_ones | OPTIONS.get(name, {})))
            if is_classifier(estimator) and name not in WITHOUT_SCORES:
                found[name] = estimator
    return found


META = meta_estimators()


def test_all_of_them_are_tried():
    expected = {"GridSearchCV", "HalvingGridSearchCV", "RandomizedSearchCV", "Pipeline", "StackingClassifier"}
    assert expected | INDICATORS | {"VotingClassifier", "FrozenEstimator", "RFECV"} <= META.keys()


@pytest.mark.parametrize("name", META)
@pytest.mark.parametrize("prefit", [False, True])
@pytest.mark.filterwarnings("ignore")  # of scikit-learn's, about small data
def test_a_meta_estimator_is_calibrated_and_keeps_its_name(name, prefit):
    y = np.column_stack((Y, X[:, 0] > 1)).astype(int) if name in INDICATORS else Y
    inner = META[name].fit(X, y) if prefit else META[name]
    model = GuaranteedThreshold(inner, max_fpr=0.2, cv="prefit" if prefit else 0.4).fit(X, y)
    certificates = model.certificate_.values() if name in INDICATORS else [model.certificate_]
    for certificate in certificates:
        assert certificate.guaranteed
        assert certificate.model.startswith(f"{name}-")
        assert not certificate.model.endswith("unhashable")
    assert model.predict(X).shape == y.shape
    assert model.check_model()
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert again.check_model()


class Awkward(ClassifierMixin, BaseEstimator):
    """A classifier that holds something, and scores by the first column."""

    def __init__(self, held=None):
        self.held = held

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.held_ = self.held() if callable(self.held) else self.held
        return self

    def decision_function(self, X):
        return np.asarray(X)[:, 0]


class Refusing:
    """An object whose class refuses to be pickled."""

    def __init__(self, error):
        self.error = error

    def __deepcopy__(self, memo):
        return self

    def __reduce_ex__(self, protocol):
        raise self.error


def endless():
    held = []
    for _ in range(100_000):
        held = [held]
    return held


@pytest.mark.parametrize(
    "held",
    [*(Refusing(kind("no")) for kind in (ValueError, KeyError, NotImplementedError, RuntimeError, OSError)), endless,
     threading.Lock, lambda: (i for i in range(3))],
)  # fmt: skip
def test_a_name_never_loses_a_fit(held):
    model = GuaranteedThreshold(Awkward(held), max_fpr=0.2).fit(X, Y)
    assert model.certificate_.model == "Awkward-unhashable"
    assert model.predict(X).shape == Y.shape
    with pytest.raises(TypeError, match="can't be pickled"):
        model.check_model()


@settings(max_examples=60, deadline=None)
@given(array=arrays, seed=st.integers(0, 2**16))
def test_names_depend_on_values_alone(array, seed):
    """Views, orders, masks and copies of the same values have one name; other values have another."""
    once = name_of(array)
    assert once is not None
    assert name_of(pickle.loads(pickle.dumps(array))) == once
    if array.ndim and array.dtype.kind in "fi":
        wide = np.repeat(array, 2, axis=-1)[..., ::2]
        assert name_of(wide) == name_of(pickle.loads(pickle.dumps(wide)))
        masked = np.ma.MaskedArray(array, mask=np.random.default_rng(seed).random(array.shape) < 0.5)
        assert name_of(masked) == name_of(pickle.loads(pickle.dumps(masked))) is not None
        if array.size:
            other = array.copy()
            other.flat[0] = 0 if other.flat[0] else 1
            assert name_of(other) != once
            assert name_of(masked) != name_of(np.ma.MaskedArray(array, mask=~masked.mask))


def test_learning_changes_the_name():
    model = GaussianNB().fit(X, Y)
    before = name_of(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert name_of(model.partial_fit(X[:1], Y[:1])) != before
