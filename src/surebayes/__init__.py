"""High-precision text classification with Naive Bayes: few false alarms, and sure of it.

Importing this package imports nothing heavy; each public name is loaded when it is first used.
"""

__version__ = "0.1.0"

# public name -> the module that defines it
_HOME = {
    "CentroidClassifier": "classifiers",
    "ClassNormalizedNB": "classifiers",
    "CountVectorizer": "vectorizers",
    "DecisionReversalNB": "reversal",
    "DriftMonitor": "drift",
    "GuaranteedThreshold": "threshold",
    "HashingVectorizer": "vectorizers",
    "MultinomialNB": "classifiers",
    "NotEnoughNegatives": "threshold",
    "OpinionPoolNB": "classifiers",
    "PoissonNB": "classifiers",
    "ScoreMonitor": "drift",
    "TermDiscriminant": "classifiers",
    "TermWeighting": "term_weighting",
    "TunedNB": "tune",
    "ViewPool": "pool",
    "TextScorer": "text_scorer",
    "Views": "views",
    "Explanation": "score",
    "Message": "message",
    "read_message": "message",
    "Filter": "filter",
    "Verdict": "_verdict",
    "load": "persist",
    "save": "persist",
    "StoreError": "_manifest",
    "SurebayesError": "_manifest",
}
_MODULES = frozenset(
    {"compare", "corpora", "evaluation", "metrics", "papers", "scorers", "sources", "synthetic", "trec"}
)

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> object:
    import importlib

    if name in _HOME:
        value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, *_MODULES})
