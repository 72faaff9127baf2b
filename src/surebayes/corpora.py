"""The corpora of the papers: a short name of `surebayes.research.corpora`."""

from surebayes.research.corpora import *  # noqa: F403
