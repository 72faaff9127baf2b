"""Seeded streams of synthetic mail and prompts: a short name of modules in `surebayes.datasets`."""

from surebayes.datasets.synthetic import *  # noqa: F403
from surebayes.datasets.synthetic_prompts import prompts as prompts
