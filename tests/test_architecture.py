"""The house: every module is on the map, no room is crowded, no file holds too much."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import rooms  # noqa: E402

MAP = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
ROOMS = rooms.rooms()
ONE_IDEA = {
    # long for their docstrings and examples, or one table: each holds one idea
}


@pytest.mark.parametrize("room", [room for room in ROOMS if room != "."])
def test_a_room_has_at_most_a_dozen_modules(room):
    assert len([path for path in ROOMS[room] if path.suffix == ".py"]) <= 12


FILES = [pytest.param(room, path, id=rooms.label(room, path)) for room, paths in ROOMS.items() for path in paths]


@pytest.mark.parametrize(("room", "path"), FILES)
def test_every_module_says_what_it_holds_and_is_on_the_map(room, path):
    said = rooms.summary(path)
    assert said
    assert f"- `{rooms.label(room, path)}` {said}\n" in MAP


@pytest.mark.parametrize(("room", "path"), FILES)
def test_no_file_holds_too_much(room, path):
    lines = len(path.read_text(encoding="utf-8").splitlines())
    name = path.relative_to(rooms.SOURCE).as_posix()
    assert lines <= (ONE_IDEA.get(name, 450) if path.suffix == ".py" else 1200)


def test_the_map_is_up_to_date():
    checked = subprocess.run(
        [sys.executable, "-m", "cogapp", "--check", "ARCHITECTURE.md"], cwd=ROOT, capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout
