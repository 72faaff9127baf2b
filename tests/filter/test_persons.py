"""Names of people: taken as they are, or not at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surebayes.filter.persons import checked_name, person_named


@pytest.mark.parametrize(
    "name", ["../ann", ".ann", "a/b", "a\\b", "ann\0", "", "a" * 129, "ann\n", "änn", "ann smith", "\u212aarl"]
)
def test_what_is_no_name_is_refused(name):
    assert person_named(name) is None


@given(st.text(max_size=140))
def test_a_name_stays_itself(name):
    person = person_named(name)
    assert person is None or (person == name.lower() and "/" not in person and not person.startswith("."))


def test_a_name_that_is_none_is_said_to_be_none():
    assert checked_name("Ann+Lists@example.org") == "ann+lists@example.org"
    with pytest.raises(ValueError, match="not a valid name of a person"):
        checked_name("../" * 1000)
