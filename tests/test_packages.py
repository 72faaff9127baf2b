"""The lock file of packages: fixed versions with hashes, within the bounds of the project."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]


def locked():
    """Return versions and hashes by name."""
    text = (ROOT / "packaging" / "requirements.lock").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.split() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    pins = {line[0].partition("==")[0]: (line[0].partition("==")[2], line[1:]) for line in lines}
    return {canonicalize_name(name): pin for name, pin in pins.items()}


def test_every_version_is_fixed_and_has_hashes():
    for name, (version, hashes) in locked().items():
        assert re.fullmatch(r"\d[\w.!+]*", version), name
        assert hashes, name
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", each) for each in hashes), name


def test_locked_versions_are_within_the_bounds_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras, pins = project["optional-dependencies"], locked()
    for text in (*project["dependencies"], *extras["server"], *extras["receipts"]):
        requirement = Requirement(text)
        version, _ = pins[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), f"{text}: {version}. Run `make lock`."


def test_what_is_used_beyond_its_interface_has_an_upper_bound():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = [Requirement(t) for t in (*project["dependencies"], *project["optional-dependencies"]["server"])]
    bounded = {one.name for one in required if any(bound.operator == "<" for bound in one.specifier)}
    assert {"click", "uvicorn", "starlette"} <= bounded
