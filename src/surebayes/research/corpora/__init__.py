"""Corpora of the papers, and substitutes for missing ones, behind one interface.

surebayes doesn't include any corpus. Put corpora into one folder, in the publisher's layout or as Parquet files, and
set the environment variable ``SUREBAYES_DATA`` to it. `catalogue` lists all known corpora, `available` those in the
folder; `load` reads a corpus, `check` compares its counts with the published ones.

>>> from surebayes import corpora
>>> entry = corpora.catalogue()["reuters21578"]
>>> entry.documents, entry.used_by[0]
(21578, 'Kim, Seo & Rim 2003')
"""

from surebayes.errors import CorpusMissing, MalformedCorpus, UnknownCorpus
from surebayes.research.corpora.entries import Entry
from surebayes.research.corpora.loading import (
    Check,
    Corpus,
    available,
    catalogue,
    check,
    load,
    mails,
    modapte,
    read_trec,
    texts,
    top_classes,
)
from surebayes.research.corpora.plain_text import count_matrix, newsgroup_text, strip_tags, web_text

__all__ = [
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
]
