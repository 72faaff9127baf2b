"""The disk fails, the process dies, the power goes: at every operation on files, whatever a filter is doing.

`faults/runner.py` does it, with a small library preloaded that counts operations and lets one of them fail.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent / "faults"
SCENARIOS = [
    "teach", "learn", "train", "train-no-journal", "train-first", "create", "import", "export", "compact", "rebuild",
    "erase", "rescue", "outlive", "fold", "layer", "promote",
]  # fmt: skip
SHIPPING = ["ship", "follow"]
MODES = ["kill", "eio", "enospc", "short", "power"]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not sys.platform.startswith("linux") or compiler is None:
        pytest.skip("needs Linux and a C compiler")
    made = tmp_path_factory.mktemp("faults") / "faults.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", made, HERE / "faults.c", "-ldl"], check=True)
    return made


def run(library, *words, before=()):
    environment = {**os.environ, "LD_PRELOAD": str(library), "PYTHONWARNINGS": "ignore"}
    return subprocess.run(
        [sys.executable, *before, str(HERE / "runner.py"), str(library), *map(str, words)],
        env=environment, capture_output=True, text=True, timeout=580, check=False,
    )  # fmt: skip


def passes(library, scenario, mode, step):
    done = run(library, scenario, mode, step)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("mode", ["kill", "enospc", "power"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_fault_now_and_then(scenario, mode, library):
    assert passes(library, scenario, mode, 10)["points"] >= 2


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("scenario", [*SCENARIOS, *SHIPPING])
def test_a_fault_at_every_operation(scenario, mode, library):
    assert passes(library, scenario, mode, 1)["points"] >= 15


def test_what_is_not_flushed_is_noticed(library, tmp_path):
    """The check itself: without flushes, losing power loses a model."""
    script = tmp_path / "careless.py"
    script.write_text(
        "import os, runpy, sys\nos.fsync = lambda handle: None\nsys.argv = sys.argv[1:]\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    done = run(library, "teach", "power", 1, before=[str(script)])
    assert done.returncode != 0
    assert "AssertionError: after operation" in done.stderr
