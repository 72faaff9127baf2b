"""The budget on streams as the benchmark runs them: what is written in the guide is what the code does."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location(
        "budget_benchmark", Path(__file__).parents[2] / "benchmarks/budget.py"
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def invented(n=4500, seed=0):
    random = np.random.default_rng(seed)
    y = random.random(n) < 0.5
    return y, random.normal(size=n) + 5 * y


def test_a_hostile_turn_stays_within_the_bound_and_recall_comes_back(benchmark, tmp_path):
    y, scores = invented()
    turned, during = benchmark.hostile(y, scores)
    start = len(y) // 3
    for truths in ("told", "late", "silence"):
        run = benchmark.Run(y, turned, 0.02, truths, start)
        assert run.worst_stretch <= benchmark.BURST + run.in_flight + 1e-6
    run = benchmark.Run(y, turned, 0.02, "told", start)
    place = np.arange(start, len(y))
    paid = during[-1] + 2 * round(benchmark.BURST / 0.02) + 1  # half of the messages are good and pay
    assert run.flagged[run.y & (place < during[0])].mean() > 0.97
    assert run.flagged[run.y & (place >= during[0] + 50) & (place <= during[-1])].mean() < 0.6
    assert run.flagged[run.y & (place > paid)].mean() > 0.97
    benchmark.draw_hostile(y, scores, tmp_path / "turn.png", rate=0.02)
    assert (tmp_path / "turn.png").read_bytes().startswith(b"\x89PNG")


LEAST = {"spamassassin": {0.01: 0.965, 0.001: 0.80}, "enron_spam": {0.01: 0.98, 0.001: 0.94}}


@pytest.mark.corpus
@pytest.mark.parametrize("name", ["spamassassin", pytest.param("enron_spam", marks=pytest.mark.slow)])
def test_rate_bound_and_recall_on_mail_in_the_order_of_time(benchmark, corpora_folder, name):
    y, scores = benchmark.scores_in_time(name)
    for rate, least in LEAST[name].items():
        told = benchmark.Run(y, scores, rate, "told", len(y) // 3)
        assert told.false_alarms <= rate * (~told.y).sum()
        assert told.worst_stretch <= benchmark.BURST + 1e-6
        assert told.recall >= least
        assert told.mute < 0.01 * len(told.y)
        for truths in ("late", "silence"):
            run = benchmark.Run(y, scores, rate, truths, len(y) // 3)
            assert run.worst_stretch <= benchmark.BURST + run.in_flight + 1e-6
            assert run.recall >= least - 0.03
