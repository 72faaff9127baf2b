"""Cross-validation by subtraction: the same as training without the fold."""

import numpy as np
from scipy.sparse import csr_array

from surebayes.core import cross_validation, estimate
from surebayes.core.freezing import TrainingDocuments
from surebayes.core.represent import Representation
from surebayes.core.score import Linear


def documents(seed=0, n=60, labels=None):
    generator = np.random.default_rng(seed)
    rows = csr_array(generator.poisson(0.6, (n, 15)).astype(float))
    return TrainingDocuments(rows, np.arange(n) % 2 if labels is None else labels, 2, [1])


def test_folds_follow_contents_not_order():
    training = documents()
    order = np.random.default_rng(1).permutation(60)
    shuffled = TrainingDocuments(training.rows[order], training.labels[order], 2, [1])
    np.testing.assert_array_equal(cross_validation.deal(shuffled), cross_validation.deal(training)[order])
    counts = np.bincount(cross_validation.deal(training) * 2 + training.labels)
    assert counts.min() >= 9  # both classes in every fold


def test_copies_stay_together():
    training = documents()
    twice = TrainingDocuments(training.rows[np.repeat(np.arange(60), 2)], np.repeat(training.labels, 2), 2, [1])
    fold = cross_validation.deal(twice)
    np.testing.assert_array_equal(fold[::2], fold[1::2])


def test_held_out_scores_are_those_of_models_without_the_fold():
    training, z = documents(), Representation("binary", norm="l1")

    def model(statistics):
        rates = estimate.multinomial(*statistics.contrast(classes=[1]), 0.1, 15)
        return [Linear.of(z, rates.log_odds(), np.zeros(1))]

    (scores,) = cross_validation.held_out_scores(training, z, ("mass",), model)
    fold = cross_validation.deal(training)
    for f in range(cross_validation.FOLDS):
        rest = cross_validation.part(training, fold != f)
        alone = model(rest.statistics(z, ("mass",)))[0].scores(training.rows[np.flatnonzero(fold == f)])
        np.testing.assert_array_equal(scores[fold == f], alone)


def test_the_best_candidate_wins_and_the_usual_one_breaks_ties():
    training = documents()
    good = training.labels[:, None] + 0.0
    bad = -good

    def accuracy(y, s):
        return float(((s > 0.5) == y).mean())

    assert cross_validation.best_by_class(training, [bad, good], accuracy, 0) == [1]
    assert cross_validation.best_by_class(training, [good, bad, good], accuracy, 2) == [2]
    rare = documents(labels=np.array([1] * 3 + [0] * 57))
    assert cross_validation.best_by_class(rare, [bad, good], accuracy, lambda n: 0 if n == 3 else 1) == [0]
