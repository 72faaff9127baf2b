"""Specifications of a pool's views and experts, as plain values.

They are stored as JSON in the manifest, the only description of a view. `surebayes filter` imports this module and
starts in milliseconds, so the module imports neither dataclasses nor numpy.
"""

from math import isfinite

from surebayes._store_errors import BadModel
from surebayes.record import Record

READERS = ("mail", "text")
"""Kinds of documents: raw messages, or plain text."""
PARTS = {"raw": bytes, "text": str}
"""The parts of a document that views read, properties of `surebayes.pool.document.Document`, by their types."""
MODELS = ("pool", "words")
"""Named sets of views."""
MAX_WIDTH = 2**31 - 1

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class ExpertSpec(Record):
    """A classifier on the terms of a view.

    Parameters
    ----------
    smoothing : float
        The smoothing constant added to counts.
    top : int, default=0
        The number of a document's strongest terms to use; 0 for all.
    second_stage : {None, "log-odds", "idf"}
        None for ``OpinionPoolNB(weight="abs", weighting="scoring", selection="posthoc")`` on the current counts (Kolcz
        & Yih, eqs. (3)-(4)); otherwise a frozen linear model on rows with these term weights, see
        `surebayes.pool.second_stage`.
    least : int, default=1
        Minimum document frequency of terms in the second stage.
    cost : float, default=1.0
        C of the second stage's support vector machine.

    Examples
    --------
    >>> ExpertSpec(0.01, 100).name
    'smoothing 0.01, best 100'
    >>> ExpertSpec.from_json(ExpertSpec(1.0, second_stage="idf").to_json()).second_stage
    'idf'
    """

    smoothing: float
    top: int = 0
    second_stage: "str | None" = None
    least: int = 1
    cost: float = 1.0

    @property
    def name(self) -> str:
        """The name in explanations."""
        if self.second_stage is not None:
            return f"second stage on {self.second_stage}"
        return f"smoothing {self.smoothing:g}" + (f", best {self.top}" if self.top else "")

    def to_json(self) -> "dict[str, Any]":
        """Return JSON values."""
        if self.second_stage is None:
            return {"smoothing": self.smoothing, "top": self.top or None}
        fields = {"second_stage": self.second_stage, "smoothing": self.smoothing, "least": self.least}
        return fields if self.cost == 1.0 else {**fields, "cost": self.cost}

    @classmethod
    def from_json(cls, value: object) -> "ExpertSpec":
        """Parse JSON values; BadModel if they are invalid."""
        fields = _object(value, "an expert")
        smoothing, cost = _positive(fields, "smoothing"), _positive(fields, "cost", 1.0)
        stage = fields.get("second_stage")
        if stage not in (None, "log-odds", "idf"):
            raise BadModel(f"The manifest has an expert with an unknown second stage: {stage!r}.")
        top = 0 if fields.get("top") is None else _whole(fields, "top", 1, MAX_WIDTH)
        return cls(smoothing, top, stage, _whole(fields, "least", 1, MAX_WIDTH, 1), cost)


class ViewSpec(Record):
    """One way to split a document into hashed terms, and the experts that share its counts.

    Parameters
    ----------
    name : str
        The name in explanations.
    part : str
        The view's input, one of `PARTS`: the message's source, or its subject and text.
    kind : {"bytes", "word"}
        Byte n-grams of the first `max_bytes` bytes, or n-grams of lower-cased words.
    low, high : int
        The range of n in n-grams.
    experts : tuple of ExpertSpec
        The classifiers on these terms.
    max_bytes : int, default=3000
        The maximum number of bytes that a byte view reads.
    tokens : bool, default=False
        Whether a message's header tokens are terms, too.
    times : bool, default=False
        Whether rows have term frequencies; can't be combined with `tokens`.
    width : int, default=2**22
        The number of hashed columns; only columns in use take memory.

    Examples
    --------
    >>> view = ViewSpec("words", "text", "word", 1, 1, (ExpertSpec(0.3),))
    >>> ViewSpec.from_json(view.to_json()) == view
    True
    """

    name: str
    part: str
    kind: str
    low: int
    high: int
    experts: "tuple[ExpertSpec, ...]" = ()
    max_bytes: int = 3000
    tokens: bool = False
    times: bool = False
    width: int = 2**22

    def _prepare(self) -> None:
        object.__setattr__(self, "experts", tuple(self.experts))

    def to_json(self) -> "dict[str, Any]":
        """Return JSON values."""
        fields = self.as_dict()
        experts = fields.pop("experts")
        return {**fields, "experts": [expert.to_json() for expert in experts]}

    @classmethod
    def from_json(cls, value: object) -> "ViewSpec":
        """Parse JSON values; BadModel if they are invalid."""
        fields = _object(value, "a view")
        try:
            written = repr([(name, fields[name]) for name in cls.FIELDS if name in fields])
        except RecursionError:
            raise BadModel("The manifest describes a view by values nested too deeply.") from None
        if written not in _parsed:
            if len(_parsed) >= _MOST_PARSED:
                _parsed.clear()
            _parsed[written] = cls._of_fields(fields)
        return _parsed[written]

    @classmethod
    def _of_fields(cls, fields: "dict[str, Any]") -> "ViewSpec":
        part, kind, name = fields.get("part"), fields.get("kind"), fields.get("name")
        if not isinstance(name, str) or part not in PARTS or kind not in ("bytes", "word"):
            raise BadModel(f"The manifest has a view of an unknown kind: {name!r}, {kind!r} of {part!r}.")
        low = _whole(fields, "low", 1, 100)
        experts = fields.get("experts")
        if not isinstance(experts, list) or not experts or len(experts) > 100:
            raise BadModel(f"The view {name!r} of the manifest has no experts.")
        flags = [fields.get(flag, False) for flag in ("tokens", "times")]
        if not all(isinstance(flag, bool) for flag in flags) or all(flags):
            raise BadModel(f"The view {name!r} of the manifest has invalid settings for tokens and times: {flags}.")
        return cls(
            name,
            part,
            kind,
            low,
            _whole(fields, "high", low, 100),
            tuple([ExpertSpec.from_json(expert) for expert in experts]),
            max_bytes=_whole(fields, "max_bytes", 1, 2**30, 3000),
            tokens=flags[0],
            times=flags[1],
            width=_whole(fields, "width", 2, MAX_WIDTH),
        )


_parsed: "dict[str, ViewSpec]" = {}
"""Views by their JSON text: all layers of a process share the views of their site."""
_MOST_PARSED = 100


def _object(value: object, what: str) -> "dict[str, Any]":
    if not isinstance(value, dict):
        raise BadModel(f"The manifest describes {what} by {value!r}, which is not an object.")
    return value


def _whole(fields: "dict[str, Any]", name: str, low: int, high: int, default: "int | None" = None) -> int:
    value = fields.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise BadModel(f"{name} must be an integer from {low} to {high}. The manifest has {value!r}.")
    return value


def _positive(fields: "dict[str, Any]", name: str, default: "float | None" = None) -> float:
    value = fields.get(name, default)
    if not isinstance(value, (int, float)) or not isfinite(value) or not 0 < value < 1e9:
        raise BadModel(f"An expert needs a {name} above 0 and below 1e9; the manifest has {value!r}.")
    return float(value)


# ---------------------------------------------------------------------- named sets

MAIL_EXPERTS = (ExpertSpec(0.01), ExpertSpec(0.01, 100), ExpertSpec(1.0))
TEXT_EXPERTS = (ExpertSpec(1.0), ExpertSpec(0.01))
"""The experts on every view of "mail" and of "text"."""
MAIL_MACHINE = ExpertSpec(1.0, second_stage="idf", least=2)
"""The linear machine of mail, outside the pool, because the pool's opinions are similar and share their errors."""

MAIL = (
    ViewSpec("raw 4", "raw", "bytes", 4, 4, MAIL_EXPERTS),
    ViewSpec("raw 5", "raw", "bytes", 5, 5, MAIL_EXPERTS),
    ViewSpec("raw 6", "raw", "bytes", 6, 6, MAIL_EXPERTS),
    ViewSpec("text 4", "text", "bytes", 4, 4, MAIL_EXPERTS),
    ViewSpec("words and header", "text", "word", 1, 2, (*MAIL_EXPERTS, MAIL_MACHINE), tokens=True),
    ViewSpec("words", "text", "word", 1, 1, MAIL_EXPERTS),
    ViewSpec("phrases", "text", "word", 1, 3, MAIL_EXPERTS),
)
"""The views of mail, chosen on the first third of SpamAssassin and Enron-Spam, and validated on the last third. The
machine and the weighting were chosen and validated on different parts of corpora: see docs/pool.md."""

_IDF, _IDF_OF_BYTES = ExpertSpec(1.0, second_stage="idf"), ExpertSpec(1.0, second_stage="idf", least=2, cost=5.0)


def _text(
    on_words: "tuple[ExpertSpec, ...]", on_phrases: "tuple[ExpertSpec, ...]", on_bytes: "tuple[ExpertSpec, ...]"
) -> "tuple[ViewSpec, ...]":
    """Return the views of text with these second stages."""
    return (
        ViewSpec("words", "text", "word", 1, 1, (*TEXT_EXPERTS, *on_words), times=True),
        ViewSpec("phrases", "text", "word", 1, 3, (*TEXT_EXPERTS, *on_phrases)),
        ViewSpec("bytes", "text", "bytes", 3, 5, (ExpertSpec(0.01), *on_bytes), max_bytes=10_000),
    )


def _log_odds(smoothing: float) -> ExpertSpec:
    return ExpertSpec(smoothing, second_stage="log-odds", least=2)


TEXT = _text((_log_odds(5.0), _IDF), (_log_odds(20.0),), (_log_odds(0.1), _IDF_OF_BYTES))
"""The views of text for two classes, chosen on training documents: see docs/pool.md."""
TEXT_OF_MANY = _text((_IDF,), (), (_IDF_OF_BYTES,))
"""The views of text for more than two classes. Log-odds depend on the class, and rows for each class and view would
take gigabytes; so all second stages use tf-idf rows, which the classes share."""


def views_of(model: str, reader: str, n_classes: int = 2, width: int = 2**22) -> "tuple[ViewSpec, ...]":
    """Return the views of a model: "pool" (of mail or text) or "words" (one view, one expert).

    Examples
    --------
    >>> [view.name for view in views_of("pool", "text")]
    ['words', 'phrases', 'bytes']
    """
    if reader not in READERS:
        raise ValueError(f"reader must be 'mail' or 'text'. Got {reader!r}.")
    if model not in MODELS:
        raise ValueError(f"model must be 'pool' or 'words'. Got {model!r}.")
    views: tuple[ViewSpec, ...]
    if model == "words":
        name = "words and header" if reader == "mail" else "words"
        views = (ViewSpec(name, "text", "word", 1, 1, (ExpertSpec(0.3),), tokens=reader == "mail"),)
    else:
        views = MAIL if reader == "mail" else TEXT_OF_MANY if n_classes > 2 else TEXT
    return tuple([view.replace(width=width) for view in views])
