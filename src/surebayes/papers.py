"""The five papers, reproduced: `surebayes.research.papers` by its short name."""

from surebayes.research.papers import *  # noqa: F403
