"""Build hooks of the site: formulas as MathML, the code of equations, links out of docs/."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

sys.path.insert(0, str(Path(__file__).parent))

import command_pages
import equations

MOVED = {
    "../ARCHITECTURE.md": "architecture.md",
    "../CHANGELOG.md": "changes.md",
    "../examples/mail/README.md": "mail-examples.md",
    "../../examples/mail/README.md": "../mail-examples.md",
}
"""Links that leave docs/, and the page of the site that has the same text."""

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
FOLDERS: dict[str, list[Any]] = {
    "examples/": [
        "examples/index.md",
        *(f"examples/{path.stem.replace('_', '-')}.md" for path in sorted(ROOT.glob("examples/gallery/*.py"))),
    ],
    "command/": [{name: f"command/{name}.md"} for name in command_pages.names()],
    "decisions/": [f"decisions/{path.name}" for path in sorted(ROOT.glob("docs/decisions/*.md"))],
}
"""Folders of the navigation, and the pages that each stands for."""

DISPLAYED = re.compile(r"^```math\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"^<!-- code: ([\w.]+) -->$", re.MULTILINE)
INLINE = re.compile(r"\$`([^`]+)`\$")


def on_config(config: Any) -> Any:
    """Put every decision and every example into the navigation."""
    config["nav"] = listed(config["nav"])
    return config


def listed(entries: list[Any]) -> list[Any]:
    """Return a navigation with the pages of a folder in place of the folder."""
    filled: list[Any] = []
    for entry in entries:
        if isinstance(entry, dict):
            entry = {
                title: listed(inner) if isinstance(inner, list) else FOLDERS.get(inner, inner)
                for title, inner in entry.items()
            }
        filled.append(entry)
    return filled


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Rewrite the Markdown of one page before it becomes HTML."""
    for target, page in MOVED.items():
        markdown = markdown.replace(f"]({target})", f"]({page})")
    markdown = DISPLAYED.sub(lambda match: formula(match[1]), markdown)
    markdown = CODE.sub(lambda match: folded(match[1]), markdown)
    return INLINE.sub(lambda match: convert(match[1]), markdown)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Lead from the equation that a docstring names to its section on the page of the paper."""
    return equations.linked(html) if page.file.src_uri.startswith("api/") else html


def formula(latex: str) -> str:
    """Return a displayed formula as MathML, in a box that scrolls where it is wider than the page."""
    return f'\n<div class="sideways">{convert(latex, display="block")}</div>\n'


def folded(name: str) -> str:
    """Return the source of a function as a block that opens with a click."""
    indented = "\n".join(f"    {line}".rstrip() for line in ["```python", *source(name).splitlines(), "```"])
    return f'??? quote "`{name}`"\n\n{indented}\n'


def source(name: str) -> str:
    """Return the source of a function or method, by its full name.

    Examples
    --------
    >>> source("surebayes.core.weigh.product").splitlines()[0].startswith("def product(")
    True
    """
    module, *inner = _module_of(name)
    text = Path(module).read_text(encoding="utf-8")
    body: list[ast.stmt] = ast.parse(text).body
    for part in inner:
        node = next((node for node in body if getattr(node, "name", None) == part), None)
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            raise LookupError(f"{module} has no {'.'.join(inner)}")
        body = node.body
    lines = text.splitlines()[node.lineno - 1 : node.end_lineno]
    indent = len(lines[0]) - len(lines[0].lstrip())
    return "\n".join(line[indent:] for line in lines)


def _module_of(name: str) -> list[str]:
    """Split a full name into the file of its module and the name inside it."""
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        path = SOURCE.joinpath(*parts[:cut]).with_suffix(".py")
        if path.is_file():
            return [str(path), *parts[cut:]]
    raise LookupError(f"no module has {name}")
