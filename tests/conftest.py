"""Fixtures that every test may use."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from surebayes import kernels

kernels._warned = (
    True  # where there is no compiler the references take over, and their one warning is not an error of the tests
)

settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("default")


@pytest.fixture(scope="session")
def corpora_folder() -> Path:
    """The folder of corpora; tests that need one are skipped where there is none."""
    folder = os.environ.get("SUREBAYES_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("SUREBAYES_DATA names no folder of corpora")
    return Path(folder)
