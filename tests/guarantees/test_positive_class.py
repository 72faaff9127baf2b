"""The positive class of two, read from the labels."""

import sys
import warnings
from itertools import permutations
from subprocess import run

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from surebayes.guarantees import positive_class
from surebayes.guarantees.budgeted_threshold import BudgetedThreshold
from surebayes.guarantees.guaranteed_threshold import GuaranteedThreshold
from surebayes.guarantees.positive_class import ambiguity_of, positive_of

PAIRS = [  # negative, positive
    ("ham", "spam"), ("Ham", "SPAM"), ("no", "yes"), ("neg", "pos"), ("negative", "positive"), ("ok", "bad"),
    ("good", "junk"), ("false", "true"), ("0", "1"), ("0.0", "1.0"), ("-1", "1"), (0, 1), (-1, 1), (0.0, 1.0),
    (False, True), (np.False_, np.True_), (np.int64(0), np.int64(1)), (np.str_("ham"), np.str_("spam")),
    ("newsletter", "phish"), ("request", "attack"), ("legitimate", "Injection"), ("benign", "jailbreak"),
    ("other", "toxic"),
]  # fmt: skip


@pytest.mark.parametrize("pair", PAIRS)
def test_telling_labels_name_the_positive_class_in_either_order(pair):
    negative, positive = pair
    for order in permutations(pair):
        assert positive_of(order) == positive
        assert ambiguity_of(order, positive) == ""
        assert "suggest the reverse" in ambiguity_of(order, negative)


@pytest.mark.parametrize("labels", [
    ("fraud", "legit"), ("a", "b"), (1, 2), ("1", "2"), (0, 2), ("1", "x"), ("spam", "junk"), ("ok", "risky"),
    (float("nan"), 1.0), (None, "x"), (b"a", b"b"),
])  # fmt: skip
def test_other_labels_give_no_hint_and_the_sentence_names_both(labels):
    for first, second in permutations(labels):
        assert positive_of([first, second, first]) is None
        sentence = ambiguity_of([first, second], second)
        assert "do not say which one is positive" in sentence
        assert str(first) in sentence
        assert str(second) in sentence


@pytest.mark.parametrize(
    ("labels", "positive"), [([], None), (["spam"], "spam"), (["ham"], None), (["ham", "spam", "news"], None)]
)
def test_there_is_doubt_about_two_labels_only(labels, positive):
    assert positive_of(labels) == positive
    assert ambiguity_of(labels, labels[-1] if labels else None) == ""


LABELS = [(["fraud", "legit"], "took 'legit', so that alarms on 'fraud' are limited"), (["junk", "ok"], "the reverse")]


@pytest.mark.parametrize(("labels", "said"), LABELS)
@pytest.mark.parametrize("dtype", [None, object])
@pytest.mark.parametrize("make", [
    lambda **given: GuaranteedThreshold(GaussianNB(), max_fpr=0.3, confidence=0.5, **given),
    lambda **given: BudgetedThreshold(GaussianNB(), rate=0.3, burst=5, **given),
])  # fmt: skip
def test_the_estimators_warn_once_where_labels_do_not_say(monkeypatch, labels, said, dtype, make):
    monkeypatch.setattr(positive_class, "_warned", set())
    y = np.array(labels * 30, dtype)
    X = np.random.default_rng(0).normal(size=(60, 2)) + (y == labels[1])[:, None]
    with pytest.warns(UserWarning, match=said) as caught:
        make().fit(X, y)
    assert caught[0].filename == __file__
    assert "To choose, give pos_label." in str(caught[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make().fit(X, y)  # once is enough
        positive_class._warned.clear()
        for label in labels:
            make(pos_label=label).fit(X, y)
        make().fit(X, np.where(y == labels[1], "spam", "ham"))
        make().fit(X, y == labels[1])


def test_it_imports_nothing_heavy():
    check = "import sys, surebayes.guarantees.positive_class; sys.exit('numpy' in sys.modules)"
    assert run([sys.executable, "-c", check], check=False).returncode == 0
