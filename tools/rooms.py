"""List the rooms and what each module holds: what ARCHITECTURE.md and docs/rooms.md are made of."""

from __future__ import annotations

import ast
import re
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src" / "surebayes"
PROJECT = SOURCE.parent.parent / "pyproject.toml"


def layers() -> list[str]:
    """Return the names in the contract of layers, the lowest first."""
    contracts = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    names = next(contract["layers"] for contract in contracts if contract["containers"] == ["surebayes"])
    return [name.strip() for layer in reversed(names) for name in layer.split("|")]


def rooms() -> dict[str, list[Path]]:
    """Return the files of every room, a room being a package: the package itself, then each above those it imports."""
    order = layers()
    packages = {path.parent.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("__init__.py")}
    ranked = sorted(packages - {"."}, key=lambda room: (order.index(room.split("/")[0]), room))
    return {room: sorted(_files(SOURCE / room)) for room in [".", *ranked]}


def _files(room: Path) -> Iterator[Path]:
    """Yield the files of a room; C code may lie in folders of its own, and a header speaks for its code.

    What a build writes, `_version`, is left out.
    """
    for path in room.iterdir():
        if path.is_dir() and not (path / "__init__.py").exists():
            yield from _files(path)
        elif (path.suffix in (".py", ".c") and path.stem not in ("__init__", "_version")) or (
            path.suffix == ".h" and not path.with_suffix(".c").exists()
        ):
            yield path


def label(room: str, path: Path) -> str:
    """Return the name of a file on the map."""
    inside = path.relative_to(SOURCE / room)
    return inside.stem if path.suffix == ".py" else inside.as_posix()


def summary(path: Path) -> str:
    """Return the first sentence of what a file says of itself, without its full stop."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        description = ast.get_docstring(ast.parse(text)) or ""
    else:
        header = path.with_suffix(".h")
        if not text.lstrip().startswith("/*") and header.exists():
            text = header.read_text(encoding="utf-8")
        comment = re.match(r"\s*/\*(.*?)\*/", text, re.DOTALL)
        description = re.sub(r"(?m)^\s*\*? ?", "", comment.group(1)) if comment else ""
    paragraph = " ".join(description.strip().split("\n\n")[0].split())
    return re.split(r"(?<=[a-z0-9`)\"])\. ", paragraph)[0].rstrip(".")


def index() -> str:
    """Return the rooms, a paragraph each: what it holds, and the names of its modules."""
    paragraphs = []
    for room, files in rooms().items():
        names = ", ".join(f"`{label(room, path)}`" for path in files)
        text = f"**{_title(room)}/** {summary(SOURCE / room / '__init__.py')}. {names}"
        paragraphs.append(textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False))
    return "\n\n".join(paragraphs)


def markdown() -> str:
    """Return the map: a section a room, a line a module."""
    lines = []
    for room, files in rooms().items():
        lines += [f"## {_title(room)}", "", f"{summary(SOURCE / room / '__init__.py')}.", ""]
        lines += [f"- `{label(room, path)}` {summary(path)}" for path in files]
        lines.append("")
    return "\n".join(lines)


def _title(room: str) -> str:
    return "surebayes" if room == "." else room
