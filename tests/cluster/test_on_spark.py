"""Fits and scores on a Spark of two executors, each a separate process: what one machine makes, to the last byte."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from alike import invented, same, same_pool
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import surebayes as sb
from surebayes import cluster
from surebayes.core import sampling
from surebayes.errors import BadInput, PartFailed
from surebayes.synthetic import mail_stream
from variants import CHOOSING, VARIANTS

if not os.environ.get("SUREBAYES_SPARK"):
    pytest.skip("make test-spark runs these", allow_module_level=True)
pyspark = pytest.importorskip("pyspark")

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"),
]
EVERY = VARIANTS | CHOOSING


@pytest.fixture(scope="module")
def spark():
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    here = os.path.dirname(os.path.abspath(__file__))
    os.environ["PYTHONPATH"] = os.pathsep.join([here, os.path.dirname(here)])
    session = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.executor.memory", "512m")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "7")
        .config("spark.task.maxFailures", "4")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def mail(spark):
    texts, y = invented(60, kinds=3)
    labels = np.array(["ham", "spam", "list"])[y]
    return texts, labels, spark.createDataFrame(list(zip(texts, labels.tolist())), "text string, label string")


@pytest.mark.parametrize("name", EVERY)
def test_every_classifier(name, mail):
    texts, labels, frame = mail
    whole = make_pipeline(sb.CountVectorizer(), clone(EVERY[name])).fit(texts, labels)
    fitted = cluster.fit_spark(clone(whole), frame)
    assert fitted[0].vocabulary_ == whole[0].vocabulary_
    same(fitted[1], whole[1], whole[0].transform(texts))


@pytest.mark.parametrize("partitions", [1, 3, 20])
def test_any_partition(partitions, mail, monkeypatch):
    monkeypatch.setattr(sampling, "LARGEST", 15)
    texts, labels, frame = mail
    for estimator in (sb.OpinionPoolNB(top=3), sb.PoissonNB(weight="auto")):
        whole = make_pipeline(sb.CountVectorizer(min_df=2), estimator).fit(texts, labels)
        fitted = cluster.fit_spark(clone(whole), frame.repartition(partitions))
        same(fitted[1], whole[1], whole[0].transform(texts))


def test_hashed_columns_and_numbers_for_labels(spark):
    texts, y = invented(40)
    frame = spark.createDataFrame(list(zip(texts, y.tolist())), "body string, kind long")
    vectorizer = sb.HashingVectorizer(n_features=2**12, norm=None, alternate_sign=False)
    whole = make_pipeline(vectorizer, sb.OpinionPoolNB()).fit(texts, y)
    same(cluster.fit_spark(clone(whole), frame, "body", "kind")[1], whole[1], whole[0].transform(texts))


@pytest.mark.parametrize("views", ["mail", "text"])
def test_a_pool_of_views(views, spark):
    mails = [(mail.raw, mail.label) for mail in mail_stream(80, seed=9)]
    frame = spark.createDataFrame([(bytearray(raw), label) for raw, label in mails], "text binary, label string")
    X, y = [raw for raw, _ in mails], [label for _, label in mails]
    whole = sb.ViewPool(views, "stack", 2**14).fit(X, y)
    same_pool(cluster.fit_spark(sb.ViewPool(views, "stack", 2**14), frame.repartition(12)), whole, X)
    scores = {row["text"]: row["score"] for row in cluster.score_spark(whole, frame).collect()}
    assert [scores[raw] for raw in X] == whole.decision_function(X).tolist()


def test_scores(mail, spark):
    texts, labels, frame = mail
    model = make_pipeline(sb.CountVectorizer(), sb.OpinionPoolNB()).fit(texts, labels == "spam")
    rows = cluster.score_spark(model, frame).collect()
    scores = dict(zip(texts, model.decision_function(texts).tolist()))
    assert len(rows) == 60
    assert all(row["score"] == scores[row["text"]] and row["predicted"] is (row["score"] > 0) for row in rows)
    assert cluster.score_spark(model, frame).columns == ["text", "label", "predicted", "score"]


def test_bad_input_is_named(mail, spark):
    _, _, frame = mail
    model = make_pipeline(sb.CountVectorizer(), sb.OpinionPoolNB())
    with pytest.raises(BadInput, match="no column 'body': it has text, label"):
        cluster.fit_spark(model, frame, text="body")
    with pytest.raises(TypeError, match="put a vectorizer before"):
        cluster.fit_spark(sb.OpinionPoolNB(), frame)
    hole = spark.createDataFrame([("a b", "ham"), (None, "spam")], "text string, label string").coalesce(1)
    with pytest.raises(BadInput, match="part 0: a document or a label is null"):
        cluster.fit_spark(model, hole)
    with pytest.raises(BadInput, match="the parts have no documents"):
        cluster.fit_spark(model, frame.limit(0))


def fails(document):
    raise OSError("the share was away")


def test_a_part_that_always_fails_is_named(mail):
    _, _, frame = mail
    model = make_pipeline(sb.CountVectorizer(tokenizer=fails, token_pattern=None), sb.OpinionPoolNB())
    with pytest.raises(PartFailed, match="part 0 could not be read: OSError: the share was away"):
        cluster.fit_spark(model, frame.coalesce(1))


def executors():
    """Return the pids of the executors that Spark started from here."""
    parents, pids = {}, []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            pid, status, command = int(folder.name), (folder / "stat").read_text(), (folder / "cmdline").read_bytes()
        except OSError:  # it has ended
            continue
        parents[pid] = int(status.rpartition(")")[2].split()[1])
        if b"CoarseGrainedExecutorBackend" in command:
            pids.append(pid)

    def ours(pid):
        while pid > 1 and pid != os.getpid():
            pid = parents.get(pid, 0)
        return pid == os.getpid()

    return [pid for pid in pids if ours(pid)]


class SlowFirst:
    """A tokenizer that says when it starts, and then takes its time, the first time."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, document):
        started = os.path.join(self.folder, "started")
        if not os.path.exists(started):
            open(started, "w").close()
            time.sleep(3)
        return document.split()


def test_an_executor_killed_mid_job(mail, tmp_path):
    texts, labels, frame = mail
    vectorizer = sb.CountVectorizer(tokenizer=SlowFirst(str(tmp_path)), token_pattern=None)
    killed = []

    def kill():
        while not (tmp_path / "started").exists():
            time.sleep(0.02)
        killed.append(executors()[0])
        os.kill(killed[0], signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    fitted = cluster.fit_spark(make_pipeline(vectorizer, sb.OpinionPoolNB(top=4)), frame.repartition(6))
    killer.join(10)
    assert killed
    whole = make_pipeline(clone(vectorizer), sb.OpinionPoolNB(top=4)).fit(texts, labels)
    same(fitted[1], whole[1], whole[0].transform(texts))
