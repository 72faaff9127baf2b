"""Comparison of classifiers on documents, with preprocessing for each classifier and splits by time."""

from __future__ import annotations

import ast
import importlib
import os
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline

from surebayes.errors import BadInput
from surebayes.mail.message import read_message
from surebayes.research.compare import RANKING, compare
from surebayes.research.corpora.formats import received
from surebayes.text.count_vectorizer import CountVectorizer

DEFAULTS = (
    "ViewPool",
    "OpinionPoolNB",
    "MultinomialNB",
    "sklearn.feature_extraction.text.TfidfTransformer + sklearn.svm.LinearSVC",
)
"""Default classifiers."""
MULTILABEL_DEFAULTS = (
    "OpinionPoolNB",
    "MultinomialNB(tf='binary', contrast='rest')",
    "sklearn.feature_extraction.text.TfidfTransformer + sklearn.svm.LinearSVC",
)
"""Default classifiers for documents with several labels."""


MEASURES = ("micro_f1", "macro_f1", "accuracy", "lam_percent", *RANKING)
"""Measures by name; accuracy needs single labels, lam_percent two classes."""


class PlainText(TransformerMixin, BaseEstimator):
    r"""Transformer of messages to their text, subject and body; plain texts are unchanged.

    Parameters
    ----------
    reader : {"mail", "text"}, default="mail"
        Kind of the documents.

    Examples
    --------
    >>> from surebayes.research.compare_documents import PlainText
    >>> PlainText().transform([b"Subject: lunch\n\nat noon"])
    ['lunch\nat noon']
    """

    def __init__(self, reader: str = "mail") -> None:
        self.reader = reader

    def fit(self, X: Any, y: Any = None) -> PlainText:
        """Learn nothing."""
        return self

    def transform(self, X: Sequence[Any]) -> list[str]:
        """Return the texts."""
        return [_mail_text(document) if self.reader == "mail" else _text(document) for document in X]


def _mail_text(document: bytes | str) -> str:
    raw = document if isinstance(document, bytes) else document.encode("utf-8", "surrogatepass")
    message = read_message(raw)
    return f"{message.subject}\n{message.text}"


def _text(document: bytes | str) -> str:
    return document if isinstance(document, str) else document.decode("utf-8", "replace")


def steps_of(text: str, reader: str = "mail") -> Any:
    """Build a classifier of documents from its name, optionally with preceding steps, separated by " + ".

    Parameters
    ----------
    text : str
        Classifier in the syntax of `classifier_of`, optionally after transformers of counts.
        `ViewPool` reads documents itself; all remaining classifiers get counts of words.
    reader : {"mail", "text"}
        Kind of the documents.

    Examples
    --------
    >>> from surebayes.research.compare_documents import steps_of
    >>> [type(step).__name__ for step in steps_of("TermWeighting + sklearn.svm.LinearSVC(C=2)")]
    ['PlainText', 'CountVectorizer', 'TermWeighting', 'LinearSVC']
    """
    steps = [classifier_of(part) for part in text.split(" + ")]
    if hasattr(steps[0], "views"):
        pool = steps[0]
        return pool if "views=" in text else pool.set_params(views=reader)
    return make_pipeline(PlainText(reader), CountVectorizer(), *steps)


def times_of(documents: Sequence[Any], names: Sequence[str]) -> list[int]:
    """Return the time of receipt of each message; raise BadInput for the first without one."""
    times = []
    for document, name in zip(documents, names):
        raw = document if isinstance(document, bytes) else document.encode("utf-8", "surrogatepass")
        when = received(raw)
        if when is None:
            raise BadInput(f"{name} has no Received or Date field with a time, which splits by time need.")
        times.append(when)
    return times


def compare_documents(
    documents: Sequence[Any],
    labels: Sequence[str | Sequence[str]],
    classifiers: Sequence[str] | None = None,
    reader: str = "mail",
    run: Callable[..., Any] = compare,
    **options: Any,
) -> Any:
    """Compare classifiers on documents.

    Parameters
    ----------
    documents : sequence of bytes or str
        Messages or texts.
    labels : sequence of str, or of sequences of str
        One label per document, or a sequence of labels per document. In the latter case, a single-label classifier
        is fitted once per label.
    classifiers : sequence of str, optional
        Names in the syntax of `steps_of`.
    reader : {"mail", "text"}
        Kind of the documents.
    run : callable
        `surebayes.research.compare.compare`, or a curve of `surebayes.research.curves`.
    **options
        Options of `run`.

    Returns
    -------
    Comparison or Curve
    """
    if is_multilabel(labels):
        chosen = MULTILABEL_DEFAULTS if classifiers is None else classifiers
        return run({text: _for_each_label(steps_of(text, reader)) for text in chosen}, list(documents),
                   _indicator(labels), **options)  # fmt: skip
    chosen = DEFAULTS if classifiers is None else classifiers
    return run({text: steps_of(text, reader) for text in chosen}, list(documents), list(labels), **options)


def is_multilabel(labels: Sequence[str | Sequence[str]]) -> bool:
    """Return whether documents have lists of labels."""
    return any(not isinstance(label, str) for label in labels)


def _indicator(labels: Sequence[str | Sequence[str]]) -> Any:
    from sklearn.preprocessing import MultiLabelBinarizer

    return MultiLabelBinarizer().fit_transform([(label,) if isinstance(label, str) else label for label in labels])


class _EachLabel(OneVsRestClassifier):
    """One classifier per label, without the warning about rare labels that are missing from the training rows."""

    def fit(self, X: Any, y: Any, **parameters: Any) -> _EachLabel:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Label not .* is present in all training examples")
            super().fit(X, y, **parameters)
        return self


def _for_each_label(steps: Any) -> Any:
    """Return a multi-label classifier; a single-label one is fitted once per label."""
    from sklearn.utils import get_tags

    last = steps[-1] if hasattr(steps, "steps") else steps
    tags = get_tags(last).classifier_tags
    if tags is None or tags.multi_label:
        return steps
    if last is steps:
        return _EachLabel(steps)
    return make_pipeline(*(step for _, step in steps.steps[:-1]), _EachLabel(last))


# ---------------------------------------------------------------------- classifiers by name

SOURCES = ("surebayes", "sklearn")
"""Packages allowed in dotted names; classes of any other module are written MODULE:NAME."""
_USER_CLASS = re.compile(r"\s*([A-Za-z_][\w.]*):([A-Za-z_].*)", re.DOTALL)


def classifier_of(text: str) -> Any:
    """Build a classifier from its name and settings; the settings must be literals.

    Parameters
    ----------
    text : str
        A class of surebayes, the full name of a scikit-learn class, or MODULE:NAME for any other class (the current
        folder is searched too), optionally followed by settings in parentheses.

    Raises
    ------
    ValueError
        If the text is malformed, or names no classifier, or its settings are invalid.

    Examples
    --------
    >>> from surebayes.research.compare_documents import classifier_of
    >>> classifier_of("OpinionPoolNB(top=100)")
    OpinionPoolNB(top=100)
    >>> classifier_of("sklearn.linear_model.LogisticRegression(C=10)")
    LogisticRegression(C=10)
    >>> classifier_of("sklearn.naive_bayes:ComplementNB(alpha=0.1)")
    ComplementNB(alpha=0.1)
    """
    user_class = _USER_CLASS.fullmatch(text)
    name, settings = _parsed(user_class[2] if user_class else text, text)
    if user_class:
        module, attribute = user_class[1], name
    else:
        module, _, attribute = name.rpartition(".")
        module = module or "surebayes"
        if module.split(".")[0] not in SOURCES:
            raise ValueError(
                f"A classifier must come from {' or '.join(SOURCES)}, or be written MODULE:NAME. Got {name!r}."
            )
    factory = _imported(module, attribute, user_class is not None)
    if not (isinstance(factory, type) and hasattr(factory, "fit")):
        raise ValueError(f"{name!r} is not a classifier.")
    try:
        return factory(**settings)
    except TypeError as error:
        raise ValueError(f"{text!r} can't be created: {error}.") from None


def _parsed(text: str, whole: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the settings of Name(setting=value, ...)."""
    try:
        parsed = ast.parse(text.strip(), mode="eval").body
        call = parsed if isinstance(parsed, ast.Call) else None
        name = ast.unparse(call.func if call else parsed)
        if call and call.args:
            raise ValueError("settings need names")
        return name, {str(pair.arg): _value(pair) for pair in (call.keywords if call else [])}
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"Write a classifier as Name or Name(setting=value, ...). Got {whole!r} ({error}).") from None


def _value(pair: ast.keyword) -> Any:
    """Return the value of a setting; raise ValueError for a string without quotes, which shells remove."""
    try:
        return ast.literal_eval(pair.value)
    except ValueError:
        if isinstance(pair.value, ast.Name):
            raise ValueError(f'a string needs quotes: {pair.arg}="{pair.value.id}"') from None
        raise


def _imported(module: str, attribute: str, from_user: bool) -> Any:
    folder = os.getcwd()
    added = from_user and folder not in sys.path
    if added:
        sys.path.insert(0, folder)
    try:
        part_of: Any = importlib.import_module(module)
        for part in attribute.split("."):
            part_of = getattr(part_of, part)
        return part_of
    except ImportError as error:
        missing = f"There is no {attribute!r} in {module}" if not from_user else f"{module} can't be imported: {error}"
        raise ValueError(f"{missing}.") from None
    except AttributeError:
        raise ValueError(f"There is no {attribute!r} in {module}.") from None
    except Exception as error:
        if not from_user:
            raise
        raise ValueError(f"{module} can't be imported: {type(error).__name__}: {error}.") from error
