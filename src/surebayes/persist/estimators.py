"""Storage of fitted estimators without pickle: `save` writes a folder, and `load` reads it without executing code.

A folder contains ``manifest.json`` (class, parameters and fitted attributes) and one file of arrays in the safetensors
format. Loading builds only the classes named in this module, and verifies the size and SHA-256 of every file.
docs/format.md has the details and the version policy.
"""

from __future__ import annotations

import importlib
import math
import os
import warnings
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from surebayes.classifiers.parameters import check_top, check_weight
from surebayes.errors import BadModel, StoreError
from surebayes.persist.folder import locked, put_manifest, read_arrays, remove_others, write_arrays
from surebayes.persist.manifest import NAME, read_manifest, stable_read

__all__ = ["load", "save"]

KIND = "estimator"
_OLD = "was saved by an early release whose format is no longer read: fit it again"

# serializable classes by their names in the manifest: estimators have parameters and attributes, ...
_ESTIMATORS = {
    **dict.fromkeys(
        (
            "MultinomialNB", "ComplementNB", "BernoulliNB", "OpinionPoolNB", "ClassNormalizedNB", "CentroidClassifier",
            "PoissonNB", "TermDiscriminant", "DecisionReversalNB", "TunedNB", "ViewPool", "GuaranteedThreshold",
            "BudgetedThreshold", "TermWeighting",
            "CountVectorizer", "HashingVectorizer", "TfidfVectorizer", "Views",
        ),
        "surebayes",
    ),
    "Pipeline": "sklearn.pipeline", "FeatureUnion": "sklearn.pipeline",
}  # fmt: skip
# ... scikit-learn's estimators that are used with ours in pipelines, by their full names
_OF_SCIKIT_LEARN = {
    f"{module}.{name}": module
    for module, names in {
        "sklearn.feature_extraction.text": (
            "CountVectorizer", "HashingVectorizer", "TfidfVectorizer", "TfidfTransformer",
        ),
        "sklearn.linear_model": (
            "LogisticRegression", "SGDClassifier", "RidgeClassifier", "Perceptron", "PassiveAggressiveClassifier",
        ),
        "sklearn.svm": ("LinearSVC",),
        "sklearn.naive_bayes": ("MultinomialNB", "ComplementNB", "BernoulliNB"),
        "sklearn.multiclass": ("OneVsRestClassifier",),
        "sklearn.preprocessing": ("LabelBinarizer", "Normalizer", "MaxAbsScaler"),
    }.items()
    for name in names
}  # fmt: skip
# ... records are dataclasses
_RECORDS = {
    "Representation": "surebayes.core.represent",
    "Statistics": "surebayes.core.statistics",
    "Certificate": "surebayes.guarantees.certificate",
    "ProbabilityMap": "surebayes.guarantees.calibration",
    "Interval": "surebayes.metrics.significance",
}
# ... and the parts of a pool are plain objects
_PARTS = {
    "Engine": "surebayes.pool.engine",
    "GivenEngine": "surebayes.pool.given_views",
    "GivenView": "surebayes.pool.given_views",
    "PoolWeights": "surebayes.pool.weights",
    "AlarmBudget": "surebayes.guarantees.budget",
    "PrequentialThreshold": "surebayes.guarantees.prequential",
}
_DEPTH = 100


def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator or pipeline to a folder, atomically: readers see either the old or the new one.

    Parameters
    ----------
    estimator : object
        An estimator of surebayes, or a scikit-learn Pipeline or FeatureUnion of them.
    path : path
        The folder; created if necessary. It must not have any other content.

    Examples
    --------
    >>> import tempfile, surebayes as sb
    >>> nb = sb.MultinomialNB().fit([[2, 1, 0], [0, 1, 1]], ["spam", "ham"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sb.save(nb, folder)
    ...     sb.load(folder).predict([[1, 0, 0]]).tolist()
    ['spam']
    """
    writer = _Writer()
    described = writer.describe(estimator, type(estimator).__name__)
    if not isinstance(described, dict) or "$estimator" not in described:
        raise TypeError(f"save needs an estimator of surebayes. Got {type(estimator).__name__} instead.")
    folder = os.fspath(path)
    _check_content(folder)
    os.makedirs(folder, exist_ok=True)
    with locked(folder):
        entry = write_arrays(folder, "arrays", writer.arrays)
        put_manifest(folder, KIND, {"estimator": described, "files": {"arrays": entry}})
        remove_others(folder, [entry["file"]])


def _check_content(folder: str) -> None:
    if not os.path.isdir(folder) or not set(os.listdir(folder)) - {"lock"}:
        return
    if not os.path.exists(os.path.join(folder, NAME)):
        raise FileExistsError(f"{folder!r} contains other files. Save into a new or empty folder.")
    read_manifest(folder, KIND)


def load(path: str | os.PathLike[str]) -> Any:
    """Load an estimator from a folder written by `save`.

    Parameters
    ----------
    path : path
        The folder.

    Returns
    -------
    object
        The estimator. It computes the same scores, and learns further, as if it had never been saved.

    Raises
    ------
    surebayes.StoreError
        NoModel if the folder has no model, BadModel (a ValueError) if the model is damaged or not one of surebayes,
        and NewerModel if a later release wrote it.
    """
    folder = os.fspath(path)
    manifest, arrays = stable_read(lambda: read_manifest(folder, KIND), lambda found: (found, _arrays(folder, found)))
    described = manifest.get("estimator")
    if not isinstance(described, dict) or "$estimator" not in described:
        raise BadModel(f"The manifest in {folder!r} does not describe an estimator.")
    try:
        estimator = _Builder(arrays).build(described)
        use_once(estimator)
        return estimator
    except StoreError:
        raise
    except Exception as error:  # inconsistent content raises arbitrary errors in the classes being built
        why = _OLD if "HashedView" in str(error) else f"doesn't fit together: {error!r}"
        raise BadModel(f"The model in {folder!r} {why}") from error


def _arrays(folder: str, manifest: dict[str, Any]) -> dict[str, np.ndarray]:
    return read_arrays(folder, (manifest.get("files") or {}).get("arrays"))


class _Writer:
    """Converter of objects to JSON, with separate arrays."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}

    def describe(self, value: Any, where: str, depth: int = 0) -> Any:
        """Return the JSON of a value; raise TypeError, with its location, if it can't be saved."""
        if depth > _DEPTH:
            raise TypeError(f"{where} is nested too deeply to be saved.")
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, (np.integer, np.floating, np.bool_)):
            plain = int(value) if isinstance(value, np.integer) else _float(float(value))
            return {"$number": [value.dtype.str, plain]}
        if isinstance(value, (int, float)):
            return int(value) if isinstance(value, int) else _float(value)
        if isinstance(value, (list, tuple, dict, slice)) and type(value) in _CONTAINERS:
            return self._container(value, where, depth + 1)
        if isinstance(value, np.ndarray):
            return self._array(value, where)
        if isinstance(value, csr_array):
            parts = (value.data, value.indices, value.indptr)
            return {"$rows": [self._array(part, where) for part in parts], "shape": [int(n) for n in value.shape]}
        return self._object(value, where, depth + 1)

    def _container(self, value: Any, where: str, depth: int) -> Any:
        def each(items: Any) -> list[Any]:
            return [self.describe(item, f"{where}[{i}]", depth) for i, item in enumerate(items)]

        if isinstance(value, list):
            return each(value)
        if isinstance(value, tuple):
            return {"$tuple": each(value)}
        if isinstance(value, slice):
            return {"$slice": each([value.start, value.stop, value.step])}
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: self.describe(item, f"{where}[{key!r}]", depth) for key, item in value.items()}
        return {"$dict": [[self.describe(key, where, depth), self.describe(value[key], where, depth)] for key in value]}

    def _array(self, array: np.ndarray, where: str) -> Any:
        if array.dtype.kind in "biuf" and array.dtype.itemsize <= 8:
            name = f"a{len(self.arrays)}"
            self.arrays[name] = array.astype(array.dtype.newbyteorder("<"), copy=False)
            return {"$array": name}
        if array.dtype.kind == "U" or (array.dtype.kind == "O" and all(isinstance(item, str) for item in array.flat)):
            return {"$text": array.dtype.kind, "shape": list(array.shape), "items": [str(item) for item in array.flat]}
        raise TypeError(f"{where} is an array of {array.dtype}. Only numbers and text can be saved.")

    def _object(self, value: Any, where: str, depth: int) -> Any:
        name, module = type(value).__name__, type(value).__module__
        if name == "ExactSums" and module == "surebayes.core.sums":
            return {"$sums": self.describe(value.values, where, depth), "bits": value.bits}
        if name == "Holder" and module == "surebayes.classifiers.holder":
            return {"$empty": "estimate"}  # rebuilt from the sums on demand
        if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
            return {"$dtype": np.dtype(value).str, "scalar": isinstance(value, type)}
        if _is_one(value, _RECORDS):
            parts = {f.name: getattr(value, f.name) for f in fields(value)} if name != "Interval" else list(value)
            return {"$record": name, "fields": self.describe(parts, where, depth)}
        if (full_name := _name_in_scikit_learn(value)) is not None:
            return self._external(full_name, value, where, depth)
        if _is_one(value, _ESTIMATORS) or _is_one(value, _PARTS):
            state = {key: item for key, item in value.__getstate__().items() if key != "_sklearn_version"}
            described = {key: self.describe(item, f"{where}.{key}", depth) for key, item in state.items()}
            return {"$part" if name in _PARTS else "$estimator": name, "state": described}
        if name == "Certificates":
            return {"$certificates": self.describe(dict(value), where, depth)}
        try:
            memory = memoryview(value)
        except TypeError:
            what = "a function" if callable(value) else f"a {module}.{name}"
            raise TypeError(
                f"{where} is {what}, which can't be saved: only estimators of surebayes, pipelines of them with "
                "scikit-learn's vectorizers and linear models, and plain values are, so that loading never runs "
                "foreign code."
            ) from None
        return {"$bytes": self._array(np.frombuffer(memory.cast("B"), np.uint8), where)}

    def _external(self, name: str, value: Any, where: str, depth: int) -> Any:
        """Describe an estimator of scikit-learn, with its release, on which the attributes depend."""
        import sklearn

        made_anew = ("_sklearn_version", "_loss_function_")  # the loss is only looked at in learning, which makes it
        state = {key: item for key, item in vars(value).items() if key not in made_anew}
        described = {key: self.describe(item, f"{where}.{key}", depth) for key, item in state.items()}
        return {"$foreign": name, "release": sklearn.__version__, "state": described}


_CONTAINERS = (list, tuple, dict, slice)


def _float(value: float) -> Any:
    return value if math.isfinite(value) else {"$float": repr(value)}


def _name_in_scikit_learn(value: Any) -> str | None:
    """Return the full name of a supported scikit-learn estimator; None for anything else."""
    kind, called = type(value), type(value).__name__
    for name, module in _OF_SCIKIT_LEARN.items():
        if name == f"{module}.{called}" and getattr(importlib.import_module(module), called, None) is kind:
            return name
    return None


def _is_one(value: Any, homes: dict[str, str]) -> bool:
    """Return whether an object's class is a listed one, and not only has the same name."""
    name = type(value).__name__
    return name in homes and getattr(importlib.import_module(homes[name]), name, None) is type(value)


class _Builder:
    """Builder of objects from their JSON and arrays."""

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        self.arrays = arrays

    def build(self, described: Any, depth: int = 0) -> Any:
        """Return a value from its description by `_Writer.describe`."""
        if depth > 3 * _DEPTH:
            raise BadModel("The manifest is nested too deeply.")
        if isinstance(described, list):
            return [self.build(item, depth + 1) for item in described]
        if not isinstance(described, dict):
            return described
        kind = next(iter(described), "")
        if not kind.startswith("$"):
            return {key: self.build(item, depth + 1) for key, item in described.items()}
        how = getattr(self, "_" + kind[1:], None) if kind in _KINDS else None
        if how is None:
            raise BadModel(f"The manifest describes a value of an unknown kind: {kind!r}.")
        more = {key: item for key, item in described.items() if key.isidentifier()}
        return how(described[kind], SimpleNamespace(**more), depth + 1)

    def _number(self, described: Any, _: Any, depth: int) -> Any:
        dtype = np.dtype(described[0])
        if dtype.kind not in "biuf":
            raise BadModel(f"{described[0]!r} is not a kind of number.")
        return dtype.type(self.build(described[1], depth))

    def _float(self, described: Any, _: Any, depth: int) -> float:
        return float(described)

    def _tuple(self, described: Any, _: Any, depth: int) -> tuple[Any, ...]:
        return tuple(self.build(item, depth) for item in described)

    def _slice(self, described: Any, _: Any, depth: int) -> slice:
        return slice(*described)

    def _dict(self, described: Any, _: Any, depth: int) -> dict[Any, Any]:
        return {self.build(key, depth): self.build(item, depth) for key, item in described}

    def _array(self, described: Any, _: Any, depth: int) -> np.ndarray:
        return self.arrays[described]

    def _bytes(self, described: Any, _: Any, depth: int) -> bytes:
        return bytes(self.build(described, depth).tobytes())

    def _text(self, described: Any, more: Any, depth: int) -> np.ndarray:
        items = more.items
        if described not in ("U", "O") or not all(isinstance(item, str) for item in items):
            raise BadModel("An array of text holds other values.")
        array = np.array(items, dtype=object if described == "O" else str)
        return (array if items else np.empty(0, dtype="<U1" if described == "U" else object)).reshape(more.shape)

    def _rows(self, described: Any, more: Any, depth: int) -> csr_array:
        rows = csr_array(tuple(self.build(part, depth) for part in described), shape=tuple(more.shape))
        rows.check_format(full_check=True)
        return rows

    def _sums(self, described: Any, more: Any, depth: int) -> Any:
        from surebayes.core.sums import FRACTION_BITS, ExactSums

        values = self.build(described, depth)
        stored = values.data if isinstance(values, csr_array) else values
        if more.bits not in (0, FRACTION_BITS) or stored.dtype != np.int64 or values.ndim != 2 or (stored < 0).any():
            raise BadModel("A table of sums has an unknown unit, or sums below zero.")
        return ExactSums(values, more.bits)

    def _empty(self, described: Any, _: Any, depth: int) -> Any:
        from surebayes.classifiers.holder import Holder

        return Holder()

    def _dtype(self, described: Any, more: Any, depth: int) -> Any:
        dtype = np.dtype(described)
        if dtype.kind not in "biuf":
            raise BadModel(f"{described!r} is not a type of numbers.")
        return dtype.type if more.scalar else dtype

    def _record(self, described: Any, more: Any, depth: int) -> Any:
        cls = getattr(importlib.import_module(_RECORDS[described]), described)
        parts = self.build(more.fields, depth)
        record = cls(*parts) if isinstance(parts, list) else cls(**parts)
        check_record(record)
        if described == "Statistics":
            _check_tables(record)
        return record

    def _certificates(self, described: Any, _: Any, depth: int) -> Any:
        from surebayes.guarantees.guaranteed_threshold import Certificates

        return Certificates(self.build(described, depth))

    def _state(self, cls: type, described: dict[str, Any], depth: int) -> dict[str, Any]:
        """Rebuild the attributes of an object; raise BadModel if one would shadow a method."""
        for key in described:
            if not key.isidentifier() or key.startswith("__") or callable(getattr(cls, key, None)):
                raise BadModel(f"{cls.__name__} has no attribute {key!r} that could be set.")
        return {key: self.build(item, depth) for key, item in described.items()}

    def _part(self, described: Any, more: Any, depth: int) -> Any:
        cls = getattr(importlib.import_module(_PARTS[described]), described)
        part, state = cls.__new__(cls), self._state(cls, more.state, depth)
        if hasattr(cls, "__setstate__"):  # these validate their state
            try:
                part.__setstate__(state)
            except (KeyError, TypeError, ValueError) as error:
                if isinstance(error, BadModel):
                    raise
                raise BadModel(f"A saved {described} can't be read: {error}") from None
        else:
            vars(part).update(state)
        return part

    def _external(self, described: Any, more: Any, depth: int) -> Any:
        import sklearn
        from sklearn.exceptions import InconsistentVersionWarning

        module = _OF_SCIKIT_LEARN[described]
        cls = getattr(importlib.import_module(module), described.rpartition(".")[2])
        estimator = cls.__new__(cls)
        vars(estimator).update(self._state(cls, more.state, depth))
        if more.release != sklearn.__version__:
            warnings.warn(
                InconsistentVersionWarning(
                    estimator_name=cls.__name__,
                    current_sklearn_version=sklearn.__version__,
                    original_sklearn_version=str(more.release),
                ),
                stacklevel=2,
            )
        return estimator

    def _estimator(self, described: Any, more: Any, depth: int) -> Any:
        cls = getattr(importlib.import_module(_ESTIMATORS[described]), described)
        state = self._state(cls, more.state, depth)
        estimator = cls.__new__(cls)
        # their own __setstate__ would check the version of scikit-learn
        if _ESTIMATORS[described].startswith("sklearn."):
            vars(estimator).update(state)
        else:
            estimator.__setstate__(state)
        check_settings(estimator)
        _check_fitted(estimator)
        return estimator


_KINDS = frozenset("$" + name[1:] for name in vars(_Builder) if name[0] == "_" != name[1] and name != "_state")


def _check_tables(statistics: Any) -> None:
    k = statistics.n_classes
    widths = set()
    for name, table in statistics._tables().items():
        rows, columns = table.shape
        if rows != k + 1 and not (name == "mass" and rows == 2 * k):
            raise BadModel(f"The sums {name!r} have {rows} rows for {k} classes.")
        if name != "documents":
            widths.add(columns)
    if len(widths) > 1 or statistics.documents.shape[1] != 1:
        raise BadModel("Tables of sums differ in their number of columns.")


def _check_fitted(estimator: Any) -> None:
    """Reject arrays that don't match each other and would be indexed out of bounds."""
    width, state = getattr(estimator, "n_features_in_", None), vars(estimator)
    sums = state.get("statistics_")
    if sums is not None and (sums.n_columns != width or sums.n_classes != len(estimator.classes_)):
        raise BadModel("The sums don't match the features and classes of the classifier.")
    if "representation_" in state:
        for name in ("weights", "ranking", "keep"):
            array = getattr(state["representation_"], name)
            if array is not None and array.shape[-1] != width:
                raise BadModel(f"The representation's {name} are for {array.shape[-1]} columns, not {width}.")
    terms = state.get("_terms")
    if terms is not None and sorted(state["_columns"].tolist()) != list(range(len(terms))):
        raise BadModel("The columns of the vocabulary don't match its terms.")


# ---------------------------------------------------------------------- trial use of a loaded estimator

# A file may have a valid checksum and invalid content, such as text as smoothing, a table without rows, or NaN.
# Parameters are validated by the rules of `fit`; then all scoring methods are applied to a dummy document, and every
# score must be a number. So inconsistent files fail when they are loaded, not later.

TEXTS = ["Subject: one more\n\nA document that nobody has written, with 10 words or so.", "", "more"]
_SCORES = ("decision_function", "predict", "predict_proba", "predict_log_proba", "transform")


def check_settings(estimator: Any) -> None:
    """Validate an estimator's parameters; raise an error if one is missing or invalid."""
    for name in estimator.get_params(deep=False):
        getattr(estimator, name)
    if hasattr(estimator, "_parameter_constraints"):
        estimator._validate_params()
    check_weight(estimator, getattr(estimator, "weight", None))
    check_top(estimator, getattr(estimator, "top", None))
    width = getattr(estimator, "n_features_in_", 1)
    if isinstance(width, bool) or not isinstance(width, (int, np.integer)) or not 0 <= width < 2**31:
        raise BadModel(f"{type(estimator).__name__} has an invalid number of features: {width!r}.")


_SCALARS = {"pad": float, "steepness": float, "floor": float, "top": int, "tf": str, "norm": str, "method": str}


def check_record(record: Any) -> None:
    """Reject a record with simple fields of the wrong type: an array in place of a number may work by chance."""
    for name, kind in _SCALARS.items():
        value = getattr(record, name, None)
        if value is None:
            continue
        if kind is float:
            fits = isinstance(value, (int, float, np.number)) and bool(np.isfinite(float(value)))
        else:
            fits = isinstance(value, (int, np.integer) if kind is int else kind)
        if not fits or isinstance(value, bool):
            raise BadModel(f"{name} of {type(record).__name__} is {value!r}.")


def use_once(estimator: Any) -> None:
    """Score a dummy document, and raise BadModel if a score is not a number.

    Unfitted estimators and estimators of file names are skipped.
    """
    sample = _sample(estimator)
    if sample is None:
        return
    try:
        check_is_fitted(estimator)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            for name in _SCORES:
                method = getattr(estimator, name, None)
                if method is not None:
                    _check_numbers(name, method(sample))
    except NotFittedError:
        return


def _check_numbers(name: str, result: Any) -> None:
    values = result.data if issparse(result) else np.asarray(result)
    least = -np.inf if name == "predict_log_proba" else np.nextafter(-np.inf, 0)  # log 0 is allowed
    if values.dtype.kind in "fc" and not ((values >= least) & (values < np.inf)).all():
        raise BadModel(f"{name} of the model gives values that are not numbers.")


def _sample(estimator: Any) -> Any:
    """Return documents in the estimator's input format: texts, or rows of counts; None if unknown."""
    if hasattr(estimator, "steps"):
        return _sample(estimator.steps[0][1])
    if hasattr(estimator, "transformer_list"):
        return _sample(estimator.transformer_list[0][1])
    if hasattr(estimator, "input"):
        return TEXTS if estimator.input == "content" else None
    if type(estimator).__name__ in ("ViewPool", "Views"):
        return TEXTS
    inner = getattr(estimator, "estimator_", getattr(estimator, "estimator", None))
    if type(estimator).__name__ in ("GuaranteedThreshold", "BudgetedThreshold") and inner is not None:
        fitted = any(name.endswith("_") and not name.startswith("_") for name in vars(estimator))
        if not hasattr(inner, "get_params") or (fitted and not hasattr(estimator, "estimator_")):
            raise BadModel(f"{type(estimator).__name__} wraps {type(inner).__name__}, which is not fitted.")
        return _sample(inner)
    width = getattr(estimator, "n_features_in_", None)
    if width is None:
        return None
    columns = np.unique([0, width // 2, max(width - 1, 0)])[:width]
    # three rows, so that a pair of values in place of a number can't fit by chance
    return csr_array((np.ones(len(columns)), (np.zeros(len(columns), int), columns)), shape=(3, width))
