"""Gather the changes of a release into CHANGELOG.md, and write its number and date into CITATION.cff.

`python tools/changelog.py` shows the changes of the next release; `python tools/changelog.py 1.2.0` writes it. Changes
are files of changes/, which towncrier gathers; text below "Unreleased" becomes such files first.
"""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADING, MARK = "## [Unreleased]\n", "<!-- releases -->\n"


def entries(section: str) -> list[tuple[str, str]]:
    r"""Return the kind and the text of each entry of a section of CHANGELOG.md.

    Examples
    --------
    >>> entries("### Added\n\n- One thing\n  of two lines.\n- Another.\n\n### Fixed\n\n- A third.\n")
    [('added', 'One thing\nof two lines.'), ('added', 'Another.'), ('fixed', 'A third.')]
    """
    entries = []
    for part in re.split(r"^### ", section, flags=re.MULTILINE)[1:]:
        kind, _, listed = part.partition("\n")
        for text in re.split(r"^- ", listed, flags=re.MULTILINE)[1:]:
            entries.append((kind.strip().lower(), text.strip().replace("\n  ", "\n")))
    return entries


def unreleased(changelog: str) -> tuple[str, str, str]:
    """Split the text of CHANGELOG.md at its unreleased section: before, the section itself, after."""
    if HEADING not in changelog or MARK not in changelog:
        raise SystemExit(f"CHANGELOG.md must have the lines {HEADING.strip()!r} and {MARK.strip()!r}, in this order.")
    before, _, rest = changelog.partition(HEADING)
    section, _, after = rest.partition(MARK)
    return before + HEADING + "\n", section, MARK + after


def release(folder: Path, version: str, day: str) -> None:
    """Write a release into the files of a folder."""
    path = folder / "CHANGELOG.md"
    before, section, after = unreleased(path.read_text(encoding="utf-8"))
    for number, (kind, text) in enumerate(entries(section)):
        (folder / "changes" / f"+{number:04}.{kind}.md").write_text(text + "\n", encoding="utf-8")
    path.write_text(before + after, encoding="utf-8")
    towncrier(folder, "--keep", "--version", version, "--date", day)
    for file in (folder / "changes").glob("*.*.md"):
        file.unlink()
    cited = folder / "CITATION.cff"
    text = re.sub(r"^date-released: .*\n", "", cited.read_text(encoding="utf-8"), flags=re.MULTILINE)
    cited.write_text(
        re.sub(r"^version: .*$", f"version: {version}\ndate-released: {day}", text, flags=re.MULTILINE),
        encoding="utf-8",
    )


def towncrier(folder: Path, *words: str) -> None:
    """Let towncrier gather the files of changes/."""
    subprocess.run([sys.executable, "-m", "towncrier", "build", "--dir", str(folder), *words], check=True)


def main(words: list[str]) -> None:
    """Show the next release, or write the given one."""
    if not words:
        print(unreleased((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))[1].strip(), flush=True)
        towncrier(ROOT, "--draft", "--version", "Unreleased")
    elif len(words) == 1 and re.fullmatch(r"\d+\.\d+\.\d+(rc\d+)?", words[0]):
        release(ROOT, words[0], f"{datetime.now(UTC):%Y-%m-%d}")
        print(f"CHANGELOG.md, CITATION.cff: {words[0]}. Look at them, commit, and tag the commit v{words[0]}.")
    else:
        raise SystemExit(f"A release is named by three numbers, such as 1.2.0. Got {' '.join(words)!r}.")


if __name__ == "__main__":
    main(sys.argv[1:])
