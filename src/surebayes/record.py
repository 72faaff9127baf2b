"""Immutable record classes, whose methods are derived from the fields declared in the class body.

They replace dataclasses, whose import takes 4 ms: `surebayes filter` starts in milliseconds and loads this module. For
the same reason, it doesn't import typing and doesn't generate code.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from inspect import Signature
    from typing import Any, Self, dataclass_transform
else:

    def dataclass_transform(**_):
        """Return a decorator that leaves a class unchanged; type checkers read the declaration."""
        return lambda kind: kind


_MISSING = object()
_COPIED = dict, list, set
"""Types of defaults that are copied for each record."""


@dataclass_transform(frozen_default=True)
class RecordType(type):
    """Metaclass of records; makes slots and defaults from the annotations in a class body."""

    FIELDS: "tuple[str, ...]"
    _defaults: "dict[str, Any]"
    _setters: "tuple[Any, ...]"

    def __new__(
        mcs, name: str, bases: "tuple[type, ...]", namespace: "dict[str, Any]", frozen: bool = True
    ) -> "RecordType":
        """Create a record class; with `frozen=False`, fields can be assigned and records have no hash."""
        own = tuple([field for field in _annotated(namespace) if not field.startswith("_")])
        defaults = {field: namespace.pop(field) for field in own if field in namespace}
        namespace["__slots__"] = own if bases else ("_hash",)
        if not frozen:
            namespace["__setattr__"], namespace["__hash__"] = object.__setattr__, None
        fields: tuple[str, ...] = ()
        inherited: dict[str, Any] = {}
        for base in bases:
            if isinstance(base, RecordType):
                fields, inherited = fields + base.FIELDS, {**inherited, **base._defaults}
        namespace["__match_args__"] = fields + own
        kind = super().__new__(mcs, name, bases, namespace)
        kind.FIELDS = fields + own
        kind._defaults = {**inherited, **defaults}
        kind._setters = tuple([getattr(kind, field).__set__ for field in kind.FIELDS])
        late = [field for field in kind.FIELDS if field not in kind._defaults]
        if late != list(kind.FIELDS[: len(late)]):
            raise TypeError(f"{name}.{late[-1]} has no default and follows a field with one.")
        return kind

    @property
    def __signature__(cls) -> "Signature":
        """The signature of the constructor, for help and editors."""
        from inspect import Parameter, Signature

        return Signature(
            [
                Parameter(field, Parameter.POSITIONAL_OR_KEYWORD, default=cls._defaults.get(field, Parameter.empty))
                for field in cls.FIELDS
            ]
        )


def _annotated(namespace: "dict[str, Any]") -> "dict[str, Any]":
    """Return the annotations of a class body, which a function returns since Python 3.14."""
    found = namespace.get("__annotations__")
    if found is None:
        annotate = namespace.get("__annotate_func__") or namespace.get("__annotate__")
        found = annotate(1) if annotate is not None else {}
    return dict(found)


class Record(metaclass=RecordType):
    """An immutable value with named fields, which define its comparison, hash, representation, copies and pickling.

    A subclass declares its fields by annotations, optionally with defaults; names that start with an underscore aren't
    fields. Annotations that refer to names imported only for type checkers must be quoted. A default that is a list,
    dict or set is copied for each record. If a subclass defines `_prepare`, it is called when the fields are set.

    Examples
    --------
    >>> class Point(Record):
    ...     x: float
    ...     y: float = 0.0
    >>> Point(1.0), Point(x=1.0) == Point(1.0, 0.0), Point(1.0).replace(y=2.0)
    (Point(x=1.0, y=0.0), True, Point(x=1.0, y=2.0))
    >>> Point(1.0).x = 2.0
    Traceback (most recent call last):
    AttributeError: Point is immutable. Create a new one with replace().
    """

    def __init__(self, *values: "Any", **named: "Any") -> None:
        kind = type(self)
        if named or len(values) != len(kind.FIELDS):
            values = _complete(kind, values, named)
        for assign, value in zip(kind._setters, values):
            assign(self, value)
        self._prepare()

    def _prepare(self) -> None:
        """Validate or convert the given fields."""

    def replace(self, **changes: "Any") -> "Self":
        """Return a copy with some fields changed."""
        return type(self)(**{**self.as_dict(), **changes})

    def as_dict(self) -> "dict[str, Any]":
        """Return the fields by name."""
        return {name: getattr(self, name) for name in type(self).FIELDS}

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable. Create a new one with replace().")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable. Create a new one with replace().")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in type(self).FIELDS)

    def __hash__(self) -> int:
        known = getattr(self, "_hash", None)
        if known is None:  # cached, because views are looked up for every document
            known = hash(tuple([getattr(self, name) for name in type(self).FIELDS]))
            object.__setattr__(self, "_hash", known)
        return int(known)

    def __repr__(self) -> str:
        shown = ", ".join([f"{name}={value!r}" for name, value in self.as_dict().items()])
        return f"{type(self).__name__}({shown})"

    def __reduce__(self) -> "tuple[Any, ...]":
        return type(self), tuple([getattr(self, name) for name in type(self).FIELDS])


def _complete(kind: RecordType, values: "tuple[Any, ...]", named: "dict[str, Any]") -> "tuple[Any, ...]":
    """Return a value for every field, in order; raise TypeError if values and fields don't match."""
    name, fields = kind.__name__, kind.FIELDS
    if len(values) > len(fields):
        raise TypeError(f"{name} has {len(fields)} fields. Got {len(values)} values.")
    given = dict(zip(fields, values))
    for field in named:
        if field not in fields:
            raise TypeError(f"{name} has no field {field!r}. Its fields: {', '.join(fields)}.")
        if field in given:
            raise TypeError(f"{name} got two values for {field!r}.")
    given.update(named)
    complete = []
    for field in fields:
        value = given.get(field, _MISSING)
        if value is _MISSING:
            value = kind._defaults.get(field, _MISSING)
            if value is _MISSING:
                missing = [field for field in fields if field not in given and field not in kind._defaults]
                raise TypeError(f"{name} needs a value for {', '.join(missing)}.")
            if type(value) in _COPIED:
                value = value.copy()
        complete.append(value)
    return tuple(complete)
