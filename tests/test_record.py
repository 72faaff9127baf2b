"""Records: fields declared once give what a frozen dataclass would have, without one."""

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import record_calls
from surebayes.record import Record


class Point(Record):
    x: float
    y: float = 0.0


class Place(Point):
    name: str = ""
    tags: list = []  # noqa: RUF012 - every value has its own


class Counter(Record, frozen=False):
    n: int = 0


class Shout(Record):
    text: str

    def _prepare(self):
        if not self.text:
            raise ValueError("nothing to say")
        object.__setattr__(self, "text", self.text.upper())


def made(kind, values, named):
    try:
        return kind(*values, **named)
    except TypeError:
        return None


def parameters(kind):
    return [(one.name, one.default) for one in inspect.signature(kind).parameters.values()]


@given(record_calls())
def test_records_are_what_frozen_dataclasses_are(drawn):
    fields, (values, named), (more, more_named) = drawn
    body = {"__annotations__": dict.fromkeys(fields, object), **{k: v for k, v in fields.items() if v is not None}}
    ours = type(Record)("Made", (Record,), dict(body))
    theirs = dataclasses.dataclass(frozen=True, slots=True)(type("Made", (), dict(body)))
    a, b = made(ours, values, named), made(theirs, values, named)
    assert (a is None) == (b is None)
    if a is None:
        return
    assert repr(a) == repr(b)
    assert a.as_dict() == dataclasses.asdict(b)
    assert copy.copy(a) == a == copy.deepcopy(a)
    assert hash(copy.copy(a)) == hash(a)
    other, another = made(ours, more, more_named), made(theirs, more, more_named)
    assert (a == other) == (b == another)
    assert parameters(ours) == parameters(theirs)
    with pytest.raises(AttributeError, match="is immutable"):
        setattr(a, next(iter(fields), "x"), 1)
    with pytest.raises(AttributeError):
        object.__setattr__(a, "no_such_field", 1)


@pytest.mark.parametrize(
    ("values", "named", "message"),
    [
        ((), {}, "Point needs a value for x."),
        ((1, 2, 3), {}, "Point has 2 fields. Got 3 values."),
        ((1,), {"x": 2}, "Point got two values for 'x'."),
        ((1,), {"z": 2}, "Point has no field 'z'. Its fields: x, y."),
    ],
)
def test_values_that_do_not_fit_are_refused(values, named, message):
    with pytest.raises(TypeError) as error:
        Point(*values, **named)
    assert str(error.value) == message


def test_a_record_of_a_record_has_the_fields_of_both():
    place = Place(1.0, name="here")
    assert repr(place) == "Place(x=1.0, y=0.0, name='here', tags=[])"
    assert place != Point(1.0)
    assert place.replace(x=2.0) == Place(2.0, 0.0, "here")
    match place:
        case Place(x, y, name):
            assert (x, y, name) == (1.0, 0.0, "here")


def test_values_do_not_share_a_default_that_changes():
    first, second = Place(1.0), Place(1.0)
    first.tags.append("seen")
    assert second.tags == []


def test_records_are_pickled_by_their_fields():
    for value in (Point(1.0), Place(1.0, 2.0, "x", ["y"]), Counter(3)):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            assert pickle.loads(pickle.dumps(value, protocol)) == value
    assert Point(1.0).__reduce__() == (Point, (1.0, 0.0))


def test_fields_of_a_record_that_is_not_frozen_change():
    counter = Counter()
    counter.n += 1
    assert counter == Counter(1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(counter)


def test_what_is_given_can_be_checked_and_brought_into_form():
    assert Shout("hi").text == "HI"
    assert Shout("a").replace(text="b") == Shout("b")
    with pytest.raises(ValueError, match="nothing to say"):
        Shout("")


def test_a_field_without_a_default_comes_first():
    with pytest.raises(TypeError, match=r"Wrong\.b has no default"):
        type(Record)("Wrong", (Record,), {"__annotations__": {"a": int, "b": int}, "a": 1})


@given(st.text(), st.floats(allow_nan=False))
def test_records_of_different_kinds_are_different(x, y):
    class Other(Record):
        x: float
        y: float = 0.0

    assert Point(x, y) != Other(x, y)
    assert Point(x, y) != (x, y)
    assert len({Point(x, y), Point(x, y), Other(x, y)}) == 2


def test_records_load_nothing():
    code = "import sys; before = set(sys.modules); import surebayes.record; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"surebayes", "surebayes.record"}
