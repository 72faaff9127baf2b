"""``python -m surebayes``: the command, where its script isn't on the path."""

import sys

from surebayes._entry import main

if __name__ == "__main__":
    sys.exit(main())
