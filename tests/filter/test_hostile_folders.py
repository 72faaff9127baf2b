"""Folders of filters whose sealed manifest says impossible things: judged with or refused, by every way in."""

import json
import random
import shutil
from math import isfinite

import pytest

import surebayes as sb
from hostile_json import mutated, write_sealed
from surebayes.errors import StoreError
from surebayes.filter.lean.judge import MappedModel
from surebayes.persist.manifest import NAME
from surebayes.synthetic import mail_stream

MAILS = [(mail.raw, mail.label) for mail in mail_stream(60, seed=4)]
MAIL = MAILS[-1][0]
KINDS = {
    "mail": {"reader": "mail", "width": 2**12},
    "text": {"reader": "text", "width": 2**12},
    "three classes": {"reader": "mail", "model": "words", "width": 2**12},
}


@pytest.fixture(scope="module", params=KINDS)
def whole(request, tmp_path_factory):
    """A filter of each kind, with a certificate where there are two classes."""
    path = tmp_path_factory.mktemp("filters") / "f"
    three = request.param == "three classes"
    classes = ("ham", "spam", "news") if three else ("ham", "spam")
    with sb.Filter.create(path, classes, **KINDS[request.param]) as mine:
        mine.train([(raw, "news" if three and i % 3 == 0 else label) for i, (raw, label) in enumerate(MAILS[:50])])
        if not three:
            mine.calibrate(max_fpr=0.9, confidence=0.5)
    return path


def ask_everything(folder):
    """All that commands ask of a filter; what they are told of is StoreError."""
    scores = list(MappedModel(str(folder)).scores(MAIL))
    assert all(isinstance(score, float) and isfinite(score) for score in scores), scores
    with sb.Filter.open(folder) as mine:
        assert mine.judge(MAIL).label in mine.classes
        assert isfinite(mine.judge(MAIL).score)
        mine.explain(MAIL, top=3)
        mine.status()
        mine.history(limit=3)
        mine.problems(recount=False)
        mine.teach(MAIL, mine.classes[0])
        mine.forget(MAIL)


def attack(whole, tmp_path, times, seed):
    body = json.loads((whole / NAME).read_bytes())
    body.pop("crc32")
    dice, refused = random.Random(seed), 0
    for n in range(times):
        folder = tmp_path / str(n)
        shutil.copytree(whole, folder)
        changed, what = mutated(body, dice)
        write_sealed(folder, changed)
        try:
            ask_everything(folder)
        except StoreError:
            refused += 1
        except Exception as error:
            raise AssertionError(f"{what} came through") from error
        shutil.rmtree(folder)
    return refused


def test_a_hostile_folder_is_refused_or_usable(whole, tmp_path):
    assert attack(whole, tmp_path, 25, 1) > 5


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_many_hostile_folders(whole, seed, tmp_path):
    attack(whole, tmp_path, 200, 100 + seed)
