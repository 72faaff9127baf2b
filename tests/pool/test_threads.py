"""Work on threads: in order, bounded, errors where they belong, and done without threads if there are none."""

import threading

import pytest

from surebayes.pool import threads
from surebayes.pool.threads import ahead, at_once


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


@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_few_at_once_come_in_order_and_none_waits_for_a_slow_one(n):
    """The first ends when the last has begun: whoever waited for it before going on would wait for ever."""
    begun = threading.Event()

    def work(x):
        if x == 5:
            begun.set()
        return x, n < 2 or x > 0 or begun.wait(30)

    assert at_once(work, range(6), n) == [(x, True) for x in range(6)]
    with pytest.raises(ZeroDivisionError):
        at_once(lambda x: 1 // x, [2, 0, 5], n)


def test_an_error_is_raised_in_its_turn():
    results = ahead(lambda x: 1 // x, [2, 1, 0, 5], 3)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_without_a_thread_to_be_had_the_work_is_done_all_the_same(monkeypatch):
    def refused(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    assert list(ahead(str, range(5), 3)) == at_once(str, range(5), 3) == ["0", "1", "2", "3", "4"]
    assert threads.processors() >= 1
