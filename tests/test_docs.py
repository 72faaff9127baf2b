"""Docs that can't lie: their code runs, their tables are complete, their equations resolve."""

import doctest
import importlib
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import surebayes as sb

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import equations  # noqa: E402
import shown_commands  # noqa: E402

CALLS = re.findall(r"\| `([A-Z]\w+\(.*\))` \|", (ROOT / "docs" / "variants.md").read_text())


@pytest.mark.parametrize("call", CALLS)
def test_every_variant_of_the_papers_is_a_constructor_call(call):
    generator = np.random.default_rng(0)
    X, y = generator.poisson(1.0, (30, 12)), generator.integers(0, 3, 30)
    estimator = eval(call, {name: getattr(sb, name) for name in sb.__all__ if name[0].isupper() and name in call})
    fitted = estimator.fit(X, y)
    result = fitted.transform(X) if hasattr(fitted, "transform") else fitted.decision_function(X)
    assert result.shape[0] == 30


def test_the_table_of_variants_names_every_classifier():
    named = {call.split("(")[0] for call in CALLS}
    assert named >= {
        "MultinomialNB",
        "OpinionPoolNB",
        "PoissonNB",
        "ClassNormalizedNB",
        "CentroidClassifier",
        "TermDiscriminant",
        "DecisionReversalNB",
        "TermWeighting",
    }


def test_every_equation_of_the_five_papers_resolves():
    places = equations.found()
    for paper, (_, count) in equations.PAPERS.items():
        missing = [n for n in range(1, count + 1) if n not in places[paper]]
        assert not missing, f"{paper}: no function names equation {missing}"


def test_every_equation_of_the_promises_resolves():
    page = (ROOT / "docs" / "equations.md").read_text().partition("## The promises")[2]
    names = re.findall(r"\| `([a-z_]+\.[A-Za-z_.]+)` \|", page)
    assert len(names) == 8
    for name in names:
        module, *path = name.split(".")
        found = importlib.import_module(f"surebayes.guarantees.{module}")
        for part in path:
            found = getattr(found, part)
        assert found.__doc__


def test_ranges_of_equations_are_read():
    assert equations.numbers("(3)-(5) and (8)") == [3, 4, 5, 8]


@pytest.mark.parametrize(
    "page", ["README.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]
)
def test_examples_in_the_docs_run(page):
    """Everything that looks like a Python session in the docs is run as one."""
    failed, _ = doctest.testfile(str(ROOT / page), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert failed == 0


@pytest.mark.parametrize("page", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs"])
def test_links_lead_somewhere(page):
    pages = sorted((ROOT / page).rglob("*.md")) if (ROOT / page).is_dir() else [ROOT / page]
    for path in pages:
        for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
            assert (path.parent / target).exists(), f"{path.name} links to {target}, which is not there"


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_paths_that_are_named_are_there(page):
    named = re.findall(r"`((?:[a-z_0-9-]+/)+(?:[a-z_0-9]+\.[a-z]+)?|[a-z_0-9]+\.py)`", (ROOT / page).read_text())
    assert len(named) > 10
    for path in named:
        assert (ROOT / "src/surebayes" / path).exists() or (ROOT / path).exists(), f"{page} names {path}"


def test_readers_with_text_instead_of_mail_find_the_way_on_the_first_screen():
    first = (ROOT / "README.md").read_text().partition("\n## ")[0]
    assert 'ViewPool("text")' in first
    assert 'reader="text"' in first
    assert "--reader text" in first


@pytest.mark.parametrize(
    "page",
    ["docs/choosing.md", *(f"docs/tutorials/{page}.md" for page in ("administrator", "guard", "researcher"))],
)
def test_commands_in_the_tutorials_run(page, tmp_path, monkeypatch):
    monkeypatch.delenv("SUREBAYES_DATA", raising=False)  # as for a reader who has no corpora
    for command in shown_commands.commands(ROOT / page):
        shown_commands.run(command, tmp_path)


def test_a_command_that_fails_is_noticed(tmp_path):
    with pytest.raises(RuntimeError, match="no-such-filter"):
        shown_commands.run("surebayes doctor -m no-such-filter | cat", tmp_path)


@pytest.mark.parametrize("paper", equations.PAPERS)
def test_every_equation_has_its_section_on_the_page_of_the_paper(paper):
    assert sorted(equations.sections(paper)) == list(range(1, equations.PAPERS[paper][1] + 1))


def test_the_code_beside_an_equation_is_found_and_cites_it():
    site_hooks = pytest.importorskip("site_hooks", reason="the tools of the site are not installed")
    for page in (ROOT / "docs" / "papers").glob("*.md"):
        for name in site_hooks.CODE.findall(page.read_text()):
            assert "eq" in site_hooks.source(name), f"{page.name}: {name} names no equation"


@pytest.mark.parametrize("script", sorted((ROOT / "examples" / "gallery").glob("*.py")), ids=lambda path: path.stem)
def test_the_gallery_runs(script, tmp_path):
    finished = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=500)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout


def test_every_shipped_call_of_spamc_takes_large_mail():
    """By default spamc leaves out what is over 500 kB; what it is given here is what the server takes by default."""
    files = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *(f for f in ROOT.glob("examples/**/*") if f.is_file())]
    calls = [line for file in files for line in file.read_text().splitlines() if re.search(r"\bspamc -", line)]
    assert len(calls) >= 2
    assert [line for line in calls if "-s 67108864" not in line] == []
