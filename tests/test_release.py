"""A release: its version comes from the tag, its notes from the changes."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import changelog  # noqa: E402

WRITTEN = """# Changelog

## [Unreleased]

### Added

- A thing
  of two lines.

<!-- releases -->
## [0.1.0] - 2026-01-01

### Fixed

- A fault.
"""


def run(folder, *words):
    return subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def version_of(folder):
    return run(folder, sys.executable, "-m", "setuptools_scm")


@pytest.fixture
def project(tmp_path):
    pytest.importorskip("towncrier", reason="the tools of a release are not installed")
    folder = tmp_path / "project"
    (folder / "changes").mkdir(parents=True)
    for name in ("pyproject.toml", "CITATION.cff", "changes/_template.md", "changes/README.md"):
        shutil.copy(ROOT / name, folder / name)
    (folder / "CHANGELOG.md").write_text(WRITTEN)
    return folder


def test_notes_written_by_hand_and_in_files_become_one_release(project):
    (project / "changes" / "other.added.md").write_text("Another thing.\n")
    (project / "changes" / "hole.security.md").write_text("A hole is closed.\n")
    changelog.release(project, "0.2.0", "2026-02-03")
    text = (project / "CHANGELOG.md").read_text()
    head, new, old = text.split("\n## ")[1:]
    assert head.split() == ["[Unreleased]", "<!--", "releases", "-->"]
    assert new.startswith("[0.2.0] - 2026-02-03\n\n### Added\n\n- ")
    assert new.count("### Added") == 1
    assert "- A thing\n  of two lines.\n" in new
    assert "- Another thing.\n" in new
    assert new.rstrip().endswith("### Security\n\n- A hole is closed.")
    assert old.startswith("[0.1.0]")
    assert sorted(path.name for path in (project / "changes").iterdir()) == ["README.md", "_template.md"]
    assert "version: 0.2.0\ndate-released: 2026-02-03\n" in (project / "CITATION.cff").read_text()


def test_a_second_release_goes_above_the_first(project):
    changelog.release(project, "0.2.0", "2026-02-03")
    (project / "changes" / "x.fixed.md").write_text("Less.\n")
    changelog.release(project, "0.2.1", "2026-02-04")
    text = (project / "CHANGELOG.md").read_text()
    assert text.index("[0.2.1]") < text.index("[0.2.0]") < text.index("[0.1.0]")
    assert (project / "CITATION.cff").read_text().count("date-released") == 1


def test_the_changelog_can_be_gathered_as_it_is():
    _, section, _ = changelog.unreleased((ROOT / "CHANGELOG.md").read_text())
    types = {
        kind["directory"] for kind in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]["type"]
    }
    entries = changelog.entries(section)
    assert {kind for kind, _ in entries} <= types
    assert len(entries) == sum(line.startswith("- ") for line in section.splitlines())


def test_a_changelog_without_its_mark_is_refused():
    with pytest.raises(SystemExit, match="releases"):
        changelog.unreleased("# Changelog\n\n## [Unreleased]\n")


@pytest.fixture
def clone(tmp_path):
    pytest.importorskip("setuptools_scm", reason="the tools of a release are not installed")
    folder = tmp_path / "clone"
    folder.mkdir()
    shutil.copy(ROOT / "pyproject.toml", folder)
    who = ("-c", "user.name=a", "-c", "user.email=a@localhost")
    run(folder, "git", "init", "-q")
    run(folder, "git", "add", ".")
    run(folder, "git", *who, "commit", "-qm", "one")
    return folder


def test_the_version_comes_from_the_tag(clone):
    assert version_of(clone).startswith("0.1.dev1+g")
    run(clone, "git", "tag", "v1.2.3")
    assert version_of(clone) == "1.2.3"


def test_a_shallow_clone_and_files_without_history_have_a_version(clone, tmp_path):
    run(tmp_path, "git", "clone", "-q", "--depth=1", f"file://{clone}", "shallow")
    assert version_of(tmp_path / "shallow").startswith("0.1.dev")
    shutil.rmtree(clone / ".git")
    assert version_of(clone) == "0.1.dev0"


def test_the_package_says_its_version_again_and_again():
    asked = "import surebayes as sb; print(sb.__version__ == sb.__version__ != '0+unknown', '__version__' in dir(sb))"
    assert run(ROOT, sys.executable, "-c", asked) == "True True"
