"""Fits beyond one machine, measured: `python benchmarks/cluster.py curve|overhead|mail|pools|judging|draw`.

curve      CPU time a document and peak memory of cluster.fit by two processes, from few documents to many, and of
           scikit-learn's CountVectorizer + MultinomialNB on a tenth of them; written to docs/scale/measured.json
overhead   the CPU time of Dask and of Spark over plain processes on the same parts, start-up excluded; same file
mail       `surebayes train --views words --no-journal` on two mailboxes of synthetic mail, end to end, and
           scikit-learn's CountVectorizer + MultinomialNB on a tenth of the same decoded texts; same file
pools      CPU time per document, peak memory and size of ViewPool("mail") by two processes on the same mail; same file
judging    peak memory of `surebayes classify --jobs 2` on few messages and on eight times as many, in four formats;
           same file
draw       the curves into docs/images/scale.png

The documents are invented: 60 common words each and 80 of a tail that grows as the vocabulary of mail does.
"""

import argparse
import json
import os
import pickle
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
MEASURED = HERE.parent / "docs" / "scale" / "measured.json"
PART = 10_000
COMMON, RARE = 60, 80
TEXT = " ".join(["c%x"] * COMMON + ["r%x"] * RARE)


def texts(first, n):
    """Return n invented texts from number `first` on, a multiple of PART, and their labels."""
    generator = np.random.default_rng([7, first])
    labels = generator.integers(0, 2, n)
    words = np.empty((n, COMMON + RARE), np.int64)
    words[:, :COMMON] = generator.random((n, COMMON)) ** 3 * 20_000
    words[:, :COMMON] += 300 * labels[:, None]
    words[:, COMMON:] = 1 / (generator.random((n, RARE)) + 1e-4) ** 4
    made = list(map(TEXT.__mod__, map(tuple, words.tolist())))
    return made, np.array(["ham", "spam"])[labels]


class Part:
    """A part on disk."""

    def __init__(self, path):
        self.path = path

    def __call__(self):
        """Read it."""
        with open(self.path, "rb") as file:
            return pickle.load(file)


def written(folder, n):
    """Write n documents in parts; return the parts."""
    parts = []
    for first in range(0, n, PART):
        path = Path(folder) / f"{first:09}.pickle"
        if not path.exists():
            path.write_bytes(pickle.dumps(texts(first, min(PART, n - first)), protocol=5))
        parts.append(Part(path))
    return parts


def model():
    from sklearn.pipeline import make_pipeline

    import surebayes as sb

    return make_pipeline(sb.CountVectorizer(), sb.OpinionPoolNB())


def descendants():
    """Return the CPU seconds of this process and all that it started and that still run."""
    tick, times, parents = os.sysconf("SC_CLK_TCK"), {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(folder.name)
        parents[pid] = int(fields[1])
        times[pid] = sum(map(int, fields[11:15])) / tick  # its own and its finished children's, in user and kernel

    def ours(pid):
        while pid > 1 and pid != os.getpid():
            pid = parents.get(pid, 0)
        return pid == os.getpid()

    return sum(seconds for pid, seconds in times.items() if ours(pid))


def measured(work):
    """Return the CPU and wall seconds of a call, all processes together."""
    cpu, wall = descendants(), time.perf_counter()
    work()
    return descendants() - cpu, time.perf_counter() - wall


# ---- the curve: each point in a separate process, for its peak of memory


def point(folder, n):
    """Fit n documents by two processes; print time and memory as JSON."""
    from surebayes import cluster

    parts, pipeline = written(folder, n), model()
    with ProcessPoolExecutor(2) as executor:
        list(executor.map(_warm, range(2)))
        cpu, wall = measured(lambda: cluster.fit(pipeline, parts, executor))
    here, there = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    terms = len(pipeline[0].get_feature_names_out())
    print(json.dumps({"documents": n, "terms": terms, "cpu": cpu, "wall": wall, "driver_mb": here / 1024,
                      "worker_mb": there / 1024}))  # fmt: skip


def _warm(_):
    import surebayes.cluster

    return surebayes.cluster.fit


def peer(folder, n):
    """Fit scikit-learn's pair on n documents in one process; print time and memory."""
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.naive_bayes import MultinomialNB

    read = [part() for part in written(folder, n)]
    documents, labels = [d for part in read for d in part[0]], np.concatenate([part[1] for part in read])
    del read
    cpu, wall = measured(lambda: MultinomialNB().fit(CountVectorizer().fit_transform(documents), labels))
    print(json.dumps({"documents": n, "cpu": cpu, "wall": wall,
                      "driver_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))  # fmt: skip


def in_process(*arguments):
    done = subprocess.run([sys.executable, __file__, *map(str, arguments)], check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def curve(folder, sizes):
    written(folder, max(sizes))
    points = []
    for n in sizes:
        points.append(in_process("point", folder, n))
        print(points[-1], flush=True)
    tenth = in_process("peer", folder, max(sizes) // 10)
    print("scikit-learn:", tenth, flush=True)
    record(curve=points, peer=tenth, load=os.getloadavg()[0])


# ---- cost of an engine over plain processes


def overhead(folder, n, engines):
    """Measure engines on the same parts; results of the remaining engines for as many documents stay."""
    from surebayes import cluster

    parts = written(folder, n)
    known = json.loads(MEASURED.read_text()).get("overhead", {}) if MEASURED.exists() else {}
    found = known if known.get("documents") == n else {"documents": n}
    if "processes" in engines:
        with ProcessPoolExecutor(2) as executor:
            list(executor.map(_warm, range(2)))
            cluster.fit(model(), parts[:2], executor)
            found["processes"] = measured(lambda: cluster.fit(model(), parts, executor))
    if "dask" in engines:
        found["dask"] = _with_dask(parts)
    if "spark" in engines:
        found["spark"] = _with_spark(parts)
    print(found, flush=True)
    record(overhead=found | {"load": os.getloadavg()[0]})


def _with_dask(parts):
    import dask
    import distributed

    from surebayes import cluster

    # By default workers sample their stacks and return every freed page at once, which wastes CPU.
    settings = {"distributed.worker.profile.enabled": False, "distributed.nanny.pre-spawn-environ": {}}
    with (
        dask.config.set(settings),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", host="127.0.0.1"
        ) as workers,
        distributed.Client(workers) as client,
    ):
        cluster.fit_dask(model(), parts[:2], client)
        return measured(lambda: cluster.fit_dask(model(), parts, client))


def _with_spark(parts):
    import pandas as pd
    from pyspark.sql import SparkSession

    from surebayes import cluster

    with tempfile.TemporaryDirectory() as folder:
        for k, part in enumerate(parts):
            documents, labels = part()
            # not compressed: Spark's Snappy takes this system for another where musl is installed beside glibc
            frame = pd.DataFrame({"text": documents, "label": labels.tolist()})
            frame.to_parquet(Path(folder) / f"{k:06}.parquet", compression=None)
        os.environ["PYSPARK_PYTHON"] = sys.executable
        spark = (
            SparkSession.builder.master("local-cluster[2,1,2048]")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.ui.enabled", "false")
            .config("spark.executor.memory", "2g")
            .config("spark.driver.maxResultSize", "2g")
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("OFF")
        try:
            frame = spark.read.parquet(folder)
            cluster.fit_spark(model(), frame.limit(2 * PART))
            return measured(lambda: cluster.fit_spark(model(), frame))
        finally:
            spark.stop()


# ---- a filter by command

BODY = " ".join((["c%x"] * 22 + ["r%x"] * 10) * 10)
HEAD = (
    "From sender%d@example.org Mon Jan  5 12:00:00 2026\n"
    "Received: from mx%d.example.org by mail.example.net; Mon, 5 Jan 2026 12:00:00 +0000\n"
    "From: Sender <sender%d@example.org>\nTo: reader@example.net\nSubject: %s\nMessage-ID: <%d@example.org>\n"
    "MIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n\n%s\n\n"
)


def bodies(first, n):
    """Return n synthetic message bodies from number `first` on, their labels, and the numbers of their rare words."""
    generator = np.random.default_rng([11, first])
    labels = generator.integers(0, 2, n)
    common = (generator.random((n, 10, 22)) ** 3 * 20_000).astype(np.int64) + 300 * labels[:, None, None]
    rare = (1 / (generator.random((n, 10, 10)) + 1e-4) ** 4).astype(np.int64)
    words = np.concatenate([common, rare], axis=2).reshape(n, -1)
    return list(map(BODY.__mod__, map(tuple, words.tolist()))), labels, np.unique(rare)


def mailboxes(folder, n):
    """Write n messages to ham.mbox and spam.mbox unless they exist; return the number of their rare words."""
    done = Path(folder) / f"mails-{n}.json"
    if not done.exists():
        rare = np.empty(0, np.int64)
        with open(Path(folder) / "ham.mbox", "w") as ham, open(Path(folder) / "spam.mbox", "w") as spam:
            for first in range(0, n, PART):
                texts, labels, rare_here = bodies(first, min(PART, n - first))
                rare = np.union1d(rare, rare_here)
                for k, (text, label) in enumerate(zip(texts, labels.tolist()), first):
                    subject = text[:40].rpartition(" ")[0]
                    (spam if label else ham).write(HEAD % (k % 5000, k % 50, k % 5000, subject, k, text))
        done.write_text(json.dumps(len(rare)))
    return json.loads(done.read_text())


def peer_of_mails(n):
    """Fit scikit-learn's pair on the decoded texts of n messages; print time and memory."""
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.naive_bayes import MultinomialNB

    made = [bodies(first, min(PART, n - first))[:2] for first in range(0, n, PART)]
    texts = [text[:40].rpartition(" ")[0] + "\n" + text for part in made for text in part[0]]
    labels = np.concatenate([part[1] for part in made])
    cpu, wall = measured(lambda: MultinomialNB().fit(CountVectorizer().fit_transform(texts), labels))
    print(json.dumps({"documents": n, "cpu": cpu, "wall": wall}))


def mail(folder, n):
    terms = mailboxes(folder, n) + 20_300
    with tempfile.TemporaryDirectory() as models:
        before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        command = [sys.executable, "-m", "surebayes", "train", "-m", f"{models}/filter", "--ham", f"{folder}/ham.mbox"]
        command += ["--spam", f"{folder}/spam.mbox", "--views", "words", "--no-journal", "--json"]
        subprocess.run(command, check=True, capture_output=True)
        wall, after = time.perf_counter() - wall, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    costs = {"documents": n, "terms": terms, "cpu": cpu, "wall": wall, "mb": after.ru_maxrss / 1024}
    print(costs, flush=True)
    tenth = in_process("peer_of_mails", folder, n // 10)
    print("scikit-learn:", tenth, flush=True)
    print(f"times as fast: {10 * tenth['wall'] / wall:.1f} in wall-clock, {10 * tenth['cpu'] / cpu:.1f} in CPU time")
    record(mail=costs | {"peer": tenth, "load": os.getloadavg()[0]})


# ---- pools

POOL_PART = 2_500


def mail_parts(folder, n):
    """Write n synthetic messages in parts; return the parts."""
    parts = []
    for first in range(0, n, POOL_PART):
        path = Path(folder) / f"mails-{first:09}.pickle"
        if not path.exists():
            texts, labels, _ = bodies(first, POOL_PART)
            head = HEAD.partition("\n")[2]
            raw = [(head % (k % 50, k % 5000, text[:40], k, text)).encode() for k, text in enumerate(texts, first)]
            path.write_bytes(pickle.dumps((raw, np.array(["ham", "spam"])[labels]), protocol=5))
        parts.append(Part(path))
    return parts


def pool_point(folder, n):
    """Fit a ViewPool on n messages by two processes; print time, memory, and the sizes of the model and an answer."""
    import surebayes as sb
    from surebayes import cluster
    from surebayes.cluster.pool_fits import Counting
    from surebayes.pool.specs import views_of

    parts, pool = mail_parts(folder, n), sb.ViewPool("mail")
    with ProcessPoolExecutor(2) as executor:
        list(executor.map(_warm, range(2)))
        cpu, wall = measured(lambda: cluster.fit(pool, parts, executor))
    here, there = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    answer = Counting("mail", views_of("pool", "mail", 2), 1)(0, parts[0])
    print(json.dumps({"documents": n, "cpu": cpu, "wall": wall, "driver_mb": here / 1024, "worker_mb": there / 1024,
                      "model_mb": len(pickle.dumps(pool, protocol=5)) / 2**20, "part": POOL_PART,
                      "answer_mb": len(pickle.dumps(answer, protocol=5)) / 2**20}))  # fmt: skip


def pools(folder, sizes):
    mail_parts(folder, max(sizes))
    points = []
    for n in sizes:
        points.append(in_process("pool_point", folder, n))
        print(points[-1], flush=True)
    record(pools=points)


# ---- judging


def in_formats(folder, n):
    """Write n synthetic messages as a mailbox, a Maildir, JSON lines and Parquet; return the arguments for each."""
    import pandas as pd

    mails = []
    for first in range(0, n, PART):
        texts, _, _ = bodies(first, min(PART, n - first))
        mails += [HEAD % (k % 5000, k % 50, k % 5000, text[:40], k, text) for k, text in enumerate(texts, first)]
    folder = Path(folder) / str(n)
    (folder / "maildir" / "cur").mkdir(parents=True)
    for name in ("new", "tmp"):
        (folder / "maildir" / name).mkdir()
    (folder / "mails.mbox").write_text("".join(mails))
    plain = [mail.partition("\n")[2] for mail in mails]
    for k, mail in enumerate(plain):
        (folder / "maildir" / "cur" / f"{k:07}:2,S").write_text(mail)
    (folder / "mails.jsonl").write_text("".join(json.dumps({"text": mail}) + "\n" for mail in plain))
    pd.DataFrame({"text": plain}).to_parquet(folder / "mails.parquet", row_group_size=PART)
    return {
        "mbox": [folder / "mails.mbox"],
        "Maildir": [folder / "maildir"],
        "JSON lines": ["--jsonl", folder / "mails.jsonl"],
        "Parquet": ["--parquet", folder / "mails.parquet"],
    }


def peak(pid):
    """Return the largest memory that the processes of a group had together, in MB, sampled until the first one ends."""
    highest = 0
    page = os.sysconf("SC_PAGE_SIZE")
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        total = 0
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if os.getpgid(int(folder.name)) == pid:
                    resident, shared = map(int, (folder / "statm").read_text().split()[1:3])
                    total += resident - (shared if int(folder.name) != pid else 0)
            except (OSError, ValueError):
                continue
        highest = max(highest, total)
        time.sleep(0.02)
    return highest * page / 2**20


def judging(folder, n):
    found = {"jobs": 2, "documents": [n // 8, n]}
    with tempfile.TemporaryDirectory() as models:
        model, few = f"{models}/filter", in_formats(folder, n // 8)
        mailboxes(models, n // 8)
        command = [sys.executable, "-m", "surebayes"]
        given = ["--ham", f"{models}/ham.mbox", "--spam", f"{models}/spam.mbox", "--views", "words", "--no-journal"]
        subprocess.run([*command, "train", "-m", model, *given], check=True, capture_output=True)
        many = in_formats(folder, n)
        for name in few:
            found[name] = []
            for paths, count in ((few[name], n // 8), (many[name], n)):
                with open(f"{models}/verdicts", "wb") as out:
                    judge = [*command, "classify", "-m", model, "--jobs", "2", *map(str, paths)]
                    started = subprocess.Popen(judge, stdout=out, start_new_session=True)
                    found[name].append(peak(started.pid))
                    assert started.wait() == 0
                assert Path(f"{models}/verdicts").read_bytes().count(b"\n") == count
            print(name, found[name], flush=True)
    record(judging=found)


# ---- keeping and drawing


def record(**figures):
    MEASURED.parent.mkdir(exist_ok=True)
    known = json.loads(MEASURED.read_text()) if MEASURED.exists() else {}
    MEASURED.write_text(json.dumps(known | figures, indent=1) + "\n")


def draw():
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    points = json.loads(MEASURED.read_text())["curve"]
    n = [p["documents"] for p in points]
    figure, (time_axis, memory_axis) = plt.subplots(1, 2, figsize=(9, 3.4))
    time_axis.semilogx(n, [1e6 * p["cpu"] / p["documents"] for p in points], "o-")
    time_axis.set(xlabel="documents", ylabel="CPU µs a document", title="time", ylim=(0, None))
    memory_axis.loglog(n, [p["driver_mb"] for p in points], "o-", label="driver")
    memory_axis.loglog(n, [p["worker_mb"] for p in points], "s-", label="largest worker")
    memory_axis.loglog(n, [p["terms"] * 24 / 2**20 for p in points], ":", color="grey", label="24 bytes a term")
    memory_axis.set(xlabel="documents", ylabel="peak memory, MB", title="memory")
    memory_axis.legend()
    figure.tight_layout()
    figure.savefig(HERE.parent / "docs" / "images" / "scale.png", dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["curve", "overhead", "mail", "pools", "judging", "draw", "point",
                                         "peer", "peer_of_mails", "pool_point"])  # fmt: skip
    parser.add_argument("rest", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--documents", type=int, default=3_000_000, help="the largest number of documents")
    parser.add_argument("--engines", default="processes,dask,spark", help="what to measure for `overhead`")
    parser.add_argument("--folder", help="where the documents are written and kept; a temporary folder if not given")
    options = parser.parse_args()
    if options.what == "peer_of_mails":
        return peer_of_mails(int(options.rest[1]))
    if options.what in ("point", "peer", "pool_point"):
        part = {"point": point, "peer": peer, "pool_point": pool_point}[options.what]
        return part(options.rest[0], int(options.rest[1]))
    if options.what == "draw":
        return draw()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or temporary
        if options.what == "curve":
            steps = [n for n in (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000) if n <= options.documents]
            return curve(folder, steps)
        if options.what == "mail":
            return mail(folder, options.documents)
        if options.what == "judging":
            return judging(folder, options.documents)
        if options.what == "pools":
            return pools(folder, [n for n in (5_000, 10_000, 20_000, 40_000) if n <= options.documents])
        return overhead(folder, options.documents, options.engines.split(","))


if __name__ == "__main__":
    main()
