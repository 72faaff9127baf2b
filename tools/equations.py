"""Find the equations of the papers in the docstrings, for docs/equations.md."""

from __future__ import annotations

import ast
import re
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src" / "surebayes"
DOCS = SOURCE.parent.parent / "docs"
PAPERS = {
    "Kolcz & Yih": ("Raising the Baseline for High-Precision Text Classifiers, 2007", 8),
    "Kim, Seo & Rim": ("Poisson Naive Bayes for Text Classification with Feature Weighting, 2003", 15),
    "Frank & Bouckaert": ("Naive Bayes for Text Classification with Unbalanced Classes, 2006", 5),
    "Junejo & Karim": ("A Robust Discriminative Term Weighting Based Linear Discriminant Method, 2008", 10),
    "Kolcz & Chowdhury": ("Improved Naive Bayes for Extremely Skewed Misclassification Costs, 2005", 6),
}
CITED = re.compile(rf"({'|'.join(PAPERS)}), eqs?\. ((?:\(\d+\)(?:-\(\d+\))?(?:, and the terms of eq\. |, | and )?)+)")


def numbers(text: str) -> list[int]:
    """Read "(3)-(5) and (8)" as 3, 4, 5, 8."""
    numbers: list[int] = []
    for first, last in re.findall(r"\((\d+)\)(?:-\((\d+)\))?", text):
        numbers.extend(range(int(first), int(last or first) + 1))
    return numbers


def found() -> dict[str, dict[int, list[tuple[str, str]]]]:
    """Return for every paper and equation the functions that implement it: (module, name)."""
    table: dict[str, dict[int, list[tuple[str, str]]]] = {paper: {} for paper in PAPERS}
    for path in sorted(SOURCE.rglob("*.py")):
        for node, name in _documented(ast.parse(path.read_text())):
            first = (ast.get_docstring(node) or "").split("\n\n")[0]
            for paper, equations in CITED.findall(" ".join(first.split())):
                for equation in numbers(equations):
                    table[paper].setdefault(equation, []).append((path.stem, name))
    return table


def _documented(tree: ast.Module):
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node, node.name
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef):
                    yield inner, f"{node.name}.{inner.name}"
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node, node.name


def page_of(paper: str) -> str:
    """Return the page that walks through a paper's equations, as docs/ names it."""
    return "papers/" + "-".join(re.findall(r"[a-z]+", paper.lower())) + ".md"


def sections(paper: str) -> dict[int, str]:
    """Return, for each equation, the section of the paper's page that has it, as it stands in a link."""
    text = (DOCS / page_of(paper)).read_text()
    anchors = {}
    for title, numbered in re.findall(r"^## (Equations? (.*))$", text, re.MULTILINE):
        for equation in numbers(numbered.replace(" to ", "-")):
            anchors[equation] = re.sub(r"[^\w\s-]", "", title.lower()).replace(" ", "-")
    return anchors


def linked(html: str, up: str = "../") -> str:
    """Turn each citation in the HTML of a docstring into a link to the equation on the page of its paper.

    Examples
    --------
    >>> print(linked("Kolcz &amp; Yih, eq. (4): how much"))
    <a href="../papers/kolcz-yih.html#equation-4">Kolcz &amp; Yih, eq. (4)</a>: how much
    """

    def link(match: re.Match[str]) -> str:
        paper, cited = match[1].replace("&amp;", "&"), match[2]
        first = sections(paper)[numbers(cited)[0]]
        words = match[0].rstrip(" ,")
        return f'<a href="{up}{page_of(paper).replace(".md", ".html")}#{first}">{words}</a>{match[0][len(words) :]}'

    return re.sub(CITED.pattern.replace("&", "&amp;"), link, html)


def markdown() -> str:
    """Write the table."""
    lines = []
    for paper, (title, count) in PAPERS.items():
        lines += [f"## {paper}: {title}", "", "| equation | where |", "|---|---|"]
        places, anchors = found()[paper], sections(paper)
        rows: dict[tuple[str, str], list[str]] = {}
        for equation in range(1, count + 1):
            where = ", ".join(f"`{module}.{name}`" for module, name in places.get(equation, []))
            rows.setdefault((anchors[equation], where), []).append(f"({equation})")
        for (anchor, where), cited in rows.items():
            lines.append(f"| [{' '.join(cited)}]({page_of(paper)}#{anchor}) | {where} |")
        lines.append("")
    return "\n".join(lines)
