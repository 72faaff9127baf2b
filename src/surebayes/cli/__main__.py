"""``python -m surebayes.cli``: the commands, where no script is installed."""

import sys

from surebayes.cli import main

sys.exit(main())
