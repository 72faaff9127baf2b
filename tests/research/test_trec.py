"""The TREC jig: feedback, and the measures."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surebayes import corpora, metrics, synthetic
from surebayes.errors import BadInput, NoInput
from surebayes.research import trec


class Parrot:
    """Answers with the label it was told last, and remembers the order of events."""

    def __init__(self):
        self.events, self.last = [], "ham"

    def judge(self, raw):
        self.events.append(("judge", raw))
        return self.last, 1.0 if self.last == "spam" else -1.0

    def teach(self, raw, label):
        self.events.append(("teach", raw))
        self.last = label


def write_index(folder, mails):
    (folder / "data").mkdir(parents=True)
    (folder / "full").mkdir()
    lines = []
    for k, (raw, label) in enumerate(mails):
        (folder / "data" / str(k)).write_bytes(raw)
        lines.append(f"{label} ../data/{k}\n")
    (folder / "full" / "index").write_text("".join(lines))
    return folder / "full" / "index"


@pytest.fixture
def index(tmp_path):
    return write_index(tmp_path, [(b"%d" % k, ("ham", "spam")[k % 3 == 0]) for k in range(60)])


def run(index, **options):
    parrot = Parrot()
    judged = list(trec.stream(trec.read_index(index), parrot, **options))
    return parrot, judged


def test_immediate_feedback_comes_after_each_verdict(index):
    parrot, judged = run(index)
    assert parrot.events[:4] == [("judge", b"0"), ("teach", b"0"), ("judge", b"1"), ("teach", b"1")]
    assert [j.label for j in judged[1:]] == [j.entry.label for j in judged[:-1]]


def test_delayed_feedback_comes_in_batches_and_in_order(index):
    parrot, _ = run(index, feedback="delayed", delay=5)
    taught = [raw for what, raw in parrot.events if what == "teach"]
    assert taught == [b"%d" % k for k in range(len(taught))]
    assert 40 <= len(taught) <= 60
    sizes, waiting = [], 0
    for what, _ in parrot.events:
        waiting += 1 if what == "judge" else -1
        sizes.append(waiting)
    assert max(sizes) <= 9
    assert max(sizes) > 1
    again, _ = run(index, feedback="delayed", delay=5)
    other, _ = run(index, feedback="delayed", delay=5, seed=1)
    assert again.events == parrot.events != other.events


def test_partial_feedback_is_told_for_a_share(index):
    parrot, _ = run(index, feedback="partial", share=0.5)
    taught = sum(what == "teach" for what, _ in parrot.events)
    assert 15 <= taught <= 45
    assert not any(what == "teach" for what, _ in run(index, feedback="partial", share=0.0)[0].events)
    assert run(index, feedback="partial", share=1.0)[0].events == run(index)[0].events


@given(st.lists(st.tuples(st.booleans(), st.floats(-5, 5)), min_size=2, max_size=60))
def test_measures_are_those_of_metrics(rows):
    truth = ["spam" if spam else "ham" for spam, _ in rows]
    scores = [score for _, score in rows]
    if len(set(truth)) < 2:
        with pytest.raises(BadInput, match="need ham and spam"):
            trec.measure(truth, scores)
        return
    figures = trec.measure(truth, scores)
    y = [label == "spam" for label in truth]
    ham = [s for s, spam in zip(scores, y) if not spam]
    spam = [s for s, positive in zip(scores, y) if positive]
    assert figures.roca_percent == metrics.roca_percent(y, scores)
    assert figures.hm_percent == pytest.approx(100 * sum(s > 0 for s in ham) / len(ham))
    assert figures.sm_percent == pytest.approx(100 * sum(s <= 0 for s in spam) / len(spam))
    assert figures.lam_percent == pytest.approx(metrics.lam_percent(figures.hm_percent / 100, figures.sm_percent / 100))
    assert figures.to_dict()["tpr_at_fpr_0.001"] == metrics.tpr_at_fpr(y, scores, 0.001)


def test_labels_of_the_filter_count_not_the_sign():
    figures = trec.measure(["ham", "spam"], [1.0, 2.0], ["ham", "spam"])
    assert (figures.hm_percent, figures.sm_percent) == (0.0, 0.0)


def test_intervals_hold_the_values(index):
    run = trec.run(index, Parrot())
    for name, (low, high) in run.intervals.items():
        assert low <= run.to_dict()[name] <= high


def test_filter_learns_on_the_way(tmp_path):
    mails = [(mail.raw, mail.label) for mail in synthetic.mail_stream(200, seed=3)]
    index = write_index(tmp_path, mails)
    judged = []
    run = trec.run(tmp_path, seen=judged.append, intervals=False)
    assert run.messages == 200
    assert run.roca_percent < 5
    assert len(judged) == 200
    line = judged[7].line().split()
    assert line[0] == "../data/7"
    assert line[1] == f"judge={mails[7][1]}"
    assert trec.run(index, limit=50, intervals=False).messages == 50


def test_filter_scores_as_a_pool_that_learnt_the_messages_before(tmp_path):
    mails = [(mail.raw, mail.label) for mail in synthetic.mail_stream(60, seed=4)]
    index = write_index(tmp_path, mails)
    scores = [judged.score for judged in trec.stream(trec.read_index(index), trec.OnlineFilter())]
    from surebayes import ViewPool

    pool = ViewPool().partial_fit([raw for raw, _ in mails[:59]], [label for _, label in mails[:59]])
    assert scores[59] == pytest.approx(pool.decision_function([mails[59][0]])[0], abs=1e-8)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("spam ../data/0\nhamm ../data/1\n", BadInput, "line 2: expected 'ham PATH' or 'spam PATH'"),
        ("spam\n", BadInput, "line 1"),
        ("\n\n", NoInput, "has no lines"),
    ],
)
def test_bad_index_is_explained(tmp_path, text, error, message):
    index = write_index(tmp_path, [(b"x", "ham")])
    index.write_text(text)
    with pytest.raises(error, match=message):
        trec.read_index(index)


def test_missing_files_are_named(tmp_path):
    index = write_index(tmp_path, [(b"x", "ham"), (b"y", "spam")])
    (tmp_path / "data" / "1").unlink()
    with pytest.raises(BadInput, match="data/1, which can't be read: No such file"):
        list(trec.stream(trec.read_index(index), Parrot()))
    with pytest.raises(NoInput, match="No index at"):
        trec.read_index(tmp_path / "nothing")


@pytest.mark.parametrize("wrong", [{"feedback": "never"}, {"delay": 0}, {"share": 1.5}])
def test_wrong_options_are_refused(index, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        run(index, **{"feedback": "delayed", **wrong})


@pytest.mark.slow
@pytest.mark.corpus
@pytest.mark.parametrize(("name", "limit"), [("spamassassin", 0.12), ("enron_spam", 0.045)])
def test_immediate_feedback_on_real_mail(tmp_path, corpora_folder, name, limit):
    corpus = corpora.load(name)
    index = write_index(tmp_path, zip(corpora.mails(corpus), corpus.labels))
    assert trec.run(index, intervals=False).roca_percent <= limit
