"""Cost of ViewPool("text") and quality of a filter of text (corpora in the folder that SUREBAYES_DATA names).

    python benchmarks/text_pool.py peers [CORPUS]    # CPU, and that of LinearSVC on byte 3-5-grams; ten minutes
    python benchmarks/text_pool.py cost [CORPUS]     # CPU, and that of linear machines on words and characters; minutes
    python benchmarks/text_pool.py documents 25000   # CPU to fit this many texts of 1.15 kB, and of words alone
    python benchmarks/text_pool.py filters           # AUC_0.1 of a filter and of ViewPool; a minute or two
    python benchmarks/text_pool.py classes           # the gain of small classes from shared weights; a minute or two

peers: the first task of each corpus of the text suite, documents to scores. The machine is scikit-learn's LinearSVC
with C=10 on tf-idf rows, by scikit-learn's own vectorizer. A ratio is peer / ours; the newsgroups are one pool of
twenty classes against twenty machines on rows made once; three machines are fitted, the remaining ones extrapolated.

cost: the same tasks, texts to scores. Machines: scikit-learn's TfidfVectorizer (words, sublinear) and LinearSVC; and
LinearSVC on tf-idf of character 3- to 5-grams within word borders, by this library's vectorizer, each with its default
C. Runs below two seconds are repeated up to five times, and the minimum counts. The mean AUC_0.1 and recall at
0.1% false positives of the classes are in the same table.

documents: the texts of Enron-Spam, at most 4,000 characters of each, in a random order; beyond its 33,716 the first
half of one and the second of another, with a label at random, because only the cost is asked for.

classes: training documents only. Reuters with one topic that has four documents at least, two thirds of each topic
training; Reuters with all of its 90 topics, two thirds of the texts training, one of several topics once for each; 60
texts of each newsgroup training, a quarter of the rest judging. Weights of each class by itself, and as the pool
weights them.

filters: a random 60% of the texts train, with no document set aside; mean over the classes of the newsgroups.
"""

import os
import resource
import sys
import tempfile
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.svm import LinearSVC

from surebayes import CountVectorizer, Filter, OpinionPoolNB, ViewPool, corpora, metrics, read_message
from surebayes.pool import choosing
from surebayes.pool.engine import Engine
from surebayes.pool.fit import freeze
from surebayes.pool.specs import views_of
from surebayes.pool.weights import UNIT, PoolWeights, weight_contrast, weight_experts
from surebayes.research import suites
from surebayes.research.suite_peers import SLOW, slow_machine


def cpu() -> float:
    return sum(os.times()[:4])


def pool() -> ViewPool:
    return ViewPool("text", "stack")


# ---------------------------------------------------------------------- beside a linear machine


def peers(names: Sequence[str] = suites.TEXT) -> None:
    """Print the cost of the pool and the machine on each corpus."""
    for name in names:
        tasks = suites.text_tasks(name)
        first, classes = tasks[0], tasks[0].classes
        pool().fit(["a b", "c d"] * 9, [0, 1] * 9)  # what is imported when it is first used isn't the corpus's cost
        start = cpu()
        pool().fit(first.train, first.labels if classes is None else classes).decision_function(first.test)
        ours = cpu() - start
        some = [0] if classes is None else [0, 7, 14]
        batch, spent = first.with_empty_cache(), []
        for i in some:
            start = cpu()
            slow_machine(batch, tasks[i].labels, ("text tf-idf", 10.0))
            spent.append(cpu() - start)
        peer = spent[0] if classes is None else spent[0] + (len(tasks) - 1) * float(np.mean(spent[1:]))
        print(f"{name}: {ours:.2f} s against {peer:.2f} s of {SLOW}, {peer / ours:.1f} times (at least 3)", flush=True)


def on_words() -> Pipeline:
    return make_pipeline(TfidfVectorizer(sublinear_tf=True), LinearSVC())


def on_characters() -> Pipeline:
    vectorizer = CountVectorizer(analyzer="char_wb", ngram_range=(3, 5))
    return make_pipeline(vectorizer, TfidfTransformer(sublinear_tf=True), LinearSVC())


SYSTEMS = {"ViewPool": pool, "TF-IDF of words, LinearSVC": on_words, "characters, LinearSVC": on_characters}


def cost(names: Sequence[str] = ("sms_spam", "movie_reviews", "news20_bydate")) -> None:
    """Print the cost and the quality of the pool and of linear machines."""
    for make in SYSTEMS.values():  # what is imported when it is first used isn't the corpus's cost
        make().fit(["one two", "three four"] * 9, [0, 1] * 9).decision_function(["one"])
    for name in names:
        tasks = suites.text_tasks(name)
        first, several = tasks[0], tasks[0].classes is not None
        labels = first.classes if several else first.labels
        truths = [task.truth for task in tasks] if several else [first.truth]
        print(f"{name}, {len(first.train):,} texts of {len(np.unique(labels))} classes", flush=True)
        pool_took = 0.0
        for system, make in SYSTEMS.items():
            times: list[tuple[float, float]] = []
            while len(times) < 5 and sum(map(sum, times)) < 2:  # small corpora again: the least of all counts
                start = cpu()
                fitted = make().fit(first.train, labels)
                trained = cpu()
                scores = np.reshape(fitted.decision_function(first.test), (len(first.test), -1))
                times.append((trained - start, cpu() - trained))
            fit, score = np.min(times, axis=0)
            pool_took = pool_took or fit + score
            each = [(metrics.partial_auc(y, s), metrics.tpr_at_fpr(y, s, 0.001)) for y, s in zip(truths, scores.T)]
            area, recall = np.mean(each, axis=0)
            reached = f"AUC_0.1 {area:.4f}, recall {recall:.3f}"
            ratio = f"the pool takes {pool_took / (fit + score):.1f} times as much"
            print(f"  {system}: fit {fit:.2f} s, score {score:.2f} s; {reached}; {ratio}", flush=True)


# ---------------------------------------------------------------------- many documents


def documents(n: int) -> None:
    """Print the cost of fitting n texts."""
    corpus, random = corpora.load("enron_spam"), np.random.default_rng(0)
    messages = [read_message(mail) for mail in corpora.mails(corpus)]
    order = random.permutation(len(messages))
    texts = [(messages[i].subject + "\n" + messages[i].text)[:4000] for i in order]
    spam = np.array([corpus.labels[i] == "spam" for i in order])
    more = max(n - len(texts), 0)
    for i, j in random.integers(len(order), size=(more, 2)):
        texts.append(texts[i][: len(texts[i]) // 2] + texts[j][len(texts[j]) // 2 :])
    spam = np.append(spam, random.integers(2, size=more).astype(bool))
    start = cpu()
    fitted = pool().fit(texts[:n], spam[:n])
    trained = cpu() - start
    fitted.decision_function(texts[:5000])
    scored, peak = cpu() - start - trained, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    size = np.mean([len(text) for text in texts[:n]])
    start = cpu()
    OpinionPoolNB().fit(CountVectorizer().fit_transform(texts[:n]), spam[:n])
    peer = cpu() - start
    print(
        f"{n:,} texts of {size:,.0f} characters: {trained:.1f} s of CPU to fit, {1000 * trained / n:.3f} ms a text; ",
        end="",
    )
    print(f"scoring {1000 * scored / min(n, 5000):.3f} ms a text; peak {peak:.1f} GB; ", end="")
    print(f"CountVectorizer and OpinionPoolNB take {peer:.1f} s")


# ---------------------------------------------------------------------- a filter beside ViewPool


def filters() -> None:
    """Print the quality of a pool and a filter of the same texts."""
    for name in ("movie_reviews", "sms_spam", "news20_bydate"):
        corpus = corpora.load(name)
        corpus = corpus if name == "news20_bydate" else corpus.without_duplicates()
        texts = corpora.texts(corpus, subject=True) if name == "news20_bydate" else corpora.texts(corpus)
        labels = np.array([label if isinstance(label, str) else label[0] for label in corpus.labels])
        train, test = np.split(np.random.default_rng(0).permutation(len(texts)), [round(0.6 * len(texts))])
        classes = sorted(set(labels))
        fitted = pool().fit([texts[i] for i in train], labels[train])
        ours = np.reshape(fitted.decision_function([texts[i] for i in test]), (len(test), -1))
        with tempfile.TemporaryDirectory() as folder, Filter.create(f"{folder}/f", classes, reader="text") as mine:
            mine.train([(texts[i], labels[i]) for i in train], reserve=0, journal=False)
            engine = mine._session.loaded_state().engine
            theirs = np.reshape(engine.scores(engine.cut([texts[i] for i in test])), (len(test), -1))
        shown = []
        for scores in (ours, theirs):
            inside = [labels[test] == c for c in (classes if len(classes) > 2 else classes[1:])]
            each = [(metrics.partial_auc(y, s), metrics.tpr_at_fpr(y, s, 0.001)) for y, s in zip(inside, scores.T)]
            area, recall = np.mean(each, axis=0)
            shown.append(f"{area:.4f} / {recall:.3f}")
        print(f"{name}: ViewPool {shown[0]}, Filter {shown[1]}", flush=True)


# ---------------------------------------------------------------------- many small classes


@dataclass
class Classes:
    """Texts of many classes: training texts and labels, texts that weight the experts, and the test labels."""

    texts: list[str]
    labels: np.ndarray  # of all texts; test texts may have any
    training: np.ndarray
    held: np.ndarray  # places of texts
    truth: np.ndarray  # (texts that judge, classes)


def one_label(texts: list[str], y: np.ndarray, training: np.ndarray) -> Classes:
    """Return texts that have one label each."""
    train = np.flatnonzero(training)
    held = train[choosing.held_out(y[train], np.ones(len(train), np.int64))]
    return Classes(texts, y, training, held, y[~training][:, None] == np.arange(y.max() + 1))


def topics_of_reuters() -> tuple[list[str], list[list[str]]]:
    """Return the training documents and the topics of each."""
    train, _ = corpora.modapte(corpora.load("reuters21578"))
    topics = [[label] if isinstance(label, str) else list(label) for label in train.labels]
    return corpora.texts(train, subject=True), topics


def reuters() -> Classes:
    """Return texts of one topic each."""
    texts, topics = topics_of_reuters()
    single = [i for i, several in enumerate(topics) if len(several) == 1]
    names, codes, sizes = np.unique([topics[i][0] for i in single], return_inverse=True, return_counts=True)
    common = np.flatnonzero(sizes[codes] >= 4)
    y = np.unique(names[codes[common]], return_inverse=True)[1]
    random, training = np.random.default_rng(0), np.ones(len(y), bool)
    for c in range(y.max() + 1):
        inside = random.permutation(np.flatnonzero(y == c))
        training[inside[: max(1, len(inside) // 3)]] = False
    return one_label([texts[single[i]] for i in common], y, training)


def all_topics() -> Classes:
    """Return all texts that have a topic; one of several topics trains once for each, and is held out with all."""
    texts, topics = topics_of_reuters()
    names = sorted({topic for several in topics for topic in several})
    order = np.random.default_rng(0).permutation([i for i, several in enumerate(topics) if several])
    train, judge = np.split(order, [2 * len(order) // 3])
    first = np.array([names.index(topics[i][0]) for i in train])
    is_held = dict(zip(train.tolist(), choosing.held_out(first, np.ones(len(train), np.int64)).tolist()))
    pairs = [(i, names.index(topic)) for i in train.tolist() for topic in topics[i]]
    labels = np.array([c for _, c in pairs] + [0] * len(judge))
    truth = np.array([[name in topics[i] for name in names] for i in judge])
    held = np.flatnonzero([is_held[i] for i, _ in pairs])
    places = [i for i, _ in pairs] + judge.tolist()
    return Classes([texts[i] for i in places], labels, np.arange(len(places)) < len(pairs), held, truth)


def newsgroups() -> Classes:
    """Return a few training texts of each newsgroup, and test texts."""
    task = suites.text_tasks("news20_bydate")[0]
    y, random = np.unique(task.classes, return_inverse=True)[1], np.random.default_rng(0)
    few = np.concatenate([random.permutation(np.flatnonzero(y == c))[:60] for c in range(20)])
    order = np.append(few, np.setdiff1d(np.arange(len(y)), few)[::4])
    return one_label([task.train[i] for i in order], y[order], np.arange(len(order)) < len(few))


def classes() -> None:
    """Print the quality of each class with separate and with borrowed weights."""
    for name, read in (
        ("Reuters, one topic", reuters),
        ("Reuters, all topics", all_topics),
        ("newsgroups", newsgroups),
    ):
        data = read()
        y, k = data.labels, data.truth.shape[1]
        engine = Engine("text", views_of("pool", "text", k), k)
        rows, shape = engine.cut(data.texts), (-1, k, engine.n_experts)
        train, held = np.flatnonzero(data.training), data.held
        head = np.setdiff1d(train, held)
        engine.learn(rows, array("q", y), array("q", head))
        freeze(engine, rows, np.asarray(y, np.int64), np.asarray(head, np.int64))
        opinions = np.reshape(engine.opinions(rows, array("q", held)), shape)
        engine.learn(rows, array("q", y), array("q", held))
        freeze(engine, rows, np.asarray(y, np.int64), np.asarray(train, np.int64))
        judged = np.reshape(engine.opinions(rows, array("q", np.flatnonzero(~data.training))), shape)
        borrowed, few = weight_experts(opinions, y[held], range(k), "stack")
        alone = PoolWeights.equal(k, engine.n_experts)
        for c in set(range(k)) - set(few):
            weights, alone.bias[c] = weight_contrast(opinions[:, c], y[held] == c, "stack")
            alone.units[c] = [round(float(weight) / UNIT) for weight in weights]
        sizes = np.bincount(y[train], minlength=k)
        seen = np.flatnonzero((sizes > 0) & data.truth.any(0))
        small = seen[sizes[seen] < np.median(sizes[seen])]
        for how, weights in (("by itself", alone), ("borrowing", borrowed)):
            each = {c: figures(weights, judged, data.truth[:, c], c) for c in seen}
            shown = [np.mean([each[c] for c in some], axis=0) for some in (seen, small if len(small) else seen)]
            cells = ", ".join(f"{area:.4f} / {recall:.3f}" for area, recall in shown)
            summary = f"{k} classes, {len(seen)} in both training and test, each {how}"
            print(f"{name}: {summary}: all, the smaller half: {cells}", flush=True)


def figures(weights: PoolWeights, opinions: np.ndarray, inside: np.ndarray, c: int) -> tuple[float, float]:
    scores = opinions[:, c] @ np.array(weights.of_contrast(c)) + weights.bias[c]
    return metrics.partial_auc(inside, scores), metrics.tpr_at_fpr(inside, scores, 0.001)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["peers"]:
            peers()
        case ["peers", name] if name in suites.TEXT:
            peers([name])
        case ["cost"]:
            cost()
        case ["cost", name] if name in suites.TEXT:
            cost([name])
        case ["documents", n]:
            documents(int(n))
        case ["filters"]:
            filters()
        case ["classes"]:
            classes()
        case _:
            sys.exit(__doc__)
