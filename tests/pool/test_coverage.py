"""Novelty: p-values of coverage against a recomputation, what they promise, and documents without evidence."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import surebayes as sb
from strategies import coverage_shares, shares_of_words
from surebayes import synthetic
from surebayes._store_errors import BadModel
from surebayes.filter.model import NO_TERMS
from surebayes.filter.quick.filter_mail import verdict_fields
from surebayes.kernels import ints
from surebayes.pool.coverage import GROWTH, MIN_DOCUMENTS, MOST, kept, record, sampled
from surebayes.pool.engine import Engine
from surebayes.pool.novelty import coverage_of, novelty_of, p_value
from surebayes.pool.specs import views_of

UNKNOWN = b"Subject: zyxwv\n\nqqqqwert plokij mnbvcx\n"


@settings(max_examples=80)
@given(coverage_shares, shares_of_words)
def test_a_p_value_is_the_exact_one_or_a_little_larger(shares, share):
    coverage = kept(shares)
    if len(shares) < MIN_DOCUMENTS:
        assert coverage is None
        return
    assert coverage_of(coverage) is coverage
    exact = (1 + sum(each >= share for each in shares)) / (len(shares) + 1)
    rounded = (1 + sum(np.ceil(each * 1e4 - 1e-6) / 1e4 >= share for each in shares)) / (len(shares) + 1)
    found = p_value(coverage, share)
    assert exact <= rounded <= found <= min(GROWTH * rounded + 1 / (len(shares) + 1), 1) + 1e-12


def test_p_values_of_documents_like_the_known_ones_are_valid():
    """Among documents of one source no more than a share a has a p-value of at most a, up to chance."""
    random = np.random.default_rng(0)
    found = []
    for _ in range(300):
        shares = random.beta(2, 5, 201)
        found.append(p_value(kept(shares[:200].tolist()), shares[200]))
    for level in (0.01, 0.05, 0.2):
        assert np.mean(np.array(found) <= level) <= level + 3 * np.sqrt(level / 300)
    assert np.mean(np.array(found) <= 0.2) > 0.1  # and they say something


def exact_p(known, new):
    """Recompute the p-value of a document's shares by view from those of known ones."""
    views = range(known.shape[1])
    product = np.prod([(1 + (known[:, v] >= new[v]).sum()) / (len(known) + 1) for v in views])
    products = np.array([np.prod([(known[:, v] >= shares[v]).mean() for v in views]) for shares in known])
    return (1 + (products <= product * (1 + 1e-12)).sum()) / (len(known) + 1)


@pytest.mark.parametrize("n", [MIN_DOCUMENTS, 59, 200])
def test_a_p_value_of_several_views_is_the_exact_one_or_near_it(n):
    """Apart from the ranks between two that are kept; the product sums up both views."""
    random = np.random.default_rng(n)
    known = random.integers(0, 40, (n, 2)) / 40
    coverage = record(known.tolist())
    assert coverage_of(coverage) is coverage
    for _ in range(200):
        new = random.integers(0, 44, 2) / 44
        found = novelty_of(coverage, ["words", "raw 4"], new.tolist())
        exact = exact_p(known, new)
        assert exact / GROWTH - 1.5 / (n + 1) <= found.p <= min(exact * GROWTH**2 + 1.5 / (n + 1), 1) + 1e-12
    assert novelty_of(coverage, ["words", "raw 4"], [1.0, 1.0]).p == 1 / (n + 1)
    assert novelty_of(coverage, ["words", "raw 4"], [0.0, 0.0]).p == 1.0


def test_p_values_of_several_views_are_valid():
    random, found = np.random.default_rng(2), []
    for _ in range(300):
        shares = random.beta(2, 5, (241, 2))
        shares[:, 1] = (shares[:, 0] + shares[:, 1]) / 2  # views of one document are alike
        found.append(novelty_of(record(shares[:240].tolist()), "ab", shares[240]).p)
    for level in (0.01, 0.05, 0.2):
        assert np.mean(np.array(found) <= level) <= level + 3 * np.sqrt(level / 300)
    assert np.mean(np.array(found) <= 0.05) > 0.01
    assert np.mean(np.array(found) <= 0.2) > 0.1


def words_left_out(texts, which):
    """Recompute the share of a text's words that no other text has."""
    cut = [set(text.lower().split()) for text in texts]
    elsewhere = set().union(*(words for d, words in enumerate(cut) if d != which))
    return len(cut[which] - elsewhere) / len(cut[which])


def test_a_document_is_left_out_of_the_counts_exactly():
    random = np.random.default_rng(1)
    texts = [" ".join(f"word{w}" for w in random.integers(0, 60, random.integers(1, 12))) for _ in range(40)]
    engine = Engine("text", views_of("pool", "text", 2), 2)
    rows, labels = engine.cut(texts), random.integers(0, 2, 40)
    engine.learn(rows, memoryview(labels))
    before = engine.__getstate__()
    shares = [engine.unseen(rows, d, int(labels[d])) for d in range(40)]
    assert shares == [words_left_out(texts, d) for d in range(40)]
    assert engine.__getstate__() == before
    for d in range(0, 40, 7):  # as if it had really been forgotten
        engine.forget(rows, memoryview(labels), ints([d]))
        assert engine.unseen(rows, d) == shares[d]
        engine.learn(rows, memoryview(labels), ints([d]))
    with pytest.raises(ValueError, match=r"below zero|never|negative"):
        engine.unseen(engine.cut(["unheard words"]), 0, 1)


def test_documents_are_sampled_evenly():
    assert sampled([ints(range(7))]).tolist() == list(range(7))
    many = sampled([ints(range(0, 4000, 2)), ints(range(1, 4000, 2))])
    assert len(many) == MOST
    assert many[0] == 0
    assert set(np.diff(many).tolist()) == {8}


RANKS = [[20, 0.0], [1, 0.5], [20, 0.0]]
OF_VIEWS = {"ranks": [RANKS, RANKS], "together": RANKS}


@pytest.mark.parametrize(
    "value",
    [7, [], [[20, 0.0]], [[20, 0.0], [1, 2.0]], [[20, 0.0], [1, 0.5], [2, 0.6]], [[20, 0.0], [21, 0.5]],
     [[20, 0.0], [1, float("nan")]], [[20.0, 0.0], [1, 0.5]], [[20, 0.0], [2, 0.5], [1, 0.4]], [[20, 0.0], ["1", 0.5]],
     [[20, 0.0]] * 201, [[True, 0.0], [1, 0.5]], {"ranks": [RANKS]}, {**OF_VIEWS, "more": 1},
     {**OF_VIEWS, "ranks": []}, {**OF_VIEWS, "ranks": [[]]}, {**OF_VIEWS, "ranks": [RANKS, 7]},
     {**OF_VIEWS, "ranks": "ab"}, {**OF_VIEWS, "ranks": [RANKS] * 101}, {**OF_VIEWS, "together": None}],
)  # fmt: skip
def test_a_damaged_record_is_refused(value):
    with pytest.raises(BadModel):
        coverage_of(value)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("novelty") / "filter"
    raws, labels = synthetic.as_lists(400, 3, languages="en")
    with sb.Filter.create(folder) as mine:
        mine.train(list(zip(raws, labels)))
    return folder, raws, labels


def test_a_filter_keeps_its_record_through_files_journal_and_tuning(trained, tmp_path):
    folder, raws, _ = trained
    with sb.Filter.open(folder) as mine:
        first = [mine.judge(raw, remember=False).novelty for raw in raws[:20]]
        assert all(0 < p <= 1 for p in first)
        assert mine.judge(UNKNOWN).novelty < 0.05
        assert mine.judge(UNKNOWN).to_dict()["novelty"] == mine.judge(UNKNOWN).novelty
        mine.export(tmp_path / "copy.zip")
        state = mine._session.fresh_state()
        record = state.engine.coverage
        assert state.settings.coverage == record
        known = mine.judge(raws[0]).novelty
        mine.teach(UNKNOWN, "ham")
        assert mine.judge(UNKNOWN).novelty == 1.0  # it is known now
        mine.forget(UNKNOWN)
        assert mine.judge(UNKNOWN).novelty < 0.05
        assert mine.judge(raws[0]).novelty == known
    with sb.Filter.import_(tmp_path / "copy.zip", tmp_path / "copy") as copy:
        assert [copy.judge(raw, remember=False).novelty for raw in raws[:20]] == first
    sb.Filter.rebuild(tmp_path / "copy")
    with sb.Filter.open(tmp_path / "copy") as copy:
        assert copy._session.fresh_state().engine.coverage == record
        copy.retune()
        again = copy._session.fresh_state().engine.coverage
        assert again["together"][0] == record["together"][0]
        assert copy.judge(UNKNOWN).novelty < 0.05


def test_header_json_and_library_agree(trained):
    folder, raws, _ = trained
    with sb.Filter.open(folder) as mine:
        for raw in (raws[0], UNKNOWN):
            fields = dict(verdict_fields(str(folder), raw, None)[0])
            assert fields[b"X-Surebayes-Novelty"] == b"%.4f" % mine.judge(raw, remember=False).novelty
    assert b"X-Surebayes-Novelty" not in dict(verdict_fields(str(folder), b"", None)[0])


def test_new_addresses_are_novel_in_the_source_and_new_words_in_the_text(trained):
    folder, raws, _ = trained
    with sb.Filter.open(folder) as mine:
        head, body = raws[0].split(b"\n\n", 1)
        strange = bytes(np.random.default_rng(0).integers(0x21, 0x7F, 2000).tolist())
        addressed = mine.judge(b"X-Track: " + strange + b"\n" + head + b"\n\n" + body)
        assert addressed.novelty_by_view["raw 4"] < 0.05 < addressed.novelty_by_view["words"]
        assert addressed.to_dict()["novelty_by_view"] == addressed.novelty_by_view
        assert list(addressed.novelty_by_view) == ["words", "raw 4"]
        worded = mine.judge(head + b"\n\n" + b" ".join(b"qw%dzx" % k for k in range(60)))
        assert worded.novelty_by_view["words"] < 0.05
        assert worded.novelty < 0.05


def test_shares_come_from_the_opinions_of_a_verdict_or_from_lookups(trained):
    folder, raws, _ = trained
    with sb.Filter.open(folder) as mine:
        engine = mine._session.fresh_state().pool
        rows = engine.cut([*raws[:40], UNKNOWN, b"", raws[0] + b"zzyzx " * 9])
        opinions = engine.opinions(rows)
        looked_up = [engine.novelty(rows, d) for d in range(43)]
        assert [engine.novelty(rows, d, opinions) for d in range(43)] == looked_up
        assert looked_up[41] is None
        assert len({novelty.p for novelty in looked_up if novelty}) > 5


def test_a_record_of_words_alone_is_used_as_it_is(trained):
    """Filters of earlier versions have one; it is replaced by the next training."""
    folder, raws, _ = trained
    with sb.Filter.open(folder) as mine:
        engine = mine._session.fresh_state().pool
        rows = engine.cut([raws[0], UNKNOWN])
        now, engine.coverage = engine.coverage, [[30, 0.0], [1, 0.5], [30, 0.0]]
        assert [engine.novelty(rows, d).by_view for d in (0, 1)] == [{"words": 1.0}, {"words": 1 / 31}]
        engine.coverage = {"ranks": [RANKS] * 3, "together": RANKS}
        with pytest.raises(BadModel, match="more views than the model"):
            engine.novelty(rows)
        engine.coverage = now


def test_a_filter_without_a_record_says_nothing(tmp_path):
    with sb.Filter.create(tmp_path / "few") as mine:
        mine.train([(b"Subject: %s %d\n\n" % (word, k), label) for k in range(5)
                    for word, label in ((b"pills", "spam"), (b"lunch", "ham"))])  # fmt: skip
        assert mine.judge(UNKNOWN).novelty is None
        assert "novelty" not in mine.judge(UNKNOWN).to_dict()
    assert b"X-Surebayes-Novelty" not in dict(verdict_fields(str(tmp_path / "few"), UNKNOWN, None)[0])


@pytest.mark.parametrize("document", [b"", b"\n\n", b"\r\n"])
def test_nothing_is_no_alarm_and_no_novelty(trained, tmp_path, document):
    """Whatever the filter has learnt: of spam only, on a layer, or on a base that is gone."""
    folder, raws, labels = trained
    with sb.Filter.create(tmp_path / "layer", base=folder) as layer:
        assert layer.judge(document).label == "ham"
        layer.teach(UNKNOWN, "spam")
        verdict = layer.judge(document)
        assert (verdict.label, verdict.novelty) == ("ham", None)
    with sb.Filter.open(folder) as mine:
        assert mine.judge(document).label == "ham"
    spam = [raw for raw, label in zip(raws, labels) if label == "spam"]
    with sb.Filter.create(tmp_path / "one-sided") as mine:
        mine.train([(raw, "spam") for raw in spam[:40]] + [(b"Subject: x\n\ny", "ham")], reserve=0)
        assert mine.judge(document).label == "ham"
    assert dict(verdict_fields(str(folder), document, None)[0])[b"X-Surebayes-Label"] == b"ham"


@pytest.mark.parametrize("model", ["words", "pool"])
@settings(max_examples=15, deadline=None)
@given(words=st.lists(st.integers(0, 10**9), min_size=0, max_size=8))
def test_terms_that_nobody_taught_are_no_alarm(tmp_path_factory, model, words):
    """Texts of terms from another alphabet, judged by a pool, a filter, `filter` and a layer."""
    folder = tmp_path_factory.mktemp("unknown")
    text = " ".join("".join(chr(0x4E00 + int(digit)) for digit in f"{word:010d}") for word in words)
    lessons = [(f"cheap pills buy now {k}", "spam") for k in range(30)] + [("lunch at noon", "ham")]
    with sb.Filter.create(folder / "site", reader="text", model=model) as mine:
        mine.train(lessons, reserve=0)
        verdict = mine.judge(text)
        assert (verdict.label, verdict.basis) == ("ham", NO_TERMS)
        assert verdict.probability <= 0.5
    with sb.Filter.create(folder / "layer", reader="text", model=model, base=folder / "site") as layer:
        layer.teach("cheap offer", "spam")
        assert (layer.judge(text).label, layer.judge(text).basis) == ("ham", NO_TERMS)
    fields = dict(verdict_fields(str(folder / "site"), text.encode(), None)[0])
    assert (fields[b"X-Surebayes-Label"], fields[b"X-Surebayes-Basis"]) == (b"ham", NO_TERMS.encode())


def test_a_layer_without_evidence_judges_as_its_site(trained, tmp_path):
    folder, raws, _ = trained
    with sb.Filter.open(folder) as site, sb.Filter.create(tmp_path / "ann", base=folder) as ann:
        for raw in raws[:30]:
            mine, theirs = ann.judge(raw), site.judge(raw, remember=False)
            assert (mine.label, mine.score, mine.threshold, mine.novelty) == (
                theirs.label, theirs.score, theirs.threshold, theirs.novelty,
            )  # fmt: skip
        ann.teach(UNKNOWN, "spam")  # words of no other message
        same = [ann.judge(raw).label == site.judge(raw, remember=False).label for raw in raws]
        assert np.mean(same) > 0.99
        assert site.judge(UNKNOWN, remember=False).novelty < 0.05
        assert ann.judge(UNKNOWN).novelty == 1.0


def test_the_pool_of_scikit_learn_has_it_too(trained):
    _, raws, labels = trained
    pool = sb.ViewPool("mail").fit(raws, labels)
    p = pool.novelty([*raws[:5], UNKNOWN, b""])
    assert p[5] < 0.05
    assert np.isnan(p[6])
    assert (p[:5] > 0.05).sum() >= 4
