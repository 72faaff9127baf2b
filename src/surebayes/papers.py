"""The five papers, reproduced: `surebayes.research.papers` by its short name."""

from surebayes.research.papers import *  # noqa: F403

if __name__ == "__main__":
    from surebayes.research.papers.__main__ import as_command

    as_command()
