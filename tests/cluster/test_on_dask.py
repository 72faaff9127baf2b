"""Fits and scores on a Dask cluster of two worker processes: what one machine makes, to the last byte."""

import json
import os
import signal
import time
import warnings
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from alike import cut, invented, same, same_pool
from click.testing import CliRunner
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import surebayes as sb
from surebayes import cluster
from surebayes.cli.train_learn_forget import train
from surebayes.cluster import spread
from surebayes.core import sampling
from surebayes.errors import BadInput, PartFailed
from surebayes.filter import training
from surebayes.synthetic import mail_stream
from variants import CHOOSING, VARIANTS

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.xdist_group("dask")
EVERY = VARIANTS | CHOOSING


@pytest.fixture(scope="module")
def client():
    with (
        dask.config.set({"distributed.scheduler.worker-ttl": None, "distributed.worker.daemon": True}),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        with (
            distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", host="127.0.0.1", memory_limit=None
            ) as workers,
            distributed.Client(workers) as client,
        ):
            yield client


@pytest.fixture(scope="module")
def rows():
    texts, y = invented(60, kinds=3)
    X = sb.CountVectorizer().fit_transform(texts)
    return X, y


@pytest.mark.parametrize("name", EVERY)
def test_every_classifier(name, client, rows):
    X, y = rows
    whole = clone(EVERY[name]).fit(X, y)
    same(cluster.fit_dask(clone(EVERY[name]), cut(X, y, 3), client), whole, X)


def test_documents_with_a_vocabulary_of_their_own(client):
    texts, y = invented(60)
    whole = make_pipeline(sb.CountVectorizer(min_df=2), sb.OpinionPoolNB(top=3)).fit(texts, y)
    for n_parts in (1, 2, 20):
        fitted = cluster.fit_dask(clone(whole), cut(texts, y, n_parts), client)
        assert fitted[0].vocabulary_ == whole[0].vocabulary_
        same(fitted[1], whole[1], whole[0].transform(texts))


def test_the_sample_is_that_of_one_machine(client, rows, monkeypatch):
    monkeypatch.setattr(sampling, "LARGEST", 15)
    X, y = rows
    whole = sb.PoissonNB(weight="auto").fit(X, y)
    same(cluster.fit_dask(sb.PoissonNB(weight="auto"), cut(X, y, 4), client), whole, X)


def test_bags_frames_and_delayed(client):
    import dask.bag
    import dask.dataframe

    texts, y = invented(40)
    labels = np.array(["ham", "spam"])[y]
    whole = make_pipeline(sb.CountVectorizer(), sb.OpinionPoolNB()).fit(texts, labels)
    X = whole[0].transform(texts)
    bag = dask.bag.from_sequence(list(zip(texts, labels.tolist())), npartitions=3)
    frame = pd.DataFrame({"body": texts, "kind": labels}, index=np.arange(100, 140))
    frames = dask.dataframe.from_pandas(frame, npartitions=3)
    delayed = [dask.delayed(lambda k: (texts[k::2], labels[k::2]))(k) for k in range(2)]
    for parts in (bag, delayed):
        same(cluster.fit_dask(clone(whole), parts, client)[1], whole[1], X)
    fitted = cluster.fit_dask(clone(whole), frames, client, text="body", label="kind")
    same(fitted[1], clone(whole).fit(frame.body, frame.kind)[1], X)
    with pytest.raises(BadInput, match=r"no column 'label'\. Its columns: body, kind"):
        cluster.fit_dask(clone(whole), frames, client)
    counted = pd.DataFrame(X.toarray()[:, :3], columns=["a", "b", "c"]).assign(label=y)
    fitted = cluster.fit_dask(sb.MultinomialNB(), dask.dataframe.from_pandas(counted, npartitions=2), client)
    same(fitted, sb.MultinomialNB().fit(counted[["a", "b", "c"]], y), counted[["a", "b", "c"]])


def test_scores(client):
    import dask.bag
    import dask.dataframe

    texts, y = invented(40)
    labels = np.array(["ham", "spam"])[y]
    model = make_pipeline(sb.CountVectorizer(), sb.OpinionPoolNB()).fit(texts, labels)
    scores, predicted = model.decision_function(texts), model.predict(texts)
    parts = cluster.score_dask(model, [texts[:7], lambda: texts[7:]], client)
    np.testing.assert_array_equal(np.concatenate(parts), scores)
    pairs = cluster.score_dask(model, dask.bag.from_sequence(texts, npartitions=4)).compute()
    assert pairs == list(zip(predicted.tolist(), scores.tolist()))
    frame = pd.DataFrame({"text": texts, "n": range(40)}, index=np.arange(100, 140))
    table = cluster.score_dask(model, dask.dataframe.from_pandas(frame, npartitions=3)).compute()
    assert table.columns.tolist() == ["text", "n", "predicted", "score"]
    assert table.index.tolist() == frame.index.tolist()
    np.testing.assert_array_equal(table.score, scores)
    assert table.predicted.tolist() == predicted.tolist()


def test_scores_of_several_classes_are_those_of_the_predicted_one(client, rows):
    X, y = rows
    model = sb.MultinomialNB().fit(X, y)
    (scores,) = cluster.score_dask(model, [X], client)
    # exponentials of numpy may differ in the last bit where a row lies elsewhere in memory
    np.testing.assert_allclose(scores, model.decision_function(X).max(axis=1), rtol=1e-13)


class Flaky:
    """A part that fails so many times, noted in a folder."""

    def __init__(self, folder, part, failures):
        self.folder, self.part, self.failures = folder, part, failures

    def __call__(self):
        tries = len(list(self.folder.iterdir()))
        (self.folder / str(tries)).touch()
        if tries < self.failures:
            raise OSError("the share was away")
        return self.part


def test_a_part_is_tried_again(client, rows, tmp_path):
    X, y = rows
    parts = [(X[:10], y[:10]), Flaky(tmp_path, (X[10:], y[10:]), 2)]
    same(cluster.fit_dask(sb.MultinomialNB(), parts, client), sb.MultinomialNB().fit(X, y), X)


def test_parts_that_fail_and_bad_parts_are_named(client, rows, tmp_path):
    X, y = rows
    with pytest.raises(PartFailed, match="part 1 could not be read: OSError: the share was away"):
        cluster.fit_dask(sb.MultinomialNB(), [(X, y), Flaky(tmp_path, None, 99)], client, retries=1)
    assert len(list(tmp_path.iterdir())) == 2
    with pytest.raises(BadInput, match="part 2 has 1 columns, part 0 has"):
        cluster.fit_dask(sb.MultinomialNB(), [(X, y), (X, y), (csr_array((1, 1)), [1])], client)


class Fatal:
    """A part whose first reader is killed while it reads."""

    def __init__(self, folder, part):
        self.folder, self.part = folder, part

    def __call__(self):
        if not (self.folder / "pid").exists():
            (self.folder / "half").write_text(str(os.getpid()))
            (self.folder / "half").rename(self.folder / "pid")
            time.sleep(30)
        return self.part


def kill_reader(folder):
    """Kill the worker that reads a fatal part."""
    while not (folder / "pid").exists():
        time.sleep(0.02)
    os.kill(int((folder / "pid").read_text()), signal.SIGKILL)


def test_a_worker_killed_mid_job(client, rows, tmp_path):
    import threading

    X, y = rows
    parts = cut(X, y, 4)
    whole = sb.OpinionPoolNB(top=4).fit(X, y)

    killer = threading.Thread(target=kill_reader, args=(tmp_path,), daemon=True)
    killer.start()
    fitted = cluster.fit_dask(sb.OpinionPoolNB(top=4), [*parts[:2], Fatal(tmp_path, parts[2]), parts[3]], client)
    killer.join(10)
    assert (tmp_path / "pid").exists()
    same(fitted, whole, X)


@pytest.mark.parametrize("views", ["mail", "text"])
def test_a_pool_of_views_also_after_a_worker_was_killed(views, client, tmp_path):
    import threading

    mails = [(mail.raw, mail.label) for mail in mail_stream(80, seed=9)]
    X, y = [raw for raw, _ in mails], np.array([label for _, label in mails])
    whole = sb.ViewPool(views, "stack", 2**14).fit(X, y)
    parts = cut(X, y, 4)
    same_pool(cluster.fit_dask(sb.ViewPool(views, "stack", 2**14), parts, client), whole, X)
    (scores,) = cluster.score_dask(whole, [X], client)
    np.testing.assert_array_equal(scores, whole.decision_function(X))
    killer = threading.Thread(target=kill_reader, args=(tmp_path,), daemon=True)
    killer.start()
    fatal = [*parts[:3], Fatal(tmp_path, parts[3])]
    same_pool(cluster.fit_dask(sb.ViewPool(views, "stack", 2**14), fatal, client), whole, X)
    killer.join(10)
    assert (tmp_path / "pid").exists()


# ---------------------------------------------------------------------- a filter


def files(folder):
    """Everything that a filter's scores depend on."""
    manifest = json.loads((folder / "manifest.json").read_bytes())
    scoring = {name: value for name, value in manifest["scoring"].items() if name != "model"}
    return (folder / manifest["files"]["tables"]["file"]).read_bytes(), scoring


@pytest.fixture(scope="module")
def mailboxes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mail")
    for number, mail in enumerate(mail_stream(120, seed=4)):
        (folder / mail.label).mkdir(exist_ok=True)
        (folder / mail.label / f"{number}.eml").write_bytes(mail.raw)
    return ["--ham", str(folder / "ham"), "--spam", str(folder / "spam")]


@pytest.mark.parametrize("options", [["--views", "words", "--no-journal"], ["--width", "16384"]], ids=["words", "pool"])
def test_a_filter_by_command(options, client, mailboxes, tmp_path, monkeypatch):
    monkeypatch.setattr(spread, "PIECES", 2)
    monkeypatch.setattr(training, "CHUNK", 7)
    for name, more in (("here", []), ("there", ["--dask", client.scheduler.address])):
        done = CliRunner().invoke(train, ["-m", str(tmp_path / name), *mailboxes, *options, *more])
        assert done.exit_code == 0, done.output
    assert files(tmp_path / "here") == files(tmp_path / "there")


class KillsOnce:
    """Cuts documents, but the first time its worker is killed."""

    def __init__(self, folder, cut):
        self.folder, self.cut = folder, cut

    def __call__(self, documents):
        if not (self.folder / "killed").exists():
            (self.folder / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.cut(documents)


def test_a_filter_whose_worker_is_killed(client, tmp_path):
    mails = [(mail.raw, mail.label) for mail in mail_stream(60, seed=4)]
    with sb.Filter.create(tmp_path / "here", width=2**14) as here:
        here.train(mails, reserve=0.1)
    with sb.Filter.create(tmp_path / "there", width=2**14) as there:
        workers = cluster.DaskSpread(client)
        there.train(mails, reserve=0.1, spread=lambda cut, items: workers(KillsOnce(tmp_path, cut), items))
    assert (tmp_path / "killed").exists()
    assert files(tmp_path / "here") == files(tmp_path / "there")


def away(documents):
    raise OSError("the share was away")


def test_a_filter_that_can_not_be_trained_there(client, tmp_path, mailboxes):
    for address in ("tcp://127.0.0.1:9", "nowhere:x"):
        with pytest.raises(BadInput, match=f"(?s)no Dask scheduler at '{address}'.*`dask scheduler`"):
            cluster.DaskSpread(address, timeout=0.5)
    done = CliRunner().invoke(train, ["-m", str(tmp_path / "f"), *mailboxes, "--dask", "nowhere:x"])
    assert done.exit_code != 0
    assert not (tmp_path / "f").exists()
    with (
        sb.Filter.create(tmp_path / "g", width=2**14) as mine,
        pytest.raises(PartFailed, match="part 0 could not be read: OSError: the share was away"),
    ):
        mine.train([(b"a", "ham")], spread=lambda cut, items: cluster.DaskSpread(client)(away, items))
    with mock.patch.object(sb, "__version__", "0.0.1"), pytest.raises(BadInput, match=r"Install surebayes 0.0.1 there"):
        cluster.DaskSpread(client)


def dies():
    os._exit(1)


@pytest.mark.slow
def test_a_part_that_kills_every_worker_is_named(rows):
    X, y = rows
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0", host="127.0.0.1", memory_limit=None
        ) as workers,
        distributed.Client(workers) as client,
        pytest.raises(
            PartFailed, match=r"part [01] could not be read: every worker with part [01]( to 1)? in progress"
        ),
    ):
        cluster.fit_dask(sb.MultinomialNB(), [(X, y), dies], client)
