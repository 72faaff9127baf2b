"""The house: every module is on the map, no room is crowded, no file holds too much."""

import ast
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import rooms  # noqa: E402

PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
MAP = (ROOT / "docs" / "rooms.md").read_text(encoding="utf-8")
ROOMS = rooms.rooms()
LONG = {
    "kernels/text_twin.py": 480,  # the whole twin of one extension
    # one table or figure of a paper after the other
    "research/papers/kim_seo_rim.py": 560,
    "research/papers/kolcz_yih.py": 480,
    "corpora/synthetic.py": 470,
}
"""Modules over 450 lines that hold one idea all the same, and how long they may become."""


@pytest.mark.parametrize("room", [room for room in ROOMS if room != "."])
def test_a_room_has_at_most_a_dozen_modules(room):
    assert len([path for path in ROOMS[room] if path.suffix == ".py"]) <= 12


FILES = [pytest.param(room, path, id=rooms.label(room, path)) for room, paths in ROOMS.items() for path in paths]


@pytest.mark.parametrize(("room", "path"), FILES)
def test_every_module_says_what_it_holds_and_is_on_the_map(room, path):
    summary = rooms.summary(path)
    assert summary
    assert f"- `{rooms.label(room, path)}` {summary}\n" in MAP
    assert f"`{rooms.label(room, path)}`" in PAGE


@pytest.mark.parametrize(("room", "path"), FILES)
def test_no_file_holds_too_much(room, path):
    lines = len(path.read_text(encoding="utf-8").splitlines())
    name = path.relative_to(rooms.SOURCE).as_posix()
    assert lines <= (LONG.get(name, 450) if path.suffix == ".py" else 1200)


def test_the_page_fits_on_two_screens():
    assert len(PAGE.splitlines()) <= 160


def test_the_map_is_up_to_date():
    command = [sys.executable, "-m", "cogapp", "--check", "ARCHITECTURE.md", "docs/rooms.md"]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


def test_no_two_classes_have_one_name():
    places = defaultdict(list)
    for path in rooms.SOURCE.rglob("*.py"):
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(statement, ast.ClassDef):
                places[statement.name.lstrip("_")].append(str(path.relative_to(rooms.SOURCE)))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_strategies_are_in_one_place():
    for path in Path(__file__).parent.rglob("test_*.py"):
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
            if isinstance(statement, ast.Assign):
                assert "st" not in names, f"{path}, line {statement.lineno}: a strategy belongs in tests/strategies.py"
            elif isinstance(statement, ast.FunctionDef):
                decorators = [ast.unparse(decorator) for decorator in statement.decorator_list]
                assert "st.composite" not in decorators, f"{path}: {statement.name} belongs in tests/strategies.py"
