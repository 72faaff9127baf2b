"""Documents one after the other, from files of any size: `surebayes.text.streams` by its short name."""

from surebayes.text.streams import *  # noqa: F403
