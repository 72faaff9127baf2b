"""Work on threads: in order, bounded, errors where they belong, and done without threads if there are none."""

import threading

import pytest

from surebayes.pool import threads
from surebayes.pool.threads import ahead


@pytest.mark.parametrize("n", [1, 2, 5])
def test_results_come_in_order_and_items_are_taken_a_few_ahead(n):
    taken = []

    def items():
        for i in range(40):
            taken.append(i)
            yield i

    for i, value in enumerate(ahead(lambda x: x * x, items(), n)):
        assert value == i * i
        assert len(taken) <= i + n + 1


def test_an_error_is_raised_in_its_turn():
    results = ahead(lambda x: 1 // x, [2, 1, 0, 5], 3)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_without_a_thread_to_be_had_the_work_is_done_all_the_same(monkeypatch):
    def refused(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    assert list(ahead(str, range(5), 3)) == ["0", "1", "2", "3", "4"]
    assert threads.processors() >= 1
