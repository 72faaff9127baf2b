"""Turns: short work in a row in one thread, and what takes long keeps nobody waiting."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from surebayes.server.turns import LONG, Turns


def in_turns(body):
    with ThreadPoolExecutor(3) as pool:
        return asyncio.run(body(Turns(pool)))


def test_short_work_is_done_by_one_thread_in_the_order_in_which_it_came():
    order, threads = [], set()

    def work(number):
        order.append(number)
        threads.add(threading.get_ident())
        return 2 * number

    async def body(turns):
        return await asyncio.gather(*(turns.do(lambda k=k: work(k)) for k in range(200)))

    assert in_turns(body) == [2 * number for number in range(200)]
    assert order == list(range(200))
    assert len(threads) == 1


def test_work_that_takes_long_keeps_nobody_waiting():
    end = threading.Event()

    async def body(turns):
        long = asyncio.create_task(turns.do(lambda: end.wait(600)))
        await asyncio.sleep(3 * LONG)
        others = await asyncio.gather(*(turns.do(lambda k=k: k) for k in range(20)))
        assert not long.done()
        end.set()
        assert await long
        return others

    try:
        assert in_turns(body) == list(range(20))
    finally:
        end.set()


def test_work_that_came_just_before_another_was_known_to_take_long_is_not_kept_waiting():
    end = threading.Event()

    async def body(turns):
        long = asyncio.create_task(turns.do(lambda: end.wait(600)))
        await asyncio.sleep(0.2 * LONG)
        answer = await asyncio.wait_for(turns.do(lambda: "done"), 30)
        assert not long.done()
        end.set()
        assert await long
        return answer

    try:
        assert in_turns(body) == "done"
    finally:
        end.set()


def test_one_after_the_other_beside_work_that_takes_long():
    end = threading.Event()

    async def body(turns):
        long = asyncio.create_task(turns.do(lambda: end.wait(600)))
        await asyncio.sleep(2 * LONG)
        answers = [await asyncio.wait_for(turns.do(lambda k=k: k), 30) for k in range(20)]
        end.set()
        assert await long
        return answers

    try:
        assert in_turns(body) == list(range(20))
    finally:
        end.set()


def test_an_error_reaches_who_asked_and_nobody_else():
    async def body(turns):
        answers = [turns.do(lambda: 1), turns.do(lambda: 1 / 0), turns.do(lambda: 3)]
        return await asyncio.gather(*answers, return_exceptions=True)

    first, second, third = in_turns(body)
    assert (first, third) == (1, 3)
    with pytest.raises(ZeroDivisionError):
        raise second


def test_whoever_has_gone_is_passed_over():
    done = []

    async def body(turns):
        gate = threading.Event()
        first = asyncio.create_task(turns.do(lambda: gate.wait(600)))
        await asyncio.sleep(0.01)
        gone = asyncio.create_task(turns.do(lambda: done.append("gone")))
        stays = asyncio.create_task(turns.do(lambda: done.append("stays")))
        await asyncio.sleep(0.01)
        gone.cancel()
        await asyncio.sleep(0.01)
        gate.set()
        await asyncio.gather(first, stays)

    in_turns(body)
    assert done == ["stays"]
