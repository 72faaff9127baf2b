"""Layers: a filter on another one judges as one that learnt everything, and leaves the base alone."""

import json
import os
import shutil
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import surebayes as sb
from surebayes.errors import BadInput, BadModel, NoModel, QuotaReached
from surebayes.filter import tuning
from surebayes.filter.base import DEEPEST
from surebayes.filter.model import Model
from surebayes.filter.persons import Persons, Quota
from surebayes.kernels import ints
from surebayes.pool.weights import PoolWeights
from surebayes.synthetic import mail_stream

MAILS = [(mail.raw, mail.label) for mail in mail_stream(150, seed=21)]
OTHER = {"ham": "spam", "spam": "ham"}
POOL = {"model": "pool", "width": 2**12}
SMALL = {"model": "words", "width": 2**14}


@pytest.fixture(scope="module")
def trained_site(tmp_path_factory):
    path = tmp_path_factory.mktemp("sites") / "site"
    with sb.Filter.create(path, **POOL) as made:
        made.train(MAILS[:90], reserve=0.0)
    return path


@pytest.fixture
def site(trained_site, tmp_path):
    shutil.copytree(trained_site, tmp_path / "site")
    return tmp_path / "site"


def files_of(folder):
    return {name: (folder / name).read_bytes() for name in os.listdir(folder)}


def scores(path_or_filter, mails=MAILS):
    if isinstance(path_or_filter, sb.Filter):
        return [path_or_filter.judge(raw).score for raw, _ in mails]
    with sb.Filter.open(path_or_filter) as opened:
        return [opened.judge(raw).score for raw, _ in mails]


def lean_scores(path, mails=MAILS):
    model = Model.open(str(path))
    return [model.scores(raw)[0] for raw, _ in mails]


def pool_of(path):
    """A copy of what a filter has learnt, in memory: its pool, and the moves of its weights."""
    with sb.Filter.open(path) as opened:
        return opened._session.loaded_state().engine.copy()


def test_a_layer_that_knows_nothing_is_small(site, tmp_path):
    """There may be thousands of them."""
    with sb.Filter.create(tmp_path / "mine", base=site):
        pass
    assert sum(entry.stat().st_size for entry in os.scandir(tmp_path / "mine")) < 40_000


@pytest.mark.parametrize("weight", [1, 50])
def test_many_documents_are_judged_in_memory_as_one_is_by_the_files(site, tmp_path, weight):
    with sb.Filter.create(tmp_path / "department", base=site, own_weight=3) as department:
        department.teach(*MAILS[120])
    with sb.Filter.create(tmp_path / "mine", base=tmp_path / "department", own_weight=weight) as mine:
        for raw, label in MAILS[90:100]:
            mine.teach(raw, OTHER[label])
        mine.forget(MAILS[95][0])
    judge = Model.open(str(tmp_path / "mine"), hold=True)
    decisions = judge.judge([raw for raw, _ in MAILS])
    assert judge.engine.in_memory
    assert [score for _, score, *_ in decisions] == lean_scores(tmp_path / "mine")


# ---------------------------------------------------------------------- upkeep


@pytest.mark.parametrize("lost", [(), ("manifest.json",)], ids=["whole", "without manifest"])
def test_a_layer_counted_anew_stands_where_it_stood(site, tmp_path, lost):
    with sb.Filter.create(tmp_path / "mine", base=site, own_weight=7) as mine:
        for raw, label in MAILS[90:110]:
            mine.teach(raw, label)
        before = scores(mine)
    for name in lost:
        (tmp_path / "mine" / name).unlink()
    assert sum(sb.Filter.rebuild(tmp_path / "mine")["documents"].values()) == 20
    with sb.Filter.open(tmp_path / "mine") as mine:
        assert mine.basis == "base"
        assert scores(mine) == before
        assert mine.problems() == []
    assert lean_scores(tmp_path / "mine") == before


def test_a_layer_has_other_views_only_with_its_base(site, tmp_path):
    with sb.Filter.create(tmp_path / "mine", base=site) as mine:
        for raw, label in MAILS[90:110]:
            mine.teach(raw, label)
    with pytest.raises(ValueError, match="A layer takes the views of its base"):
        sb.Filter.rebuild(tmp_path / "mine", model="words")
    sb.Filter.rebuild(site, model="words")
    with sb.Filter.open(tmp_path / "mine") as mine:
        assert mine.basis == "own layer"
        assert "surebayes rebuild" in mine.health().detail
    sb.Filter.rebuild(tmp_path / "mine", model="words")
    with sb.Filter.create(tmp_path / "new", base=site) as new:
        for raw, label in MAILS[90:110]:
            new.teach(raw, label)
        expected = scores(new)
    assert scores(tmp_path / "mine") == expected == lean_scores(tmp_path / "mine")


def test_erasing_concerns_the_own_layer(site, tmp_path):
    unseen = MAILS[110][0]
    with sb.Filter.create(tmp_path / "mine", base=site) as mine:
        mine.teach(*MAILS[90])
        before = scores(mine)
        mine.teach(unseen, "spam")
        written = files_of(site)
        assert mine.erase([sb.read_message(unseen).headers["message-id"]])["forgotten"] == 1
        assert scores(mine) == before
    assert files_of(site) == written
    assert lean_scores(tmp_path / "mine") == before


# ---------------------------------------------------------------------- the law


@given(st.data())
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_layer_is_the_filter_that_learnt_its_lessons_many_times(trained_site, tmp_path_factory, data):
    tmp_path = tmp_path_factory.mktemp("law")
    lessons = data.draw(st.lists(st.sampled_from(MAILS), unique_by=lambda mail: mail[0], max_size=8))
    weight = data.draw(st.integers(1, 1000))
    wrong = data.draw(st.booleans())
    with sb.Filter.create(tmp_path / "mine", base=trained_site, own_weight=weight) as mine:
        for raw, label in lessons:
            mine.teach(raw, OTHER[label] if wrong else label)
        by_filter = scores(mine, MAILS[80:110])
        steps = [list(units) for units in mine._session.loaded_state().engine.weights.units]
    together = pool_of(trained_site)
    for raw, label in lessons:
        code = ["ham", "spam"].index(OTHER[label] if wrong else label)
        together.learn(together.cut([raw]), ints([code]), None, ints([weight]))
    base = together.weights
    units = [[a + b for a, b in zip(*both)] for both in zip(base.units, steps)]
    together.weights = PoolWeights(units, list(base.bias), base.bounds)
    expected = list(together.scores(together.cut([raw for raw, _ in MAILS[80:110]])))
    assert by_filter == expected
    assert lean_scores(tmp_path / "mine", MAILS[80:110]) == expected
    judge = Model.open(str(tmp_path / "mine"), hold=True)
    assert [decision[1] for decision in judge.judge([raw for raw, _ in MAILS[80:110]])] == expected


def test_company_department_person(site, tmp_path):
    with sb.Filter.create(tmp_path / "department", base=site, own_weight=10) as department:
        for raw, label in MAILS[90:100]:
            department.teach(raw, label)
    with sb.Filter.create(tmp_path / "ann", base=tmp_path / "department", own_weight=50) as ann:
        for raw, label in MAILS[100:110]:
            ann.teach(raw, label)
        steps = [[a + b for a, b in zip(*both)] for both in zip(*[
            f._session.loaded_state().engine.weights.units for f in (ann, sb.Filter.open(tmp_path / "department"))
        ])]  # fmt: skip
    together = pool_of(site)
    for documents, times in ((MAILS[90:100], 10), (MAILS[100:110], 50)):
        for raw, label in documents:
            together.learn(together.cut([raw]), ints([int(label == "spam")]), None, ints([times]))
    units = [[a + b for a, b in zip(*both)] for both in zip(together.weights.units, steps)]
    together.weights = PoolWeights(units, list(together.weights.bias), together.weights.bounds)
    expected = list(together.scores(together.cut([raw for raw, _ in MAILS])))
    assert scores(tmp_path / "ann") == lean_scores(tmp_path / "ann") == expected
    assert len(sb.Filter.open(tmp_path / "ann").model.split("/")) == 3


def test_texts_have_the_second_stage_of_their_base(tmp_path):
    texts = [(f"gold {'pills' if i % 3 else 'silver'} order number{i}", "spam") for i in range(60)]
    texts += [(f"lunch at nine {'team' if i % 3 else 'meeting'} number{i}", "ham") for i in range(60)]
    with sb.Filter.create(tmp_path / "site", reader="text", width=2**12) as made:
        made.train(texts, reserve=0.0)
        assert any(stage.table is not None for stage in made._session.loaded_state().engine.stages)
        before = [made.judge(text).score for text, _ in texts[:5]]
    with sb.Filter.create(tmp_path / "mine", base=tmp_path / "site") as mine:
        assert [mine.judge(text).score for text, _ in texts[:5]] == before
        mine.teach("gold for the team at lunch", "ham")
        after = [mine.judge(text).score for text, _ in texts[:5]]
    assert after != before
    assert [Model.open(str(tmp_path / "mine")).scores(text)[0] for text, _ in texts[:5]] == after


# ---------------------------------------------------------------------- own lessons


def test_lessons_stay_in_the_layer_and_the_base_as_it_was(site, tmp_path):
    before = files_of(site)
    with sb.Filter.create(tmp_path / "mine", base=site) as mine:
        assert scores(mine) == scores(site)
        assert mine.status()["base"]["basis"] == "base"
        unchanged = scores(mine)
        raw, label = MAILS[120]
        assert mine.teach(raw, OTHER[label], "ann") == "learnt"
        assert mine.judge(raw).label == OTHER[label]
        assert mine.teach(raw, OTHER[label]) == "already"
        assert mine.teach(raw, label) == "moved"
        assert mine.forget(raw) == "forgotten"
        assert mine.forget(MAILS[0][0]) == "unknown"  # the base knows it, this layer doesn't
        assert scores(mine) == unchanged
        mine.teach(MAILS[0][0], OTHER[MAILS[0][1]])  # what the base knows counts here too
        assert mine.judge(MAILS[0][0]).label == OTHER[MAILS[0][1]]
        assert [row["action"] for row in mine.history()][:2] == ["learn", "forget"]
        mine.rollback(0)
        assert scores(mine) == unchanged
        assert mine.problems() == []
    assert files_of(site) == before
    assert scores(tmp_path / "mine") == scores(site)


def test_training_a_layer_moves_weights_by_steps_only(site, tmp_path):
    with sb.Filter.create(tmp_path / "mine", base=site) as mine:
        done = mine.train(MAILS[90:], reserve=0.0)
        assert done["learnt"] == 60
        with pytest.raises(ValueError, match="Tune the base"):
            mine.retune()
    assert scores(tmp_path / "mine") == lean_scores(tmp_path / "mine") != scores(site)


def test_what_the_base_learns_counts_at_once(site, tmp_path):
    with sb.Filter.create(tmp_path / "mine", base=site) as mine, sb.Filter.open(tmp_path / "mine") as reader:
        mine.teach(*MAILS[100])
        mine.absorb()
        before = scores(mine), scores(reader)
        assert before[0] == before[1] == lean_scores(tmp_path / "mine")
        with sb.Filter.open(site) as shared:
            for raw, label in MAILS[110:120]:
                shared.teach(raw, OTHER[label])
        assert scores(mine) == scores(reader) == lean_scores(tmp_path / "mine") != before[0]
        mine.teach(*MAILS[101])
    assert scores(tmp_path / "mine") == lean_scores(tmp_path / "mine")


def test_own_steps_are_dropped_when_the_base_is_tuned_anew(site, tmp_path):
    with sb.Filter.create(tmp_path / "mine", base=site) as mine:
        for raw, label in MAILS[90:100]:
            mine.teach(raw, OTHER[label])
        assert any(any(units) for units in mine._session.loaded_state().engine.weights.units)
        with sb.Filter.open(site) as shared:
            with mock.patch.object(tuning, "MIN_MESSAGES", 2):
                shared.retune("equal")
            base_units = [list(units) for units in shared._session.loaded_state().engine.weights.units]
        assert [list(u) for u in mine._session.model().engine.weights.units] == base_units
        assert [list(u) for u in Model.open(str(tmp_path / "mine")).engine.weights.units] == base_units
        mine.teach(*MAILS[101])  # moves them from there
        moved = mine._session.loaded_state().engine.weights.units
        assert any(any(units) for units in moved)
        assert [list(u) for u in mine._session.model().engine.weights.units] == [
            [a + b for a, b in zip(*both)] for both in zip(base_units, moved)
        ]


def test_the_threshold_is_the_bases_until_there_is_a_certificate(tmp_path):
    with sb.Filter.create(tmp_path / "site", **SMALL) as shared:
        shared.train(MAILS[:90], reserve=0.5)
        shared.calibrate(max_fpr=0.2)
        threshold = shared.judge(MAILS[0][0]).threshold
    assert threshold != 0
    with sb.Filter.create(tmp_path / "mine", base=tmp_path / "site") as mine:
        assert mine.judge(MAILS[0][0]).threshold == threshold
        assert mine.certificate is None
        mine.train(MAILS[90:], reserve=0.6)
        made = mine.calibrate(max_fpr=0.3, confidence=0.8)
        assert mine.judge(MAILS[0][0]).threshold == made.threshold
        assert not mine.certificate.stale
        with sb.Filter.open(tmp_path / "site") as shared:
            shared.teach(MAILS[149][0], "ham")
        assert mine.certificate.stale  # it was for another base
    assert Model.open(str(tmp_path / "mine")).thresholds == {"spam": made.threshold}


def test_explanations_say_what_the_base_said_and_what_lessons_changed(site, tmp_path):
    raw, label = MAILS[100]
    with sb.Filter.create(tmp_path / "mine", base=site) as mine, sb.Filter.open(site) as shared:
        mine.teach(raw, OTHER[label])
        verdict, changes = mine.judge(raw), mine.explain_layers(raw)
        assert changes.base == pytest.approx(shared.judge(raw).score, rel=1e-9)
        assert changes.score == pytest.approx(verdict.score, rel=1e-9)
        total = changes.base + changes.bias + sum(change for _, _, change in changes.views)
        assert total == pytest.approx(changes.score, rel=1e-9)
        assert changes.label == shared.judge(raw).label
        assert shared.explain_layers(raw) is None
        assert mine.explain(raw).score == pytest.approx(verdict.score, rel=1e-9)
        assert verdict.basis == "base"
        assert "basis" not in shared.judge(raw).to_dict()
        assert 1 <= verdict.reversal <= 3  # another lesson or two, each of which counts 50 times


def test_export_and_dump_hold_the_own_layer_only(site, tmp_path):
    with sb.Filter.create(tmp_path / "mine", base=site) as mine:
        mine.teach(MAILS[100][0], OTHER[MAILS[100][1]])
        expected = scores(mine)
        mine.export(tmp_path / "mine.backup")
        with open(tmp_path / "mine.jsonl", "w") as file:
            mine.dump(file)
    assert os.path.getsize(tmp_path / "mine.backup") < 300_000
    with sb.Filter.import_(tmp_path / "mine.backup", tmp_path / "imported") as again:
        assert scores(again) == expected
    with open(tmp_path / "mine.jsonl") as file, sb.Filter.restore(file, tmp_path / "restored") as again:
        assert scores(again) == expected


def test_layers_are_not_merged(site, tmp_path):
    for name in ("a", "b"):
        sb.Filter.create(tmp_path / name, base=site).close()
    with pytest.raises(BadInput, match="layer"):
        sb.Filter.merge([tmp_path / "a", tmp_path / "b"], tmp_path / "c")


# ---------------------------------------------------------------------- a base in trouble


def test_a_base_that_goes_away(site, tmp_path):
    with sb.Filter.create(tmp_path / "mine", base=site) as mine:
        for raw, label in MAILS[90:110]:
            mine.teach(raw, label)
        mine.absorb()
        expected = scores(mine)
        os.rename(site, tmp_path / "elsewhere")
        assert scores(mine) == expected  # as it was last read
        assert mine.judge(MAILS[0][0]).basis == "last base"
        assert mine.teach(*MAILS[111]) == "learnt"
        assert mine.forget(MAILS[111][0]) == "forgotten"
        health = mine.health()
        assert health.state == "problem"
        assert "was moved or deleted" in health.detail
        assert "rebase" in health.detail
    with sb.Filter.open(tmp_path / "mine") as mine:
        verdict = mine.judge(MAILS[90][0])
        assert (verdict.basis, verdict.label) == ("own layer", MAILS[90][1])
        assert mine.judge(b"").label == "ham"
        assert mine.teach(*MAILS[112]) == "learnt"
        assert mine.move_base(tmp_path / "elsewhere")
        assert mine.judge(MAILS[0][0]).basis == "base"
        mine.forget(MAILS[112][0])
        assert not mine.move_base(tmp_path / "elsewhere")
        assert mine.health().state == "ok"
    assert scores(tmp_path / "mine") == expected


def test_a_base_that_cannot_be_read_is_no_other_filter(site, tmp_path):
    with sb.Filter.create(tmp_path / "mine", base=site) as mine:
        mine.teach(*MAILS[100])
    (site / "manifest.json").write_text("not valid JSON")
    with sb.Filter.open(tmp_path / "mine") as mine:
        health = mine.health()
    assert health.state == "problem"
    assert f"the base at {site} can't be read" in health.detail
    assert "not the base of this layer" not in health.detail


def test_a_base_that_is_moved_together_with_its_layer_is_found(site, tmp_path):
    with sb.Filter.create(tmp_path / "mine", base=site) as mine:
        mine.teach(*MAILS[100])
        expected = scores(mine)
    (tmp_path / "there").mkdir()
    for name in ("site", "mine"):
        os.rename(tmp_path / name, tmp_path / "there" / name)
    with sb.Filter.open(tmp_path / "there" / "mine") as mine:
        assert scores(mine) == expected
        assert mine.health().state == "note"


def test_a_base_that_is_older_than_what_was_seen_of_it(site, tmp_path):
    shutil.copytree(site, tmp_path / "copy")
    with sb.Filter.open(site) as shared:
        shared.teach(*MAILS[100])
    with sb.Filter.create(tmp_path / "mine", base=site) as mine:
        mine.teach(*MAILS[101])
    shutil.rmtree(site)
    os.rename(tmp_path / "copy", site)
    with sb.Filter.open(tmp_path / "mine") as mine:
        assert mine.judge(MAILS[0][0]).basis == "base"
        health = mine.health()
        assert health.state == "problem"
        assert "older" in health.detail


def test_another_filter_in_the_place_of_the_base(site, tmp_path):
    with sb.Filter.create(tmp_path / "mine", base=site) as mine:
        mine.teach(*MAILS[100])
    shutil.rmtree(site)
    with sb.Filter.create(site, **POOL) as other:
        other.train(MAILS[:20], reserve=0.0)
    with sb.Filter.open(tmp_path / "mine") as mine:
        assert mine.judge(MAILS[0][0]).basis == "own layer"
        assert "not the base of this layer" in mine.health().detail
        assert mine.move_base(site)
        assert mine.judge(MAILS[0][0]).basis == "base"


@pytest.mark.parametrize("damage", ["manifest", "tables", "unreadable"])
def test_a_damaged_base_costs_no_mail(site, tmp_path, damage):
    with sb.Filter.create(tmp_path / "mine", base=site) as mine:
        mine.teach(*MAILS[100])
    files = json.loads((site / "manifest.json").read_bytes())["files"]
    name = "manifest.json" if damage != "tables" else files["tables"]["file"]
    if damage == "unreadable":
        os.unlink(site / name)
        (site / name).mkdir()
    else:
        content = (site / name).read_bytes()
        (site / name).write_bytes(content[: len(content) // 2])
    with sb.Filter.open(tmp_path / "mine") as mine:
        assert mine.judge(MAILS[0][0]).basis == "own layer"
        assert mine.health().state == "problem"
        assert mine.teach(*MAILS[101]) == "learnt"


def test_what_cannot_be_a_base_is_refused(site, tmp_path):
    sb.Filter.create(tmp_path / "mine", base=site).close()
    sb.Filter.create(tmp_path / "text", reader="text", **SMALL).close()
    sb.Filter.create(tmp_path / "words", **SMALL).close()
    sb.Filter.create(tmp_path / "three", ("a", "b", "c"), **POOL).close()
    with pytest.raises(NoModel):
        sb.Filter.create(tmp_path / "x", base=tmp_path / "nothing")
    for weight in (0, 1001, 2.5, True, "50"):
        with pytest.raises(ValueError, match="own_weight"):
            sb.Filter.create(tmp_path / "x", base=site, own_weight=weight)
    for options in ({"classes": ("a", "b")}, {"reader": "text"}, {"model": "words"}, {"width": 2**13}):
        with pytest.raises(BadInput, match="of its base"):
            sb.Filter.create(tmp_path / "x", base=site, **options)
    assert not (tmp_path / "x").exists()
    with pytest.raises(FileExistsError):
        sb.Filter.create(tmp_path / "mine", base=site)
    with sb.Filter.open(tmp_path / "mine") as mine:
        for other in ("text", "words", "three"):
            with pytest.raises(BadModel, match=r"reader|views|classes"):
                mine.move_base(tmp_path / other)
        with pytest.raises(BadModel, match="itself"):
            mine.move_base(tmp_path / "mine")
        (tmp_path / "link").symlink_to(tmp_path / "mine")
        with pytest.raises(BadModel, match="itself"):
            mine.move_base(tmp_path / "link")
        with (
            sb.Filter.create(tmp_path / "upper", base=tmp_path / "mine"),
            pytest.raises(BadModel, match="or a layer on it"),
        ):
            mine.move_base(tmp_path / "upper")
        assert mine.judge(MAILS[0][0]).basis == "base"
    with sb.Filter.open(site) as shared, pytest.raises(BadInput, match="not a layer"):
        shared.move_base(tmp_path / "mine")


def test_a_layer_inside_its_base_or_around_it(site, tmp_path):
    with sb.Filter.create(site / "users" / "ann", base=site) as ann:
        ann.teach(*MAILS[100])
    with sb.Filter.open(site) as shared:
        shared.teach(*MAILS[101])
        assert shared.problems() == []
    assert scores(site / "users" / "ann") == lean_scores(site / "users" / "ann")


def test_layers_that_stand_too_deep_are_refused(site, tmp_path):
    below = site
    for i in range(DEEPEST - 1):
        sb.Filter.create(tmp_path / str(i), base=below).close()
        below = tmp_path / str(i)
    with sb.Filter.open(below) as deepest:
        assert deepest.judge(MAILS[0][0]).basis == "base"
    with pytest.raises(BadModel, match="at most"):
        sb.Filter.create(tmp_path / "deep", base=below)


# ---------------------------------------------------------------------- people


def test_a_person_gets_a_layer_at_the_first_lesson(site, tmp_path):
    persons = Persons(str(tmp_path / "users"), str(site))
    assert persons.judging("Ann") == str(site)
    with persons.layer("Ann") as ann:
        assert ann.teach(MAILS[100][0], OTHER[MAILS[100][1]]) == "learnt"
    assert persons.judging("ann") == str(tmp_path / "users" / "ann")
    assert scores(persons.judging("ann")) != scores(site)
    with pytest.raises(ValueError, match="not a valid name"):
        persons.layer("../ann")
    with pytest.raises(NoModel, match="base"):
        Persons(str(tmp_path / "users")).layer("bob")
    assert os.listdir(tmp_path / "users") == ["ann"]


def test_a_quota_of_lessons_and_bytes(site, tmp_path):
    persons = Persons(str(tmp_path / "users"), str(site), Quota(lessons=2))
    with persons.layer("ann") as ann:
        for raw, label in MAILS[:2]:
            assert ann.teach(raw, label) == "learnt"
        with pytest.raises(QuotaReached, match="2 lessons"):
            ann.teach(*MAILS[2])
        assert ann.teach(*MAILS[1]) == "already"
        assert ann.teach(MAILS[1][0], OTHER[MAILS[1][1]]) == "moved"
        assert ann.forget(MAILS[0][0]) == "forgotten"
        assert ann.teach(*MAILS[2]) == "learnt"
        with pytest.raises(QuotaReached):
            ann.train(MAILS[5:9])
        assert ann.status()["journaled"] == 2
    with Persons(str(tmp_path / "users"), str(site), Quota(size=1000)).layer("ann") as ann:
        with pytest.raises(QuotaReached, match="1,000 bytes"):
            ann.teach(*MAILS[3])
        assert ann.forget(MAILS[2][0]) == "forgotten"


def test_a_person_who_is_deleted_leaves_no_byte_in_the_base(site, tmp_path):
    secret = b"Subject: Krankengeschichte xyzzyplugh\n\nxyzzyplugh quuxfrob confidential\n"
    before = files_of(site)
    with Persons(str(tmp_path / "users"), str(site)).layer("ann") as ann:
        ann.teach(secret, "ham", "ann@example.org")
        ann.train(MAILS[100:120])
    with sb.Filter.open(site) as shared:
        shared.judge(secret)
    assert files_of(site) == before
    shutil.rmtree(tmp_path / "users" / "ann")
    for folder, _, names in os.walk(tmp_path):
        for name in names:
            content = (tmp_path / folder / name).read_bytes()
            assert b"xyzzyplugh" not in content
            assert b"ann@example.org" not in content
            assert sb.read_message(secret).fingerprint.encode() not in content
