"""A filter's manifest as typed values: scoring, table files, position in the journal, settings.

`surebayes filter` imports this module, so it imports neither numpy nor typing. Each part is validated at its first use,
so that a filter with damaged settings still judges.
"""

from surebayes._store_errors import BadModel, NoModel
from surebayes.kernels import ints
from surebayes.persist.manifest import read_manifest
from surebayes.persist.manifest import stable_read as read_until_stable
from surebayes.pool.specs import READERS, ViewSpec
from surebayes.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from surebayes.filter.model_settings import BaseLink, Settings
    from surebayes.kernels import Numbers

KIND = "filter"
LARGE = "tables"
"""The entry of the large file of tables; the smaller files on top of it are "stack.1", "stack.2", ..."""
MOST_ROWS = 2**53
MOST_COUNT = 2**31


class ViewTables(Record):
    """A view, and the places of its counts in the files of tables.

    Parameters
    ----------
    spec : ViewSpec
        The view.
    totals : list of int
        The sums of its counts, by class.
    alive : int
        The number of columns with counts.
    table : dict
        The places of its table in the large file.
    stack : list of [int, int]
        Entries and place of its table in each smaller file.
    stages : list
        Tables and intercepts of the second stages; None for a stage that isn't fitted.
    """

    spec: ViewSpec
    totals: "list[int]"
    alive: int
    table: "dict[str, int]"
    stack: "list[list[int]]" = []  # noqa: RUF012 - a default that each value copies
    stages: "list[dict[str, Any] | None]" = []  # noqa: RUF012

    @classmethod
    def from_json(cls, value: "Any", classes: int) -> "ViewTables":
        """Parse the JSON value of a view; BadModel for impossible totals."""
        spec, alive, totals = ViewSpec.from_json(value), value["alive"], value["totals"]
        whole = [alive, *totals]
        fits = len(totals) == classes and all(type(n) is int and 0 <= n < MOST_ROWS for n in whole)
        if not fits or alive >= MOST_COUNT:
            raise BadModel(f"The manifest has invalid totals: {whole}.")
        stages = value.get("stages") or []
        if len(stages) != sum([expert.second_stage is not None for expert in spec.experts]):
            raise BadModel(f"The view {spec.name!r} of the manifest needs one table for each second stage.")
        return cls(spec, totals, alive, value["table"], value.get("stack", []), stages)

    def to_json(self) -> "dict[str, Any]":
        """Return it as plain values."""
        value = {**self.spec.to_json(), "totals": self.totals, "alive": self.alive, "table": self.table}
        if self.stack:
            value["stack"] = self.stack
        if self.stages:
            value["stages"] = self.stages
        return value


class Scoring(Record):
    """The part of a manifest that judging needs.

    Parameters
    ----------
    reader : str
        How documents are read.
    classes : list of str
        The labels.
    documents : sequence of int
        The numbers learnt, by class.
    model : str
        The version.
    views : list of ViewTables
        The views.
    weights : dict
        The weights of the pool, as `PoolWeights.to_json` returns them.
    thresholds : dict of str to float
        Thresholds by class.
    probability : list of float, or None
        The map from scores to probabilities: slope, shift and floor.
    coverage : list, dict, or None
        The record of the pool's coverage of its documents; see `pool.coverage`.
    """

    reader: str
    classes: "list[str]"
    documents: "Numbers"
    model: str
    views: "list[ViewTables]"
    weights: "dict[str, Any]"
    thresholds: "dict[str, float]"
    probability: "Sequence[float] | None"
    coverage: "Any" = None

    @classmethod
    def from_json(cls, value: "Any") -> "Scoring":
        """Parse the scoring part of a manifest; BadModel if it is invalid."""
        reader, names, documents = value["reader"], value["classes"], ints(value["documents"])
        views = [ViewTables.from_json(view, len(documents)) for view in value["views"]]
        if reader not in READERS:
            raise BadModel(f"The manifest names the unknown reader {reader!r}.")
        fits = type(names) is list and len(documents) == len(names) >= 2 and min(documents) >= 0 and views
        if not fits or sum(documents) >= MOST_COUNT or not all(isinstance(name, str) for name in names):
            raise BadModel("The manifest has fewer than two classes, no views, or invalid numbers of documents.")
        weights = {name: value[name] for name in WEIGHTS if name in value}
        thresholds, probability = _thresholds(value["thresholds"]), _probability(value["probability"])
        version, coverage = str(value["model"]), value.get("coverage")
        return cls(reader, names, documents, version, views, weights, thresholds, probability, coverage)

    def to_json(self) -> "dict[str, Any]":
        """Return it as plain values."""
        return {
            "reader": self.reader,
            "classes": self.classes,
            "documents": list(self.documents),
            "model": self.model,
            "views": [view.to_json() for view in self.views],
            **self.weights,
            "thresholds": self.thresholds,
            "probability": self.probability,
            **({} if self.coverage is None else {"coverage": self.coverage}),
        }


WEIGHTS = ("weights", "bias", "bounds")
"""The entries of a manifest that `PoolWeights.to_json` writes."""


def _thresholds(value: object) -> "dict[str, float]":
    if not isinstance(value, dict) or not all(_is_finite(v) for v in value.values()):
        raise BadModel(f"The manifest has thresholds that are not numbers: {value!r}.")
    return {name: float(threshold) for name, threshold in value.items()}


def _probability(value: object) -> "tuple[float, float, float] | None":
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 3 or not all(map(_is_finite, value)) or not 0 <= value[2] <= 0.5:
        raise BadModel(f"The manifest has an invalid map to probabilities: {value!r}.")
    return float(value[0]), float(value[1]), float(value[2])


def _is_finite(value: object) -> bool:
    return isinstance(value, (int, float)) and -1e308 <= value <= 1e308


class Place(Record):
    """A model's position in its journal.

    Parameters
    ----------
    id : str
        The journal's ID.
    absorbed, chain : int
        The number of the last row in the model, and the running checksum up to that row.
    learnt_at : int
        The last row that changed scores.
    floor : int
        The earliest row for rollback, since messages were learnt without a journal before it.
    lessons : int
        Rows that changed counts.
    known : dict or None
        Numbers of learnt and of reserved messages, by class; None in a manifest of an early release.
    reread : list of int
        A row and a reader's version: a rebuild counted all rows up to this one with that reader.
    """

    id: str
    absorbed: int
    chain: int
    learnt_at: int
    floor: int
    lessons: int = 0
    known: "dict[str, dict[str, int]] | None" = None
    reread: "Sequence[int]" = (0, 0)

    @classmethod
    def from_json(cls, value: "Any") -> "Place":
        """Parse the position in a manifest; BadModel for impossible row numbers."""
        place = cls(**{name: value[name] for name in cls.FIELDS if name in value})
        counts = [] if place.known is None else [n for by_class in place.known.values() for n in by_class.values()]
        rows = [place.absorbed, place.chain, place.learnt_at, place.floor]
        if type(place.id) is not str or not all(type(n) is int and 0 <= n < MOST_ROWS for n in rows):
            raise BadModel("The manifest has invalid row numbers of the journal.")
        if len(place.reread) != 2 or not all(
            type(n) is int and 0 <= n < MOST_ROWS for n in (*place.reread, place.lessons, *counts)
        ):
            raise BadModel("The manifest has invalid numbers of messages.")
        return place

    def to_json(self) -> "dict[str, Any]":
        """Return it as plain values."""
        return {**self.as_dict(), "reread": list(self.reread)}


class Manifest:
    """The manifest of a filter's folder.

    Parameters
    ----------
    values : dict
        The content of the file.
    folder : str
        The folder, for error messages.
    """

    __slots__ = ("_parts", "folder", "values")

    def __init__(self, values: "dict[str, Any]", folder: str = "") -> None:
        self.values, self.folder = values, folder
        self._parts: dict[tuple[str, Any], Any] = {}

    @classmethod
    def read(cls, folder: str) -> "Manifest":
        """Read the manifest of a folder, and verify its checksum."""
        return cls(read_manifest(folder, KIND), folder)

    @property
    def scoring(self) -> Scoring:
        """Return the part that judging needs."""
        return self._part("scoring", Scoring.from_json)  # type: ignore[no-any-return]

    @property
    def place(self) -> Place:
        """Return the model's position in the journal."""
        return self._part("journal", Place.from_json)  # type: ignore[no-any-return]

    @property
    def settings(self) -> "Settings":
        """Thresholds, promises and weights."""
        from surebayes.filter.model_settings import Settings

        return self._part("settings", Settings.from_json)  # type: ignore[no-any-return]

    @property
    def files(self) -> "dict[str, dict[str, Any]]":
        """The files, each with its name, size and SHA-256."""
        return self._part("files", _entries)  # type: ignore[no-any-return]

    @property
    def tables(self) -> "list[str]":
        """The entries of `files` that are tables: the large one, then the smaller ones, oldest first."""
        names, files = [LARGE], self.files
        while f"stack.{len(names)}" in files:
            names.append(f"stack.{len(names)}")
        return names

    @property
    def base_record(self) -> "dict[str, Any] | None":
        """A layer's record of its base."""
        noted = self.values.get("standing")
        return noted if isinstance(noted, dict) else None

    @property
    def tuned(self) -> str:
        """Identity of the weights."""
        return f"{self.place.id}:{self._part('settings', _weights_since)}"

    @property
    def link(self) -> "BaseLink | None":
        """The base of a layer; None for a filter without one."""
        settings = self.values.get("settings")
        if not isinstance(settings, dict) or settings.get("base") is None:
            return None
        from surebayes.filter.model_settings import BaseLink

        return BaseLink.from_json(settings["base"])

    @property
    def x_spam(self) -> bool:
        """Return whether the filter's settings ask for X-Spam-* fields."""
        return bool(self._config("x_spam"))

    @property
    def has_budget(self) -> bool:
        """Return whether the filter's settings have a budget of alarms."""
        return bool(self._config("budget"))

    def _config(self, name: str) -> object:
        config = self.values.get("config", {})
        return config.get(name) if isinstance(config, dict) else None

    def _part(self, name: str, read: "Any") -> "Any":
        """Return a part, validated once."""
        key = name, read
        if key not in self._parts:
            try:
                self._parts[key] = read(self.values.get(name))
            except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
                if isinstance(error, BadModel):
                    raise
                problem = f"{type(error).__name__} {error}"
                raise BadModel(f"The manifest in {self.folder!r} has no valid {name!r}: {problem}.") from None
        return self._parts[key]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Manifest) and self.values == other.values

    __hash__ = None  # type: ignore[assignment]


def _entries(value: "Any") -> "dict[str, dict[str, Any]]":
    if not isinstance(value, dict) or not all(
        isinstance(entry, dict) and isinstance(entry.get("file"), str) for entry in value.values()
    ):
        raise TypeError("no files by name")
    return value


def _weights_since(settings: "Any") -> int:
    row = settings["weights_since"]
    if type(row) is not int:
        raise TypeError(f"weights_since is {row!r}")
    return row


def stable_read(folder: str, read: "Any") -> "Any":
    """Apply `read` to a folder's manifest, again if a writer has replaced the files in the meantime.

    BadModel if a file of the current manifest is missing.
    """
    try:
        return read_until_stable(lambda: Manifest.read(folder), read)
    except NoModel:
        raise
    except FileNotFoundError as error:
        from os.path import basename

        raise BadModel(f"{basename(str(error.filename))} in {folder!r} is missing. Restore it from a copy.") from None
