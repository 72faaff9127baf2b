"""The corpora of the papers: `surebayes.research.corpora` by its short name."""

from surebayes.research.corpora import *  # noqa: F403
