"""The suites on small synthetic corpora: what is trained, what is scored, what the tables say."""

from dataclasses import replace

import numpy as np
import pytest

from surebayes import metrics
from surebayes.cli import main as command
from surebayes.research import corpora, suite_peers, suites
from surebayes.research.corpora import Corpus
from surebayes.research.suite_peers import Batch

HAM = ["lunch", "noon", "meeting", "minutes", "draft", "paper", "usual", "place", "thanks", "regards", "project"]
SPAM = ["cheap", "pills", "order", "now", "prize", "claim", "gold", "watches", "singles", "click", "free", "winner"]


def text(rng, words, n=12):
    return " ".join(rng.choice([*words, "the", "a", "of", "you"], n))


def mail_corpus(n=150, seed=0):
    rng = np.random.default_rng(seed)
    labels = [("ham", "spam")[i] for i in rng.integers(0, 2, n)]
    mails = [
        f"From: {i}@example.org\nSubject: {text(rng, w, 3)}\n\n{text(rng, w)}\n".encode()
        for i, w in enumerate(HAM if label == "ham" else SPAM for label in labels)
    ]
    order = rng.permutation(n).tolist()
    return Corpus("spamassassin", mails, labels, [str(i) for i in range(n)], order)


def text_corpus(n=80, seed=0):
    rng = np.random.default_rng(seed)
    labels = [("ham", "spam")[i % 2] for i in range(n)]
    texts = [text(rng, HAM if label == "ham" else SPAM) for label in labels]
    return Corpus("sms_spam", texts, labels, [str(i) for i in range(n)], list(range(n)))


def news_corpus(n=90, seed=0):
    rng = np.random.default_rng(seed)
    topics = {"a": HAM[:6], "b": SPAM[:6], "c": ["goal", "ball", "team", "match", "league", "cup"]}
    labels = [sorted(topics)[i % 3] for i in range(n)]
    texts = [f"From: x\nSubject: y\n\n{text(rng, topics[label])}".encode() for label in labels]
    split = ["train" if i < 60 else "test" for i in range(n)]
    return Corpus("news20_bydate", texts, labels, [str(i) for i in range(n)], list(range(n)), split)


def prompt_corpus(n=120, seed=0):
    rng = np.random.default_rng(seed)
    labels = [("legitimate", "injection")[i % 2] for i in range(n)]
    texts = [text(rng, HAM if label == "legitimate" else SPAM) for label in labels]
    texts[90:93] = texts[:3]  # copies of training documents
    split = ["train" if i < 80 else "test" for i in range(n)]
    return Corpus("prompt_injections", texts, labels, [str(i) for i in range(n)], list(range(n)), split)


@pytest.fixture(autouse=True)
def small_corpora(monkeypatch):
    made = {"spamassassin": mail_corpus, "sms_spam": text_corpus, "news20_bydate": news_corpus}
    made["prompt_injections"] = prompt_corpus
    monkeypatch.setattr(corpora, "load", lambda name: made[name]())
    monkeypatch.setattr(suite_peers, "N_GRAM_COLUMNS", 2**14)


def test_flipping_turns_the_stated_share_and_depends_on_the_seed():
    labels = np.arange(400) % 3 == 0
    noisy = suites.flipped(labels, 1)
    assert (noisy != labels).sum() == 20
    assert (suites.flipped(labels, 1) == noisy).all()
    assert (suites.flipped(labels, 2) != noisy).any()


def test_mail_comes_in_the_order_of_time():
    documents, y = suites._stream("spamassassin", 1.0)
    corpus = mail_corpus()
    first = int(np.argmin(corpus.order))
    assert documents[0] == corpus.documents[first]
    assert y[0] == (corpus.labels[first] == "spam")
    assert len(suites._stream("spamassassin", 0.5)[0]) == 75


def test_mail_suite():
    seen = []
    results = suites.mail_suite(["spamassassin"], flips=2, report=seen.append)
    assert sorted(map(str, seen)) == sorted(map(str, results))
    batch = [r for r in results if r.table == "batch"]
    assert {r.system for r in batch} >= {"ViewPool", "TunedNB, words", *suite_peers.PEERS, suite_peers.SLOW}
    noisy = [r for r in results if r.table == "flipped labels"]
    assert {r.seed for r in noisy} == {0, 1}
    assert {r.system for r in results if r.table == "online"} >= {"ViewPool", "online LR, byte 4-grams"}
    for r in results:
        assert r.auc_low <= r.auc + 1e-9
        assert r.auc <= r.auc_high + 1e-9
        assert r.tpr_low <= r.tpr + 1e-9 <= r.tpr_high + 2e-9
        assert r.seconds >= 0
    assert next(r for r in batch if r.system == "ViewPool").auc > 0.9
    made = suites.tables(results)
    assert [title for title, _, _ in made] == [f"spamassassin: {k}" for k in ("batch", "flipped labels", "online")]
    assert len(made[0][2]) == len(batch)


def test_only_the_first_third_trains():
    documents, y = suites._stream("spamassassin", 1.0)
    batch = Batch.of(documents, y, 50)
    assert len(batch.train) == 50
    assert len(batch.test) == 100
    inner = batch.inner()
    assert inner.train + inner.test == batch.train
    assert inner.train_texts == batch.train_texts[: len(inner.train)]
    # the labels given to a system are the ones it learns from, not those of the batch
    for system in ("ViewPool", "LinearSVC, words", "MultinomialNB, words", "online LR, byte 4-grams"):
        run = suites.OURS.get(system) or suite_peers.PEERS[system]
        setting = suite_peers.SETTINGS.get(system, (None,))[0]
        right, _ = run(batch, batch.labels, setting)
        wrong, _ = run(batch, ~batch.labels, setting)
        assert metrics.roc_auc(batch.truth, right) > 0.9
        assert metrics.roc_auc(batch.truth, wrong) < 0.1


def test_settings_are_chosen_on_training_documents(monkeypatch):
    documents, y = suites._stream("spamassassin", 1.0)
    batch = Batch.of(documents, y, 60)
    tried = []

    def run(inner, labels, setting):
        tried.append(setting)
        assert set(inner.train) | set(inner.test) == set(batch.train)
        good = np.where(inner.truth, 1.0, 0.0)
        return (good if setting == 10.0 else -good), ""

    monkeypatch.setitem(suite_peers.PEERS, "LinearSVC, words", run)
    assert suite_peers.choose("LinearSVC, words", batch) == 10.0
    assert tried == [0.1, 1.0, 10.0]
    assert suite_peers.choose("no settings", batch) is None


def test_online_scores_come_before_learning():
    documents, y = suites._stream("spamassassin", 0.4)
    scores, _ = suites.online_pool(documents, y)
    assert scores[0] == 0
    assert metrics.roc_auc(y, scores) > 0.8
    again, _ = suites.online_pool([*documents[:-1], documents[0]], y)
    np.testing.assert_array_equal(scores[:-1], again[:-1])
    lr, how = suite_peers.online_logistic(documents, y)
    assert lr[0] == 0
    assert how.startswith("rate 0.00")


def test_byte_rows_of_both_vectorizers_score_alike():
    documents, y = suites._stream("spamassassin", 1.0)
    batch = Batch.of(documents, y, 60)
    fast, _ = suite_peers.PEERS["LinearSVC, byte 3-5-grams"](batch, batch.labels, ("raw", 1.0))
    slow, _ = suite_peers.slow_machine(batch, batch.labels, ("raw", 1.0))
    assert np.corrcoef(fast, slow)[0, 1] > 0.99  # scikit-learn's character n-grams take a run of blanks as one


def test_text_suite():
    systems = ["ViewPool", "TunedNB, words and pairs", "LinearSVC, words and pairs", "ComplementNB, words"]
    results = suites.text_suite(["sms_spam"], systems=systems, share=0.3)
    assert [r.system for r in results] == systems
    assert all(r.table == "text" and r.auc > 0.5 for r in results)
    assert len(suites.tables(results)[0][2]) == 4


def test_folds_part_the_documents():
    tasks = suites.text_tasks("sms_spam")
    assert len(tasks) == 10
    unique = text_corpus().without_duplicates()
    assert sorted(t for task in tasks for t in task.test) == sorted(unique.documents)
    for task in tasks:
        assert not set(task.test) & set(task.train)
        assert abs(task.truth.mean() - 0.5) < 0.2


def test_newsgroups_one_against_the_rest_by_one_pool():
    tasks = suites.text_tasks("news20_bydate")
    assert len(tasks) == 3
    assert all((task.labels == (task.classes == c)).all() for task, c in zip(tasks, "abc"))
    shared = {}
    for task in tasks:
        scores, _ = suites._text_pool(replace(task, made=shared), task.labels, None)
        assert metrics.roc_auc(task.truth, scores) > 0.9
    assert list(shared) == ["pool"]  # fitted once


def test_guard_suite(monkeypatch):
    (task,) = suites.text_tasks("prompt_injections")
    assert (len(task.train), len(task.test)) == (80, 37)
    assert not set(task.train) & set(task.test)
    corpus = prompt_corpus()
    label = dict(zip(corpus.documents, corpus.labels))
    assert task.labels.tolist() == [label[document] == "injection" for document in task.train]
    assert task.truth.tolist() == [label[document] == "injection" for document in task.test]
    assert len(suites.text_tasks("prompt_injections", 0.5)[0].train) == 40
    monkeypatch.setattr(suites, "GUARD_TRAINS_ON", 30)
    assert len(suites.text_tasks("prompt_injections")[0].train) == 30


def test_the_guard_suite_by_command(capsys, tmp_path):
    out = str(tmp_path / "guard.jsonl")
    options = ["--system", "ViewPool", "--system", "ComplementNB, words", "--out", out]
    arguments = ["compare", "--suite", "guard", "--corpus", "prompt_injections", *options]
    assert command([*arguments, "--no-json"]) == 0
    assert "prompt_injections: guard" in capsys.readouterr().out
    results = suites.show_file(out, "guard")
    assert [result.system for result in results] == ["ViewPool", "ComplementNB, words"]
    assert all(result.auc_low <= result.auc <= result.auc_high and result.auc > 0.9 for result in results)
    assert suites.show_file(out, "text") == []
    assert command([*arguments, "--resume", "--json"]) == 0
    assert command(["compare", "--suite", "guard", "--corpus", "sms_spam"]) == 2
    assert "The guard suite has no corpus 'sms_spam'" in capsys.readouterr().err


@pytest.mark.skipif("bogofilter" not in suite_peers.available(), reason="bogofilter is not installed")
def test_bogofilter():
    documents, y = suites._stream("spamassassin", 1.0)
    batch = Batch.of(documents, y, 75)
    scores, _ = suite_peers.available()["bogofilter"](batch, batch.labels, None)
    assert len(scores) == len(batch.truth)
    assert metrics.roc_auc(batch.truth, scores) > 0.7


def test_an_unknown_system_is_said_before_anything_runs():
    with pytest.raises(ValueError, match=r"Unknown system 'LinearSVM'\. Available: ViewPool; "):
        suites.mail_suite(["spamassassin"], systems=["LinearSVM"])
    with pytest.raises(ValueError, match="Unknown system 'bogofilter'"):
        suites.text_suite(["sms_spam"], systems=["bogofilter"])


def test_rows_are_made_once_and_charged_each_time():
    documents, y = suites._stream("spamassassin", 1.0)
    batch = Batch.of(documents, y, 60)
    made = []

    def slow():
        made.append(1)
        return sum(i * i for i in range(2_000_000))

    first = batch.cached("rows", slow)
    assert batch.charged == 0
    noisy = batch.relabelled(~batch.labels)
    assert noisy.cached("rows", slow) == first
    assert len(made) == 1
    assert noisy.charged == batch.made["rows"][1] > 0
    assert batch.with_empty_cache().made == {}
    # what is made of something kept is charged for both
    noisy.cached("more", lambda: noisy.cached("rows", slow))
    assert noisy.made["more"][1] >= noisy.made["rows"][1]


def test_settings_are_chosen_for_every_seed_on_the_same_rows():
    documents, y = suites._stream("spamassassin", 1.0)
    batch = Batch.of(documents, y, 60)
    system = "LinearSVC, words"
    for seed in range(2):
        noisy = batch.relabelled(suites.flipped(batch.labels, seed, 0.3))
        anew = Batch.of(documents, y, 60).relabelled(noisy.labels)
        assert suite_peers.choose(system, noisy) == suite_peers.choose(system, anew.with_empty_cache())
        assert (noisy.inner().labels == noisy.labels[:40]).all()
        assert (noisy.inner().truth == noisy.labels[40:]).all()
        chosen = noisy.made["inner"][0].made
        assert sum(isinstance(key, tuple) for key in chosen) == 1


def test_a_file_of_results_is_resumed(tmp_path):
    out, systems = tmp_path / "results.jsonl", ["ComplementNB, words", "MultinomialNB, words"]
    options = {"flips": 1, "online": False, "out": out}
    first = suites.mail_suite(["spamassassin"], systems=systems[:1], **options)
    assert len(out.read_text().splitlines()) == len(first) == 2
    new = []
    both = suites.mail_suite(["spamassassin"], systems=systems, resume=True, report=new.append, **options)
    assert [r.system for r in new] == systems[1:] * 2
    assert sorted(map(str, both)) == sorted(map(str, first + new))
    again = suites.mail_suite(["spamassassin"], systems=systems, resume=True, report=new.append, **options)
    assert again == both
    assert len(new) == 2
    # other settings are other results, and an interrupted line is none
    out.write_text(out.read_text() + '{"suite": "mail", "tab')
    suites.mail_suite(["spamassassin"], systems=systems, resume=True, report=new.append, share=0.9, **options)
    assert len(new) == 6
    shown = suites.show_file(out, "mail")
    assert len(shown) == 4
    assert suites.show_file(out, "text") == []
    out.write_text('{"suite": "mail"}\n')
    with pytest.raises(ValueError, match=r"Line 1 of .* is not a suite result"):
        suites.show_file(out, "mail")
    out.write_text("my thesis")
    with pytest.raises(ValueError, match="not a file of suite results"):
        suites.mail_suite(["spamassassin"], systems=systems, **options)
    assert out.read_text() == "my thesis"
    with pytest.raises(ValueError, match="resume needs the result file"):
        suites.mail_suite(["spamassassin"], resume=True)


def test_a_system_that_fails_does_not_stop_the_others(monkeypatch, tmp_path):
    def fails(batch, labels, setting):
        raise ArithmeticError("too hard")

    monkeypatch.setitem(suite_peers.PEERS, "MultinomialNB, words", fails)
    seen = []
    with pytest.raises(RuntimeError, match="MultinomialNB, words on sms_spam: ArithmeticError: too hard"):
        suites.text_suite(
            ["sms_spam"],
            systems=["MultinomialNB, words", "ComplementNB, words"],
            share=0.2,
            out=tmp_path / "out",
            report=seen.append,
        )
    assert [r.system for r in seen] == ["ComplementNB, words"]


@pytest.mark.skipif("Vowpal Wabbit, words" not in suite_peers.available(), reason="Vowpal Wabbit is not installed")
def test_vowpal_wabbit():
    documents, y = suites._stream("spamassassin", 1.0)
    batch = Batch.of(documents, y, 75)
    scores, _ = suite_peers.available()["Vowpal Wabbit, words"](batch, batch.labels, None)
    assert metrics.roc_auc(batch.truth, scores) > 0.9


def test_the_command_prints_tables(capsys, tmp_path):
    out = str(tmp_path / "results.jsonl")
    arguments = ["mail", "--corpus", "spamassassin", "--flips", "2", "--no-online", "--system", "ComplementNB, words"]
    assert command(["compare", "--suite", *arguments, "--no-json", "--out", out]) == 0
    printed = capsys.readouterr().out
    assert "spamassassin: batch" in printed
    assert "ComplementNB" in printed
    assert command(["compare", "--suite", "mail", "--out", out, "--show", "--markdown"]) == 0
    printed = capsys.readouterr().out
    assert "### spamassassin: flipped labels" in printed
    assert "| **ComplementNB, words** | 1.0000 [" in printed
    assert (
        command(
            ["compare", "--suite", "text", "--corpus", "sms_spam", "--system", "ComplementNB, words", "--part", "0.2"]
        )
        == 0
    )
    assert capsys.readouterr().out.startswith('{"table": "text"')
    assert command(["compare", "--suite", "mail", "--resume"]) == 2
    assert command(["compare", "--suite", "mail", "--out", str(tmp_path)]) == 2
    assert command(["compare", "--suite", "mail", "--out", "nowhere", "--show"]) == 2
    assert command(["compare", "--suite", "nothing"]) == 2
