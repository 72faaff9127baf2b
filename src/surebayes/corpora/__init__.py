"""Corpora: what the papers use and what stands in for it, where to get each, and one way to read them all.

No corpus comes with surebayes. Put what you have into one folder and name it in the environment variable
``SUREBAYES_DATA``: unpacked as the publisher packs it, or as a Parquet file. `catalogue` tells what there is,
`available` what the folder holds, `load` reads one, `check` counts it and compares with the published counts.

>>> from surebayes import corpora
>>> entry = corpora.catalogue()["reuters21578"]
>>> entry.documents, entry.used_by[0]
(21578, 'Kim, Seo & Rim 2003')
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from surebayes.corpora.loading import *  # noqa: F403

_NAMES = frozenset(
    {
        "Check",
        "Corpus",
        "CorpusMissing",
        "Entry",
        "MalformedCorpus",
        "UnknownCorpus",
        "available",
        "catalogue",
        "check",
        "count_matrix",
        "load",
        "mails",
        "modapte",
        "newsgroup_text",
        "read_trec",
        "strip_tags",
        "texts",
        "top_classes",
        "web_text",
    }
)

__all__ = sorted(_NAMES)

if not TYPE_CHECKING:  # an unknown name is an error for type checkers, not an object

    def __getattr__(name: str) -> object:
        if name in _NAMES:
            from surebayes.corpora import loading

            return getattr(loading, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
