"""The architecture: every module says what it holds, names are unique, strategies are in one place."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "surebayes"
MODULES = [path for path in sorted(SOURCE.rglob("*.py")) if path.stem != "_version"]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_every_module_says_what_it_holds(path):
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


def test_no_two_classes_have_one_name():
    places = defaultdict(list)
    for path in SOURCE.rglob("*.py"):
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(statement, ast.ClassDef):
                places[statement.name.lstrip("_")].append(str(path.relative_to(SOURCE)))
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


@pytest.mark.parametrize("name", ["Makefile", "CONTRIBUTING.md", "ARCHITECTURE.md"])
def test_files_that_are_named_exist(name):
    """A target or a recipe that names a moved file fails only when somebody needs it."""
    text = (ROOT / name).read_text(encoding="utf-8")
    named = set(re.findall(r"(?<![\w/.$)-])(?:tests|tools|benchmarks|fuzz|docs)/[\w./-]+\w", text))
    if name != "Makefile":
        packages = "|".join(sorted(path.parent.name for path in SOURCE.glob("*/__init__.py")))
        inside = re.findall(rf"`((?:{packages})/[\w./-]+)`", text)
        named |= {f"src/surebayes/{path}" for path in inside if "NAME" not in path}
    assert len(named) >= 10
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []
