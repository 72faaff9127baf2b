"""The generated pages of the site: the references of Python and of the commands, the examples, the changes.

Run by mkdocs (plugin gen-files).
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import mkdocs_gen_files

sys.path.insert(0, str(Path(__file__).parent))

import command_pages

ROOT = Path(__file__).resolve().parent.parent

GROUPS = {
    "Classifiers": [
        "MultinomialNB", "OpinionPoolNB", "PoissonNB", "ClassNormalizedNB", "CentroidClassifier", "TermDiscriminant",
        "DecisionReversalNB", "ComplementNB", "BernoulliNB", "TunedNB", "TermWeighting", "Explanation",
    ],
    "Text": ["CountVectorizer", "HashingVectorizer", "TfidfVectorizer", "TextScorer", "Views"],
    "Pools and filters": ["ViewPool", "Filter", "Verdict", "Message", "read_message"],
    "Promises": [
        "GuaranteedThreshold", "BudgetedThreshold", "AlarmBudget", "AlarmAudit", "AnytimeCertificate", "certify",
        "DriftMonitor", "ScoreMonitor", "NotEnoughNegatives",
    ],
    "Models on disk": ["save", "load", "SurebayesError", "StoreError"],
    "Research": ["compare"],
}  # fmt: skip
OPENINGS = {
    "Classifiers": "::: surebayes.classifiers\n    options:\n      members: false\n      show_root_heading: false\n\n"
}
"""The beginning of a page: the parameters that the classifiers share."""

MODULES = {
    "metrics": ["metrics.measures", "metrics.ranking", "metrics.significance"],
    "cluster": ["cluster"],
    "core": [f"core.{name}" for name in ("represent", "weigh", "estimate", "score", "decide", "reversal", "freezing")],
}


def homes() -> dict[str, str]:
    """Return the module that defines each public name, as the package itself lists them."""
    tree = ast.parse((ROOT / "src/surebayes/__init__.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "_HOME":
            table: dict[str, str] = ast.literal_eval(node.value)
            return table
    raise LookupError("src/surebayes/__init__.py has no table _HOME")


def reference() -> Iterator[tuple[str, str]]:
    """Return each page of the reference: file name and Markdown."""
    home, described = homes(), {name for names in GROUPS.values() for name in names}
    if missing := sorted(set(home) - described):
        raise LookupError(f"tools/site_pages.py: no group has {', '.join(missing)}")
    index = [
        "# Python reference",
        "",
        "`import surebayes as sb` loads nothing heavy: each name comes when it is first used.",
        "",
    ]
    for title, names in GROUPS.items():
        page = title.lower().replace(" ", "-") + ".md"
        index.append(f"- [{title}]({page}): {', '.join(f'`{name}`' for name in names)}")
        opening = OPENINGS.get(title, "")
        yield page, f"# {title}\n\n{opening}" + "\n".join(f"::: surebayes.{home[name]}.{name}\n" for name in names)
    for name, modules in MODULES.items():
        index.append(f"- [surebayes.{name}]({name}.md)")
        options = "    options:\n      show_root_heading: false\n      show_root_toc_entry: false\n"
        yield f"{name}.md", f"# surebayes.{name}\n\n" + "\n".join(f"::: surebayes.{m}\n{options}" for m in modules)
    yield "index.md", "\n".join(index) + "\n"


def gallery() -> Iterator[tuple[str, str]]:
    """Return a page for each script of examples/gallery: its docstring and its code."""
    index = ["# Examples", "", "Each is a script of `examples/gallery` that the tests run as it stands.", ""]
    for path in sorted((ROOT / "examples" / "gallery").glob("*.py")):
        source = path.read_text(encoding="utf-8")
        about = ast.get_docstring(ast.parse(source)) or ""
        title, _, text = about.partition("\n\n")
        code = source.split('"""', 2)[2].strip()
        page = f"{path.stem.replace('_', '-')}.md"
        index.append(f"- [{title.rstrip('.')}]({page})")
        yield page, f"# {title.rstrip('.')}\n\n{text}\n\n```python\n{code}\n```\n"
    yield "index.md", "\n".join(index) + "\n"


def catalogue() -> str:
    """Return the page of all corpora: publisher, terms, contents, how to get each."""
    from surebayes import corpora

    lines = ["# Catalogue of corpora", "", "The entries that `surebayes corpora info NAME` prints.", ""]
    for entry in corpora.catalogue().values():
        lines += [f"## {entry.name}", "", f"{entry.title}: {entry.contents}.", ""]
        lines += [f"- Publisher: {entry.publisher}", f"- Terms: {entry.licence}", f"- How to get it: {entry.obtain}"]
        lines += [*(f"- {note}" for note in entry.notes), ""]
    return "\n".join(lines)


def inside(text: str, folder: str) -> str:
    """Turn links of a file outside docs/ into links of the site; links to missing pages become plain text."""

    def moved(match: re.Match[str]) -> str:
        label, target = match[1], match[2]
        if target.startswith("docs/decisions") and not target.endswith(".md"):
            return f"[{label}](decisions/the-journal-is-the-truth.md)"
        if target.startswith("docs/"):
            return f"[{label}]({target.removeprefix('docs/')})"
        if target.startswith(("http", "#")):
            return match[0]
        up = (Path(folder) / target).as_posix()
        if up.startswith(f"{folder}/../../docs/"):
            return f"[{label}]({up.removeprefix(f'{folder}/../../docs/')})"
        return f"`{label.strip('`')}`"

    return re.sub(r"\[([^\]]+)\]\(([^)]+)\)", moved, text)


def main() -> None:
    """Write all of them."""
    for folder, written in (("api", reference()), ("examples", gallery()), ("command", command_pages.pages())):
        for page, text in written:
            with mkdocs_gen_files.open(f"{folder}/{page}", "w") as file:
                file.write(text)
    with mkdocs_gen_files.open("corpora-catalogue.md", "w") as file:
        file.write(catalogue())
    for source, page in (
        ("ARCHITECTURE.md", "architecture.md"),
        ("CHANGELOG.md", "changes.md"),
        ("examples/mail/README.md", "mail-examples.md"),
    ):
        folder = str(Path(source).parent)
        with mkdocs_gen_files.open(page, "w") as file:
            file.write(inside((ROOT / source).read_text(), folder))


main()
