"""Seeded streams of invented mail and prompts, from `surebayes.datasets`, by a short name."""

from surebayes.datasets.synthetic import *  # noqa: F403
from surebayes.datasets.synthetic_prompts import prompts as prompts
