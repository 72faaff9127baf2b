"""A filter and a pool that were written before opinions were bounded: the same scores, until they are tuned."""

import json
import pathlib
import tarfile

import numpy as np
import pytest

import surebayes as sb
from surebayes.filter.model import Model
from surebayes.persist.manifest import read_manifest
from surebayes.synthetic import mail_stream

MAILS = [(mail.raw, mail.label) for mail in mail_stream(150, seed=33)]


@pytest.fixture
def written(tmp_path):
    with tarfile.open(pathlib.Path(__file__).parent / "filters_of_version_3.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path, json.loads((tmp_path / "scores.json").read_bytes())


def test_a_filter_keeps_its_rule_until_it_is_tuned(written, monkeypatch):
    monkeypatch.setattr("surebayes.filter.tuning.MIN_MESSAGES", 5)
    folder, expected = written[0] / "mail", written[1]["mail"]
    assert read_manifest(str(folder))["version"] == 3
    mails = [raw for raw, _ in MAILS[120:]]
    lean = Model.open(str(folder))
    assert [lean.scores(raw)[0] for raw in mails] == expected
    with sb.Filter.open(folder) as old:
        assert [old.judge(raw).score for raw in mails] == expected
        assert old.problems() == []
        assert "bounds" not in old._session.loaded_state().settings.to_json()
        assert old.teach(*MAILS[122]) == "learnt"
        assert old.forget(MAILS[122][0]) == "forgotten"
        assert [old.judge(raw).score for raw in mails] == expected
        old.absorb()
        before = max(entry["version"] for entry in old.versions())
        old.retune()
        settings = old._session.loaded_state().settings
        assert len(settings.bounds[0]) == len(settings.weights[0]) == 21
        assert all(limits[1] > 0 for limits in settings.bounds[0])
        tuned = [old.judge(raw).score for raw in mails]
        assert tuned != expected
        assert [Model.open(str(folder)).scores(raw)[0] for raw in mails] == tuned
        assert read_manifest(str(folder))["version"] == 5
        old.rollback(before)
        assert [old.judge(raw).score for raw in mails] == expected
    with sb.Filter.create(written[0] / "own", base=folder) as layer:
        assert [layer.judge(raw).score for raw in mails] == expected


def test_a_pool_that_was_saved_is_loaded_with_its_scores(written):
    pool = sb.load(written[0] / "pool")
    scores = pool.decision_function([raw for raw, _ in MAILS[80:]])
    assert scores.tolist() == written[1]["pool"]
    assert pool.get_params()["n_jobs"] is None
    why = pool.explain([MAILS[90][0]])[0]
    assert why.bias + sum(view.share for view in why.views) == pytest.approx(scores[10])
    assert np.array_equal(pool.partial_fit(*map(list, zip(*MAILS[80:82]))).weights_ >= 0, np.ones((1, 21), bool))
