"""Lint, types and tests of the changes since a base commit, in less than 20 seconds: the loop between two edits.

`python tools/quick.py [--base main]` looks at every file that differs from where this branch left the base, committed
or not. It runs ruff and mypy on the changed files, the doctests of changed modules, and three groups of tests:
changed tests, tests named like a changed module (`tests/` mirrors the packages), and tests that import one or use a
public name that it defines. Tests that the time doesn't allow are counted, not run: `make test` runs them.
"""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
KERNELS = "src/surebayes/kernels/"
SECONDS = 15.0
COLLECTING = 0.5
"""The share of the time after which no further file of tests is read."""


def changed(base: str) -> list[str]:
    """Return the files that differ from the merge base, without removed ones."""
    start = _git("merge-base", base, "HEAD").strip()
    names = _git("diff", "--name-only", "--diff-filter=d", start) + _git("ls-files", "--others", "--exclude-standard")
    return sorted(set(names.splitlines()))


def _git(*words: str) -> str:
    finished = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    if finished.returncode:
        raise SystemExit(f"git {' '.join(words)}: {finished.stderr.strip()}\nName another commit with --base.")
    return finished.stdout


# ------------------------------------------------------------------------------------------- the tests of a change


def related_tests(files: list[str], root: Path = ROOT) -> list[str]:
    """Return the test files for changed files, the closest first: changed, of the same name, importing.

    Examples
    --------
    >>> related_tests(["src/surebayes/core/weigh.py"])[0]
    'src/surebayes/core/weigh.py'
    """
    sources = [name for name in files if name.startswith("src/surebayes/") and name.endswith(".py")]
    written = [name for name in files if _is_test(name)]
    mirrored = [test for name in files if name.startswith("src/surebayes/") for test in mirror(name, root)]
    modules = {module(name) for name in files} - {""}
    helpers = {Path(name).stem for name in files if name.startswith("tests/") and name.endswith(".py")}
    public = {name for name, home in public_names(root).items() if home in modules}
    importing = [test for test in _all_tests(root) if _speaks_of(root / test, modules, helpers, public)]
    return list(dict.fromkeys([*written, *sources, *mirrored, *importing]))


def mirror(name: str, root: Path = ROOT) -> list[str]:
    """Return the tests of the same place and name as a source, with or without the name of its package.

    `pool/engine.py` has `tests/pool/test_engine*.py`, `cli/users.py` has `tests/cli/test_cli_users.py`.
    """
    path = Path(name).relative_to("src/surebayes")
    if path.suffix in {".c", ".h"}:
        path = Path("kernels", path.parent.name)
    places = [Path(root, "tests", *path.parts[:depth]) for depth in range(len(path.parts) - 1, 0, -1)]
    tests = next((place for place in places if place.is_dir()), root / "tests")
    stem, package = path.stem.lstrip("_"), path.parent.name
    patterns = [f"test_{stem}", f"test_{package}_{stem}"] if stem else [f"test_{package}"]
    found = [test for name in patterns for kind in (".py", "_*.py") for test in sorted(tests.glob(name + kind))]
    return [test.relative_to(root).as_posix() for test in found]


def module(name: str) -> str:
    """Return the dotted name of a source, "" for other files; a C file has the name of its kernel."""
    path = Path(name)
    if name.startswith(KERNELS) and path.suffix in {".c", ".h"}:
        return f"surebayes.kernels._{path.parent.name}"
    if not name.startswith("src/") or path.suffix != ".py":
        return ""
    parts = path.relative_to("src").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def public_names(root: Path = ROOT) -> dict[str, str]:
    """Return the module of each public name, from the package's stub."""
    stub = ast.parse((root / "src/surebayes/__init__.pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom) and node.module != "surebayes"]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def _speaks_of(test: Path, modules: set[str], helpers: set[str], public: set[str]) -> bool:
    names = set(_names(ast.parse(test.read_text(encoding="utf-8"))))
    return bool(names & (modules | helpers | {f"surebayes.{name}" for name in public}))


def _names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "sb":
            yield f"surebayes.{node.attr}"


def _all_tests(root: Path) -> list[str]:
    return [path.relative_to(root).as_posix() for path in sorted((root / "tests").rglob("test_*.py"))]


def _is_test(name: str) -> bool:
    return name.startswith("tests/") and Path(name).name.startswith("test_") and name.endswith(".py")


# --------------------------------------------------------------------------------------------------- running them


class Deadline:
    """A plugin of pytest that stops when the time is over and counts the tests not run."""

    def __init__(self, start: float, seconds: float) -> None:
        self.start, self.seconds = start, seconds
        self.files = self.tests = self.done = 0
        self.stopped = False

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Leave out a file where reading the ones before it took too long."""
        if collection_path.suffix == ".py" and self._passed() > COLLECTING * self.seconds:
            self.files += 1
            return True
        return None

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Count the tests."""
        self.tests = len(session.items)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Count a test."""
        self.done += 1

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Stop after this test where the time is over."""
        if nextitem is not None and self._passed() > self.seconds:
            self.stopped = True
            item.session.shouldstop = f"{self.seconds:.0f} s are over"

    def left_out(self) -> str:
        """Return in words how many tests were not run; "" if none."""
        counts = ((self.tests - self.done, "tests"), (self.files, "files of tests"))
        return " and ".join(f"{count} {what}" for count, what in counts if count)

    def _passed(self) -> float:
        return time.monotonic() - self.start


def main() -> int:
    """Check the change; the exit status is 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--base", default="main", help="the commit to compare with (default: main)")
    start = time.monotonic()
    files = changed(parser.parse_args().base)
    os.chdir(ROOT)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    python = [name for name in files if name.endswith((".py", ".pyi"))]
    sources = [name for name in python if name.startswith("src/")]
    in_c = [name for name in files if name.endswith((".c", ".h"))]
    checks = [
        _start(["ruff", "check"], python),
        _start(["ruff", "format", "--check"], python),
        _start(["clang-format", "--dry-run", "--Werror"], in_c),
        _start(["mypy"], sources),
    ]
    tests = related_tests(files)
    deadline = Deadline(start, SECONDS)
    words = ["-q", "-x", "-n", "0", "-p", "no:cacheprovider", "-m", "not slow", *tests]
    code = pytest.main(words, plugins=[deadline]) if tests else pytest.ExitCode.OK
    passed = [_finish(check) for check in checks if check is not None]
    missing = deadline.left_out()
    good = code in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}
    good |= deadline.stopped and code == pytest.ExitCode.INTERRUPTED
    print(
        f"{len(files)} changed files, {time.monotonic() - start:.0f} s." + (f" Not run: {missing}." if missing else "")
    )
    return int(not (good and all(passed)))


def _start(words: list[str], files: list[str]) -> tuple[str, subprocess.Popen[str]] | None:
    if not files:
        return None
    program = Path(sys.executable).with_name(words[0])
    command = [str(program), *words[1:], *files]
    name = " ".join(words)
    return name, subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _finish(check: tuple[str, subprocess.Popen[str]]) -> bool:
    name, process = check
    printed, _ = process.communicate()
    if process.returncode:
        print(f"{name}\n{printed}")
    return process.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
