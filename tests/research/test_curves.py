"""Learning curves and label-noise curves: what changes is what they say, and nothing else."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

import surebayes as sb
from surebayes.research.curves import learning_curve, noise_curve

GENERATOR = np.random.default_rng(0)
Y = np.repeat([0, 1, 1, 0], 60)
X = GENERATOR.poisson(np.where(Y[:, None] == 1, [2.0, 1.0, 0.5, 1.0], [0.5, 1.0, 2.0, 1.0]))


class Recorder(ClassifierMixin, BaseEstimator):
    """Remembers what it was trained on."""

    seen: list = []  # noqa: RUF012 - shared by clones on purpose

    def fit(self, X, y):
        self.classes_ = np.unique(Y)
        self.seen.append((np.asarray(X), np.asarray(y)))
        return self

    def decision_function(self, X):
        return np.asarray(X)[:, 0] - np.asarray(X)[:, 2].astype(float)

    def predict(self, X):
        return (self.decision_function(X) > 0).astype(int)


@pytest.fixture
def seen():
    Recorder.seen.clear()
    return Recorder.seen


def test_more_documents_are_better_and_the_last_point_is_the_plain_comparison():
    models = {"NB": sb.MultinomialNB()}
    curve = learning_curve(models, X, Y, shares=(1.0, 0.05), repeats=5)
    assert curve.points == [0.05, 1.0]
    few, all_of_them = curve.mean("auc")["NB"]
    assert few < all_of_them
    assert all_of_them == sb.compare(models, X, Y, repeats=5).mean("auc")["NB"]


def test_a_smaller_share_is_part_of_a_larger_one_and_has_every_class(seen):
    rows = np.column_stack([np.arange(len(Y)), X])
    learning_curve([Recorder()], rows, Y, shares=(0.03, 0.2), repeats=2)
    small = [set(x[:, 0].tolist()) for x, _ in seen[:2]]
    large = [set(x[:, 0].tolist()) for x, _ in seen[2:]]
    assert all(a < b for a, b in zip(small, large))
    assert all(set(y) == {0, 1} for _, y in seen)


def test_by_time_the_latest_rows_train(seen):
    rows = np.column_stack([np.arange(len(Y)), X])
    learning_curve([Recorder()], rows, Y, shares=(0.1,), split="time", repeats=1, train_size=0.5)
    assert seen[0][0][:, 0].tolist() == list(range(108, 120))


def test_noise_is_in_the_training_labels_alone(seen):
    curve = noise_curve([Recorder()], X, Y, shares=(0.0, 0.25), repeats=2)
    truth, noisy = seen[0][1], seen[2][1]
    assert (seen[0][0] == seen[2][0]).all()
    assert (truth != noisy).sum() == round(0.25 * len(truth))
    # Recorder's scores don't depend on labels: against true test labels they stay as good
    clean, wrong = curve.mean("auc")[repr(Recorder())]
    assert clean == wrong > 0.8


def test_several_classes_get_another_label(seen):
    several = np.arange(240) % 3
    noise_curve([Recorder()], X, several, shares=(0.0, 0.5), repeats=1)
    assert (seen[0][1] != seen[1][1]).sum() == round(0.5 * len(seen[0][1]))


@pytest.mark.parametrize(
    ("curve", "shares"), [(learning_curve, (0.0,)), (learning_curve, ()), (noise_curve, (1.0,)), (noise_curve, (-0.1,))]
)
def test_shares_that_make_no_sense_are_refused(curve, shares):
    with pytest.raises(ValueError, match="shares must be"):
        curve([sb.MultinomialNB()], X, Y, shares=shares)


def test_progress_counts_all_points():
    steps = []
    noise_curve([sb.MultinomialNB()], X, Y, shares=(0, 0.1), repeats=3, progress=lambda *step: steps.append(step))
    assert [done for _, done, _ in steps] == [1, 2, 3, 4, 5, 6]
    assert {total for _, _, total in steps} == {6}


def test_tables_pictures_and_a_notebook(tmp_path):
    from surebayes.research.laboratory.report import write

    curve = noise_curve({"a_b & <c>": sb.MultinomialNB()}, X, Y, shares=(0, 0.2), repeats=2)
    write([curve.result()], tmp_path)
    latex = (tmp_path / "results.tex").read_text()
    assert r"a\_b \& <c>" in latex
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") == len(curve.measures)
    assert (tmp_path / "auc_0.1.svg").read_text().lstrip().startswith("<?xml")
    assert "a_b &amp; &lt;c&gt;" in curve._repr_html_()
