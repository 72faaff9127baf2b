"""A seeded stream of invented mail: `surebayes.corpora.synthetic` by its short name."""

from surebayes.corpora.synthetic import *  # noqa: F403
