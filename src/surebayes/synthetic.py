"""A seeded stream of invented mail: `surebayes.datasets.synthetic` by its short name."""

from surebayes.datasets.synthetic import *  # noqa: F403
