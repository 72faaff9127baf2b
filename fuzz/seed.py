"""Write the seeds of a module of cases into a folder: python fuzz/seed.py kernel_cases FOLDER."""

import importlib
import sys
from pathlib import Path

if __name__ == "__main__":
    for i, seed in enumerate(importlib.import_module(sys.argv[1]).seeds()):
        Path(sys.argv[2], f"seed-{i}").write_bytes(seed)
