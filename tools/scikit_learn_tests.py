"""Run scikit-learn's own tests of text vectorizers and Naive Bayes with our classes in place of theirs.

    python tools/scikit_learn_tests.py            # the tests of the installed scikit-learn
    python tools/scikit_learn_tests.py --table    # the differences, as docs/scikit-learn.md has them

The files are read from the installed scikit-learn, get one more import, and run in a temporary folder; nothing of them
is kept. A test that is known to fail must fail: once it passes, its line is removed.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
import tempfile
from pathlib import Path

import sklearn

# file of scikit-learn -> the classes that are ours in place of theirs
SUITES = {
    "feature_extraction/tests/test_text.py": ("CountVectorizer", "HashingVectorizer", "TfidfVectorizer"),
    "tests/test_naive_bayes.py": ("BernoulliNB", "ComplementNB", "MultinomialNB"),
}

FAILED_FIT = "A fit that fails leaves the classifier as it was: here the classes of the failed fit are not remembered."
FIRST_CLASSES = "Without `classes` the first `partial_fit` takes the classes of its batch, where scikit-learn refuses."
# test, or test[parameters] -> why ours is different
DIFFERENCES: dict[str, str] = {
    "test_discretenb_provide_prior[BernoulliNB]": FAILED_FIT,
    "test_discretenb_provide_prior[ComplementNB]": FAILED_FIT,
    "test_discretenb_provide_prior[MultinomialNB]": FAILED_FIT,
    "test_NB_partial_fit_no_first_classes[BernoulliNB]": FIRST_CLASSES,
    "test_NB_partial_fit_no_first_classes[ComplementNB]": FIRST_CLASSES,
    "test_NB_partial_fit_no_first_classes[MultinomialNB]": FIRST_CLASSES,
}

CONFTEST = """
import re

import pytest

DIFFERENCES = {differences!r}


def pytest_collection_modifyitems(items):
    for item in items:
        name = re.sub(r"\\[\\d+-", "[", item.name)  # without the seed
        if name in DIFFERENCES:
            item.add_marker(pytest.mark.xfail(reason=DIFFERENCES[name], strict=True))
"""


def with_our_classes(source: str, classes: tuple[str, ...]) -> str:
    """Put one more import behind the imports of a test module."""
    body = ast.parse(source).body
    last = max(node.end_lineno or 0 for node in body if isinstance(node, (ast.Import, ast.ImportFrom)))
    lines, line = source.splitlines(keepends=True), f"from surebayes import {', '.join(classes)}"
    return "".join([*lines[:last], line + "\n", *lines[last:]])


def run(arguments: list[str]) -> int:
    """Run the suites; 0 where everything passes but the known differences."""
    home = Path(sklearn.__file__).parent
    with tempfile.TemporaryDirectory() as folder:
        for name, classes in SUITES.items():
            source = (home / name).read_text(encoding="utf-8")
            Path(folder, Path(name).name).write_text(with_our_classes(source, classes), encoding="utf-8")
        Path(folder, "conftest.py").write_text(CONFTEST.format(differences=DIFFERENCES), encoding="utf-8")
        Path(folder, "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-rfEX", "-p", "sklearn.conftest", "-p", "no:cacheprovider"]
        return subprocess.run([*command, *arguments], cwd=folder, check=False).returncode


def table() -> str:
    """Return the differences as lines of Markdown, tests with one reason together."""
    reasons: dict[str, list[str]] = {}
    for test, reason in DIFFERENCES.items():
        reasons.setdefault(reason, []).append(f"`{test}`")
    rows = [f"| {', '.join(tests)} | {reason} |" for reason, tests in reasons.items()]
    return "\n".join(["| tests | why |", "|---|---|", *rows])


def main() -> int:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true", help="print the known differences and stop")
    options, arguments = parser.parse_known_args()
    if options.table:
        print(table())
        return 0
    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
