"""Recorded calls of every entry point of the kernels, with their arguments altered: refused or answered, no crash."""

import os
import re
import subprocess
import sys
from array import array
from pathlib import Path

import pytest

from surebayes.kernels.reference import pool as reference
from surebayes.pool.table import FileTable, file_parts

compiled = pytest.importorskip("surebayes.kernels._pool", reason="the kernels aren't built")
TOOL = Path(__file__).parents[2] / "fuzz" / "recorded_calls.py"


def test_no_altered_call_of_any_entry_point_crashes(tmp_path):
    """In a separate process, which may end by a signal; its last call says which one did it."""
    last = tmp_path / "last"
    done = subprocess.run(
        [sys.executable, str(TOOL), "--calls", "8000", "--seed", "3"],
        env={**os.environ, "SUREBAYES_LAST_CALL": str(last)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, f"{last.read_text().strip()}: {done.stdout[-500:]} {done.stderr[-1500:]}"
    made = re.search(r"(\d+) altered calls, no crash; never answered: \[\]", done.stdout)
    assert made, done.stdout
    assert int(made[1]) > 5000


def entries_of(*columns):
    entries = array("I", [word for column in columns for word in (column << 1, 1)]).tobytes()
    image, places = file_parts(entries)
    return FileTable.of_places(b"".join(image), places)


@pytest.mark.parametrize("kernel", [compiled, reference], ids=["kernel", "reference"])
@pytest.mark.parametrize("garbage", [-1, 1, 2, 7, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("column", [0, 3, 9])
def test_a_table_is_loaded_into_an_empty_place_only(kernel, garbage, column):
    place = array("i", [0] * 10)
    place[column] = garbage
    with pytest.raises(ValueError, match="an empty place"):
        kernel.load([entries_of(0, 3, 9)], 2, place, None)


@pytest.mark.parametrize("kernel", [compiled, reference], ids=["kernel", "reference"])
@pytest.mark.parametrize("garbage", [-1, 2, 7, 2**31 - 1])
def test_a_further_table_finds_no_rows_that_there_are_not(kernel, garbage):
    place = array("i", [0] * 10)
    place[5] = garbage
    with pytest.raises(ValueError, match="an empty place"):
        kernel.load([entries_of(0), entries_of(0, 5)], 2, place, None)


@pytest.mark.parametrize("kernel", [compiled, reference], ids=["kernel", "reference"])
def test_tables_that_share_columns_are_loaded_into_one_place(kernel):
    place = array("i", [0] * 10)
    values = kernel.load([entries_of(0, 3), entries_of(3, 9)], 2, place, None)
    assert place.tolist() == [1, 0, 0, 2, 0, 0, 0, 0, 0, 3]
    assert list(memoryview(values).cast("i")) == [1, 0, 2, 0, 1, 0]
