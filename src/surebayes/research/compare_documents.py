"""Comparisons that start from documents: which steps lead from a mail or text to each classifier, and when it came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import make_pipeline

from surebayes.corpora.formats import received
from surebayes.errors import BadInput
from surebayes.mail.message import read_message
from surebayes.research.compare import Comparison, classifier_of, compare
from surebayes.text.count_vectorizer import CountVectorizer

DEFAULTS = (
    "ViewPool",
    "OpinionPoolNB",
    "MultinomialNB",
    "sklearn.feature_extraction.text.TfidfTransformer + sklearn.svm.LinearSVC",
)
"""The classifiers where none is named."""


class PlainText(TransformerMixin, BaseEstimator):
    r"""Mails as the text that a person reads: subject and text; texts as they are.

    Parameters
    ----------
    reader : {"mail", "text"}, default="mail"
        What documents are.

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
        self.n_documents_ = len(X)
        return self

    def transform(self, X: Sequence[Any]) -> list[str]:
        """Give the texts."""
        return [_mail_text(document) if self.reader == "mail" else _text(document) for document in X]


def _mail_text(document: bytes | str) -> str:
    raw = document if isinstance(document, bytes) else document.encode("utf-8", "surrogatepass")
    message = read_message(raw)
    return f"{message.subject}\n{message.text}"


def _text(document: bytes | str) -> str:
    return document if isinstance(document, str) else document.decode("utf-8", "replace")


def steps_of(text: str, reader: str = "mail") -> Any:
    """Build a classifier of documents from its name; " + " puts steps before it.

    Parameters
    ----------
    text : str
        As `surebayes.compare.classifier_of` reads it, with transformers of counts before it if wanted. `ViewPool` reads
        documents itself; all others get counts of words.
    reader : {"mail", "text"}
        What documents are.

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
    """Tell when each mail was received; BadInput names the first that doesn't say."""
    times = []
    for document, name in zip(documents, names):
        raw = document if isinstance(document, bytes) else document.encode("utf-8", "surrogatepass")
        when = received(raw)
        if when is None:
            raise BadInput(f"{name} doesn't say when it came (no Received or Date field): it can't be split by time.")
        times.append(when)
    return times


def compare_documents(
    documents: Sequence[Any],
    labels: Sequence[str],
    classifiers: Sequence[str] = DEFAULTS,
    reader: str = "mail",
    **options: Any,
) -> Comparison:
    """Compare classifiers on documents.

    Parameters
    ----------
    documents : sequence of bytes or str
        Mails or texts.
    labels : sequence of str
        Their labels.
    classifiers : sequence of str
        As `steps_of` reads them.
    reader : {"mail", "text"}
        What documents are.
    **options
        Of `surebayes.compare.compare`.

    Returns
    -------
    Comparison
    """
    built: Mapping[str, Any] = {text: steps_of(text, reader) for text in classifiers}
    return compare(built, list(documents), list(labels), **options)
