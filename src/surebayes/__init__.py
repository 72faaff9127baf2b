"""High-precision text classification with Naive Bayes, with guaranteed limits on false alarms.

Importing this package is fast: each public name is loaded when it is first used.
"""

__version__: str

# the module that defines each public name
_HOME = {
    "AlarmAudit": "guarantees.running_audit",
    "AlarmBudget": "guarantees.budget",
    "AnytimeCertificate": "guarantees.anytime",
    "BernoulliNB": "classifiers.joint",
    "BudgetedThreshold": "guarantees.budgeted_threshold",
    "CentroidClassifier": "classifiers.class_normalized",
    "ClassNormalizedNB": "classifiers.class_normalized",
    "ComplementNB": "classifiers.joint",
    "CountVectorizer": "text.count_vectorizer",
    "DecisionReversalNB": "classifiers.reversal",
    "DriftMonitor": "guarantees.drift",
    "GuaranteedThreshold": "guarantees.guaranteed_threshold",
    "HashingVectorizer": "text.hashing_vectorizer",
    "MultinomialNB": "classifiers.multinomial",
    "NotEnoughNegatives": "errors",
    "OpinionPoolNB": "classifiers.opinion_pool",
    "PoissonNB": "classifiers.poisson",
    "ScoreMonitor": "guarantees.drift",
    "TfidfVectorizer": "text.tfidf_vectorizer",
    "TermDiscriminant": "classifiers.discriminant",
    "TermWeighting": "classifiers.term_weighting",
    "TunedNB": "classifiers.tuned_nb",
    "ViewPool": "pool.view_pool",
    "TextScorer": "text.scorer",
    "Views": "text.side_by_side",
    "Explanation": "core.score",
    "Message": "mail.message",
    "read_message": "mail.message",
    "Filter": "filter.filter",
    "Verdict": "filter.verdict",
    "certify": "guarantees.certifying",
    "compare": "research.compare",
    "load": "persist.estimators",
    "save": "persist.estimators",
    "StoreError": "errors",
    "SurebayesError": "errors",
}
_MODULES = frozenset({"cluster", "corpora", "metrics", "papers", "streams", "synthetic"})

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> object:
    import importlib

    if name in _HOME:
        value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    if name == "__version__":
        return _own_version()
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _own_version() -> str:
    """Return the version that setuptools-scm derived from the Git tag when the package was built."""
    try:
        from surebayes._version import version
    except ImportError:  # a clone that was never built
        return "0+unknown"
    return version


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
