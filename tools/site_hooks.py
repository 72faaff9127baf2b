"""What the site adds to its pages while it is built: formulas as MathML, the code of equations, links out of docs/."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

MOVED = {
    "../ARCHITECTURE.md": "architecture.md",
    "../CHANGELOG.md": "changes.md",
    "../examples/mail/README.md": "mail-examples.md",
    "../../examples/mail/README.md": "../mail-examples.md",
}
"""Links that leave docs/, and the page of the site that has the same text."""

SOURCE = Path(__file__).resolve().parent.parent / "src"
DISPLAYED = re.compile(r"^```math\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"^<!-- code: ([\w.]+) -->$", re.MULTILINE)
INLINE = re.compile(r"\$`([^`]+)`\$")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Rewrite the Markdown of one page before it becomes HTML."""
    for target, page in MOVED.items():
        markdown = markdown.replace(f"]({target})", f"]({page})")
    markdown = DISPLAYED.sub(lambda match: f"\n<div>{convert(match[1], display='block')}</div>\n", markdown)
    markdown = CODE.sub(lambda match: folded(match[1]), markdown)
    return INLINE.sub(lambda match: convert(match[1]), markdown)


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
    """Split a full name into the file of its module and what is inside it."""
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        path = SOURCE.joinpath(*parts[:cut]).with_suffix(".py")
        if path.is_file():
            return [str(path), *parts[cut:]]
    raise LookupError(f"no module has {name}")
