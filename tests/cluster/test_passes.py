"""Transport of answers: small, in pieces, and back to the last bit."""

import random

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from surebayes.cluster import on_spark
from surebayes.cluster.columns import narrow

pytest.importorskip("pyarrow")


def rows_of(answer, number):
    for batch in on_spark._in_pieces(answer, number):
        yield from zip(*(column.to_pylist() for column in batch.columns))


def test_pieces_come_back_in_any_order(monkeypatch):
    monkeypatch.setattr(on_spark, "PIECE", 10)
    answers = {number: {"number": number, "text": "x" * number} for number in range(7)}
    rows = [row for number, answer in answers.items() for row in rows_of(answer, number)]
    random.Random(1).shuffle(rows)
    assert len(rows) > 20
    assert sorted(on_spark._unpickled(rows), key=lambda answer: answer["number"]) == list(answers.values())


def test_a_missing_piece_is_no_answer(monkeypatch):
    monkeypatch.setattr(on_spark, "PIECE", 10)
    rows = list(rows_of("a text of more than one piece", 3))
    with pytest.raises(RuntimeError, match=r"answers \[3\] are missing"):
        list(on_spark._unpickled(rows[1:]))


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5), st.integers(0, 63))
@example([-1, 2**63 - 1], 63)
@example([2**31, 2**32 - 1], 63)
def test_whole_numbers_travel_in_the_smallest_type(numbers, bits):
    array = np.array(numbers, np.int64) >> (63 - bits)
    small = narrow(array)
    assert np.array_equal(small.astype(np.int64), array)
    low, high = int(array.min()), int(array.max())
    fits = [k for k in (1, 2, 4) if (high < 256**k if low >= 0 else max(high, ~low) < 256**k // 2)]
    assert small.itemsize == min([*fits, 8])


def test_no_numbers():
    assert narrow(np.empty(0, np.int64)).size == 0
