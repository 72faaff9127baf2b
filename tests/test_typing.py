"""Public names as type checkers and editors see them: what a typed user's script gets."""

import ast
import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import surebayes as sb

pytestmark = pytest.mark.xdist_group("types")
STUB = Path(sb.__file__).with_suffix(".pyi")

SCRIPT = """
from pathlib import Path
from typing import Any, assert_type

import surebayes as sb
from surebayes import corpora, metrics, streams, synthetic

TEXTS = ["buy gold", "lunch at noon"] * 20
LABELS = ["spam", "ham"] * 20


def classifiers() -> None:
    vectorizer = assert_type(sb.CountVectorizer(min_df=2), sb.CountVectorizer)
    rows = vectorizer.fit_transform(TEXTS)
    nb = assert_type(sb.MultinomialNB(tf="binary").fit(rows, LABELS), sb.MultinomialNB)
    assert_type(nb.partial_fit(rows, LABELS), sb.MultinomialNB)
    decided: list[Any] = nb.predict(rows).tolist()
    best = max(nb.decision_function(rows).tolist())
    print(decided, best, nb.predict_proba(rows)[:, 1])
    for why in nb.explain(rows, top=3):
        print(why)
    other = assert_type(sb.DecisionReversalNB(sb.OpinionPoolNB(stages=2)), sb.DecisionReversalNB)
    sb.save(nb, Path("model"))
    print(other, sb.load("model"), sb.__version__.upper())


def pool() -> None:
    pool = assert_type(sb.ViewPool("text").fit(TEXTS, LABELS), sb.ViewPool)
    print(pool.predict(TEXTS).shape, pool.decision_function(TEXTS).mean())


def promises() -> None:
    guard = sb.GuaranteedThreshold(sb.MultinomialNB(), max_fpr=0.01, confidence=0.9)
    assert_type(guard.fit([[1, 0], [0, 1]], [0, 1]), sb.GuaranteedThreshold)
    try:
        certificate = sb.certify([0.1, 0.9], [False, True], max_fpr=0.5)
        print(certificate.threshold + 1, certificate.to_json().upper(), certificate.guaranteed)
    except sb.NotEnoughNegatives as error:
        print(error)
    budget = assert_type(sb.AlarmBudget(rate=0.01, burst=5), sb.AlarmBudget)
    budget.record(True)
    print(budget.debt + 1, metrics.partial_auc([0, 1], [0.1, 0.9], max_fpr=0.1) + 1)


def filters() -> None:
    try:
        with sb.Filter.create("mine", classes=("ham", "spam")) as mine:
            assert_type(mine, sb.Filter)
            print(mine.teach(b"Subject: lunch", "ham").upper())
            verdict = assert_type(mine.judge(b"Subject: gold"), sb.Verdict)
            print(verdict.label.upper(), verdict.score + 1)
    except sb.StoreError as error:
        print(error)
    message = assert_type(sb.read_message(b"Subject: gold"), sb.Message)
    print(message.subject.upper())


def modules() -> None:
    print(sorted(corpora.catalogue()), corpora.load, streams.read_files, synthetic.mail_stream, sb.metrics.roc_auc)
"""

MISTAKES = """
import surebayes as sb
from surebayes import NoSuchName
sb.no_such_name
sb.MultinomialNB(no_such_parameter=1)
sb.AlarmBudget(rate="often")
sb.read_message(b"").no_such_field
sb.corpora.no_such_name
"""


def checked_by_mypy(folder, script):
    """Return the lines of a script that mypy refuses, and what it says."""
    (folder / "script.py").write_text(script)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file",
        os.devnull,
        "--cache-dir",
        str(folder.parent / "mypy_cache"),  # for all tests of a worker: the package is read once
    ]
    done = subprocess.run([*command, "script.py"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line}, done.stdout


def checked_by_pyright(folder, script):
    """Return the lines of a script that pyright refuses, and what it says."""
    program = Path(sys.executable).with_name("pyright")
    if not program.exists() or shutil.which("node") is None:
        pytest.skip(
            "pyright needs its package from PyPI and node on the path: without both it asks the network for them"
        )
    (folder / "script.py").write_text(script)
    done = subprocess.run(
        [program, "--outputjson", "--pythonpath", sys.executable, "script.py"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = [each for each in json.loads(done.stdout)["generalDiagnostics"] if each["severity"] == "error"]
    return {each["range"]["start"]["line"] + 1 for each in found}, "\n".join(each["message"] for each in found)


@pytest.fixture(params=[checked_by_mypy, checked_by_pyright])
def checked(request, tmp_path):
    return lambda script: request.param(tmp_path, script)


def test_a_typed_user_s_script_has_no_error(checked):
    lines, said = checked(SCRIPT)
    assert lines == set(), said


def test_every_mistake_in_a_typed_user_s_script_is_found(checked):
    lines, said = checked(MISTAKES)
    assert lines == set(range(3, 1 + MISTAKES.count("\n"))), said


def test_no_public_name_is_an_object_or_any(checked):
    names = [name for name in sb.__all__ if name != "__version__"]
    script = "import surebayes as sb\n" + "".join(f"{name}: int = sb.{name}\n" for name in names)  # refused, unless Any
    lines, said = checked(script)
    assert lines == set(range(2, 2 + len(names))), said
    assert not any('"object"' in line for line in said.splitlines()), said


def test_the_stub_names_what_the_package_loads():
    """Each name, from the module that defines it; nothing else but the version."""
    tree = ast.parse(STUB.read_text())
    imported = {
        (alias.name, node.module)
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }
    modules = {(name, "surebayes") for name in sb._MODULES}
    assert imported == modules | {(name, f"surebayes.{home}") for name, home in sb._HOME.items()}
    assert len(tree.body) == 2 + len(imported)
    for name in sb._MODULES:
        assert getattr(sb, name) is importlib.import_module(f"surebayes.{name}")


def test_the_stub_comes_with_the_package():
    settings = Path(__file__).parents[1] / "pyproject.toml"
    assert '"__init__.pyi"' in settings.read_text()
