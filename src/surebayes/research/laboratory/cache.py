"""Disk cache of results and count matrices, keyed by a digest of corpus contents, code and settings."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

# Modules that every figure depends on, besides its paper's module.
CODE = [
    "core.sums",
    "core.statistics",
    "core.represent",
    "core.weigh",
    "core.estimate",
    "core.score",
    "core.reversal",
    "core.decide",
    "core.freezing",
    "core.cross_validation",
    "metrics.measures",
    "metrics.significance",
    "classifiers.base",
    "classifiers.class_normalized",
    "classifiers.discriminant",
    "classifiers.multinomial",
    "classifiers.opinion_pool",
    "classifiers.poisson",
    "classifiers.rates",
    "classifiers.reversal",
    "classifiers.term_weighting",
    "research.laboratory.baselines",
    "research.laboratory.lab",
    "research.laboratory.words",
    "research.laboratory.porter",
]
# Further modules that one paper depends on.
EXTRA_CODE = {"research.papers.junejo_karim": ("research.laboratory.random_draws",)}


def default_folder() -> Path:
    """Return the user's cache folder: ``surebayes`` in $XDG_CACHE_HOME, else in ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "surebayes"


def digest(*parts: Any) -> str:
    """Return a short digest of JSON values; the order of mappings doesn't matter.

    Examples
    --------
    >>> from surebayes.research.laboratory.cache import digest
    >>> digest({"a": 1, "b": [2]}) == digest({"b": [2], "a": 1}), digest(1) == digest(2)
    (True, False)
    """
    text = json.dumps(parts, sort_keys=True, default=str, ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@lru_cache
def code_digest(modules: tuple[str, ...]) -> str:
    """Return a digest of the source code of modules of this package."""
    total = hashlib.blake2b(digest_size=16)
    for name in sorted({*modules, *(other for module in modules for other in EXTRA_CODE.get(module, ()))}):
        spec = find_spec(f"surebayes.{name}")
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(f"There is no module surebayes.{name}.")
        total.update(Path(spec.origin).read_bytes())
    return total.hexdigest()


def content_digest(path: Path) -> str:
    """Return a digest of a file's contents, or of the names, sizes and modification times of a folder's files."""
    total = hashlib.blake2b(digest_size=16)
    if path.is_file():
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                total.update(block)
        return total.hexdigest()
    for file_path in sorted(path.rglob("*")):
        if file_path.is_file():
            status = file_path.stat()
            total.update(f"{file_path.relative_to(path)} {status.st_size} {status.st_mtime_ns}\n".encode())
    return total.hexdigest()


class Cache:
    """A folder with one file per result, each written atomically.

    Parameters
    ----------
    folder : path, optional
        The cache folder; by default the user's.

    Examples
    --------
    >>> import tempfile
    >>> from surebayes.research.laboratory.cache import Cache
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cache = Cache(folder)
    ...     cache.write("1f", {"auc": 0.5})
    ...     cache.read("1f"), cache.read("2f")
    ({'auc': 0.5}, None)
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.folder = default_folder() if folder is None else Path(folder)

    def _path(self, key: str, kind: str) -> Path:
        return self.folder / key[:2] / f"{key}.{kind}"

    def _write(self, path: Path, save: Callable[[Any], None]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".")
        try:
            with os.fdopen(descriptor, "wb") as file:
                save(file)
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def read(self, key: str) -> Any:
        """Return the result for a key; None if it is missing or unreadable."""
        try:
            return json.loads(self._path(key, "json").read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None

    def write(self, key: str, value: Any) -> None:
        """Store a result."""
        self._write(self._path(key, "json"), lambda file: file.write(json.dumps(value).encode()))

    def arrays(self, key: str, make: Callable[[], Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
        """Return the arrays stored under a key; if there are none, make and store them."""
        path = self._path(key, "npz")
        try:
            with np.load(path, allow_pickle=False) as stored:
                return {name: stored[name] for name in stored.files}
        except (FileNotFoundError, ValueError, OSError, EOFError):
            arrays = dict(make())
            self._write(path, lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]
            return arrays
