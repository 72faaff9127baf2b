"""The guard of the benchmarks: what was gained is not lost unseen."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import check  # noqa: E402
import guarantee  # noqa: E402
import run  # noqa: E402

KEPT = {"ratios": {"text": {"words": 10.0, "pairs": 4.0}, "commands": {"filter": 2.0}}}


@pytest.fixture
def answer(tmp_path, capsys):
    """Return what the check says and how it ends, for results as if they had been measured."""
    (tmp_path / "kept.json").write_text(json.dumps(KEPT))

    def ask(results):
        (tmp_path / "now.json").write_text(json.dumps(results))
        code = check.main(["--baseline", str(tmp_path / "kept.json"), "--results", str(tmp_path / "now.json")])
        return code, capsys.readouterr().out

    return ask


def test_what_is_as_fast_passes(answer):
    code, output = answer({"text": {"words": 7.1, "pairs": 40.0}, "commands": {"filter": 2.8}})
    assert (code, output.splitlines()[-1]) == (0, "No ratio was lost.")


@pytest.mark.parametrize("results", [
    {"text": {"words": 6.9, "pairs": 4.0}},  # a third slower than the peer was
    {"commands": {"filter": 2.9}},  # takes longer
    {"text": {"words": 10.0}},  # not measured any more
])  # fmt: skip
def test_a_loss_fails_and_is_named(answer, results):
    code, output = answer(results)
    assert code == 1
    assert output.splitlines()[-1].startswith("1 of ")


def test_nothing_measured_is_no_success(answer):
    assert answer({})[0] == 1


def test_ratios_are_kept_for_those_measured_only(tmp_path):
    (tmp_path / "kept.json").write_text(json.dumps(KEPT))
    (tmp_path / "now.json").write_text(json.dumps({"commands": {"filter": 1.5}}))
    check.main(["--keep", "--baseline", str(tmp_path / "kept.json"), "--results", str(tmp_path / "now.json")])
    ratios = json.loads((tmp_path / "kept.json").read_text())["ratios"]
    assert ratios == {"text": KEPT["ratios"]["text"], "commands": {"filter": 1.5}}


def test_the_baseline_is_of_benchmarks_that_there_are():
    baseline = json.loads(check.BASELINE.read_text())["ratios"]
    assert set(baseline) <= set(run.BENCHMARKS)
    assert all(ratio > 0 for rows in baseline.values() for ratio in rows.values())
    assert baseline


def test_figures_in_names_are_left_out():
    rows = [("fit, 2,500 mails, AUC_0.1 .99", 1, 2, 2.0, None), ("fit, 60 mails, AUC_0.1 .5", 1, 3, 3.0, None)]
    assert run.named_ratios(rows) == {"fit, # mails, AUC_# #": 2.0, "fit, # mails, AUC_# # (2)": 3.0}
    assert run.named_ratios([("worst of 40 hostile mails: a long line (ordinary mail)", 1, 2, 2.0, None)]) == {
        "worst of # hostile mails": 2.0
    }


@pytest.mark.slow
def test_promises_hold_after_corrections_of_the_reserve(tmp_path):
    """As often as was promised, but for chance; a rule that forgot what was corrected would break nearly all."""
    runs = [list(guarantee.corrected(tmp_path / str(i), np.random.default_rng(i), 0.1, 0.9, 5)) for i in range(25)]
    first, renewed, without = ([rate > 0.1 for _, rate in results] for results in zip(*runs))
    most = stats.binom.ppf(0.999, len(runs), 0.1)
    assert sum(first) <= most
    assert sum(renewed) <= most
    assert sum(without) > most
    assert all(before[0] and not after[0] for before, after, _ in runs)  # "guaranteed" was said only before


def test_an_unknown_benchmark_is_named(capsys):
    with pytest.raises(SystemExit):
        check.main(["no-such"])
    assert "unknown benchmark no-such; there are classifiers, " in capsys.readouterr().err
