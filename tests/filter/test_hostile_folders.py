"""Folders of filters whose sealed manifest says impossible things: judged with or refused, by every way in."""

import json
import random
import shutil
import time
import zlib
from math import inf, isfinite

import pytest

import surebayes as sb
from hostile_json import mutated, write_sealed
from surebayes.errors import BadModel, StoreError
from surebayes.filter.model import Model
from surebayes.kernels import reals
from surebayes.persist.manifest import NAME, seal
from surebayes.synthetic import mail_stream

MAILS = [(mail.raw, mail.label) for mail in mail_stream(60, seed=4)]
MAIL = MAILS[-1][0]
KINDS = {
    "mail": {"reader": "mail", "width": 2**12},
    "text": {"reader": "text", "width": 2**12},
    "three classes": {"reader": "mail", "model": "words", "width": 2**12},
    "stack and budget": {"reader": "mail", "width": 2**12},
    "layer": {"own_weight": 3},
}


@pytest.fixture(scope="module", params=KINDS)
def whole(request, tmp_path_factory):
    """A filter of each kind, with a certificate where there are two classes."""
    path = tmp_path_factory.mktemp("filters") / "f"
    if request.param == "layer":
        with sb.Filter.create(path.parent / "site", width=2**12) as site:
            site.train(MAILS[:40])
        with sb.Filter.create(path, base=path.parent / "site", **KINDS["layer"]) as mine:
            for raw, label in MAILS[40:50]:
                mine.teach(raw, label)
        return path
    three = request.param == "three classes"
    classes = ("ham", "spam", "news") if three else ("ham", "spam")
    with sb.Filter.create(path, classes, **KINDS[request.param]) as mine:
        mine.train([(raw, "news" if three and i % 3 == 0 else label) for i, (raw, label) in enumerate(MAILS[:50])])
        if request.param == "stack and budget":
            mine.calibrate(budget=0.01)
        elif not three:
            mine.calibrate(max_fpr=0.9, confidence=0.5)
    if request.param == "stack and budget":
        with sb.Filter.open(path) as mine:
            mine.teach(b"Subject: at nine\n\nThe usual place?\n", "ham")
        assert "stack.1" in json.loads((path / NAME).read_bytes())["files"]
    return path


def ask_everything(folder):
    """All that commands ask of a filter; what they are told of is StoreError."""
    scores = list(Model.open(str(folder)).scores(MAIL))
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
        start = time.process_time()
        try:
            ask_everything(folder)
        except StoreError:
            refused += 1
        except Exception as error:
            raise AssertionError(f"{what} came through") from error
        assert time.process_time() - start < 10, f"{what} takes long"
        shutil.rmtree(folder)
    return refused


def test_a_hostile_folder_is_refused_or_usable(whole, tmp_path):
    assert attack(whole, tmp_path, 25, 1) > 5


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("scoring", "classes"), {"ham": 1, "spam": 2}),
        (("scoring", "classes"), "hs"),
        (("journal", "known"), []),
        (("journal", "known"), False),
        (("journal", "known"), {"learn": [1], "reserve": {}}),
        (("journal", "known"), {"learn": {"ham": 1}, "reserve": {"ham": 0, "spam": 0}}),
    ],
    ids=str,
)
def test_parts_of_another_kind_are_refused(place, value, tmp_path):
    with sb.Filter.create(tmp_path / "f", **KINDS["text"]) as mine:
        mine.train(MAILS[:20])
    body = json.loads((tmp_path / "f" / NAME).read_bytes())
    body.pop("crc32")
    body[place[0]][place[1]] = value
    write_sealed(tmp_path / "f", body)
    with pytest.raises(BadModel):
        ask_everything(tmp_path / "f")


def manifest_of_a_layer(tmp_path):
    """Make a layer f with one lesson on a filter named site; return what its manifest says."""
    with sb.Filter.create(tmp_path / "site", width=2**12) as site:
        site.train(MAILS[:20])
    with sb.Filter.create(tmp_path / "f", base=tmp_path / "site") as mine:
        mine.teach(*MAILS[20])
    body = json.loads((tmp_path / "f" / NAME).read_bytes())
    body.pop("crc32")
    return body


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("settings", "base", "own_weight"), 0),
        (("settings", "base", "own_weight"), 10**7),
        (("settings", "base", "path"), "a\0b"),
        (("settings", "base", "near"), "\0"),
        (("journal", "reread"), {"one": 1}),
        (("standing", "lacks"), [10**30]),
        (("standing", "lacks"), [-(10**9)]),
        (("standing", "thresholds"), {"spam": 1e300 * 1e300}),
    ],
    ids=str,
)
def test_what_a_hostile_layer_says_of_its_base(place, value, tmp_path):
    body = manifest_of_a_layer(tmp_path)
    inside = body
    for name in place[:-1]:
        inside = inside[name]
    inside[place[-1]] = value * len(body["standing"]["lacks"]) if isinstance(value, list) else value
    text = json.dumps(body, indent=1).replace("Infinity", "1e999")  # a number that JSON allows
    (tmp_path / "f" / NAME).write_bytes(seal(text.encode()))
    if place[0] != "standing":
        with pytest.raises(StoreError):
            ask_everything(tmp_path / "f")
        return
    ask_everything(tmp_path / "f")
    shutil.rmtree(tmp_path / "site")  # what the manifest says is all that is left
    assert sb.Filter.open(tmp_path / "f").judge(MAIL).threshold == 0


def test_a_layer_that_unpacks_to_very_much_is_refused(tmp_path):
    body = manifest_of_a_layer(tmp_path)
    entry = body["files"]["tables"]
    bomb = zlib.compress(bytes(2**27), 9)
    entry.update(size=len(bomb), unpacked=2**27)
    (tmp_path / "f" / entry["file"]).write_bytes(bomb)
    write_sealed(tmp_path / "f", body)
    with pytest.raises(BadModel, match=r"invalid size of .*134217728 bytes"):
        Model.open(str(tmp_path / "f"))


def test_what_gives_no_number_is_no_score(tmp_path):
    with sb.Filter.create(tmp_path / "f", **KINDS["text"]) as mine:
        mine.train(MAILS[:50])
    body = json.loads((tmp_path / "f" / NAME).read_bytes())
    body.pop("crc32")
    stages = [stage for view in body["scoring"]["views"] for stage in view.get("stages", []) if stage]
    assert stages
    for stage in stages:
        stage["intercepts"] = [1e308]
    write_sealed(tmp_path / "f", body)
    with pytest.raises(BadModel, match="invalid intercepts"):
        ask_everything(tmp_path / "f")
    for stage in stages:
        stage["intercepts"] = [0.5]
    write_sealed(tmp_path / "f", body)
    model = Model.open(str(tmp_path / "f"))
    model.engine.stages[0].intercepts = reals([inf])  # as coefficients could make it
    with pytest.raises(BadModel, match="is not a number"):
        model.scores(MAIL)
    body["settings"]["second_stage"] = 10**30
    write_sealed(tmp_path / "f", body)
    with pytest.raises(BadModel, match="row numbers of the journal"):
        sb.Filter.open(tmp_path / "f").status()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_many_hostile_folders(whole, seed, tmp_path):
    attack(whole, tmp_path, 200, 100 + seed)


KINDS_OF_VALUES = (None, True, 0, -1, 1.5, "x", [], [0], {}, {"x": 0})


def places(value, path=()):
    """Each place of a value that JSON can hold; of long lists only the first ones."""
    inside = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, part in inside:
        yield (*path, key)
        yield from places(part, (*path, key))


@pytest.mark.slow
def test_each_part_in_each_kind_is_refused_or_usable(whole, tmp_path):
    text = (whole / NAME).read_bytes()
    for n, path in enumerate(places({k: v for k, v in json.loads(text).items() if k != "crc32"})):
        for m, kind in enumerate(KINDS_OF_VALUES):
            body = json.loads(text)
            body.pop("crc32")
            inside = body
            for key in path[:-1]:
                inside = inside[key]
            inside[path[-1]] = kind
            folder = tmp_path / f"{n}-{m}"
            shutil.copytree(whole, folder)
            write_sealed(folder, body)
            try:
                ask_everything(folder)
            except StoreError:
                pass
            except Exception as error:
                raise AssertionError(f"{path} as {kind!r} came through") from error
            shutil.rmtree(folder)
