"""Documents one by one, from files of any size: `surebayes.text.streams` by its short name."""

from surebayes.text.streams import *  # noqa: F403
