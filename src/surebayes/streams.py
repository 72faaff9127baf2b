"""Document streams from files of any size: a short name of `surebayes.text.streams`."""

from surebayes.text.streams import *  # noqa: F403
