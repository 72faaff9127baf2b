"""ViewPool on documents in parts: what one machine makes, to the last byte."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from alike import cut, same_pool

import surebayes as sb
from surebayes import cluster
from surebayes.cluster.pool_fits import Counts
from surebayes.errors import BadInput, PartFailed
from surebayes.pool import choosing
from surebayes.synthetic import mail_stream

RAW = [mail.raw for mail in mail_stream(90, seed=3)]
LABELS = np.array([mail.label for mail in mail_stream(90, seed=3)])
RAW[3], LABELS[3] = RAW[10], LABELS[10]
THREE = np.where(np.arange(90) % 5 == 0, "list", LABELS)


def pool(views="mail", weights="stack"):
    return sb.ViewPool(views, weights, n_features=2**14)


@pytest.mark.parametrize("views", ["mail", "text"])
@pytest.mark.parametrize("labels", [LABELS, THREE], ids=["two", "three"])
@pytest.mark.parametrize("largest", [20_000, 9])
def test_any_parts(views, labels, largest, monkeypatch):
    monkeypatch.setattr(choosing, "SAMPLE", largest)
    monkeypatch.setattr(choosing, "MAX_HELD_OUT", largest)
    monkeypatch.setattr(choosing, "FEW", 4)
    whole = pool(views).fit(RAW, labels)
    with ThreadPoolExecutor(2) as executor:
        for n_parts, given in ((1, None), (7, executor)):
            same_pool(cluster.fit(pool(views), cut(RAW, labels, n_parts, seed=n_parts), given), whole, RAW)


@pytest.mark.parametrize("weights", ["reliability", "equal"])
def test_any_weights_and_labels(weights):
    y = (LABELS == "spam").astype(int)
    same_pool(cluster.fit(pool("mail", weights), cut(RAW, y, 4)), pool("mail", weights).fit(RAW, y), RAW)


def test_copies_in_several_parts_are_copies():
    X, y = RAW * 2 + RAW[:20], np.concatenate([LABELS, LABELS, LABELS[:20]])
    same_pool(cluster.fit(pool("text"), cut(X, y, 5)), pool("text").fit(X, y), RAW)


def test_a_class_in_one_part_only_and_classes_too_small_to_hold_out():
    X, y = [*RAW, b"Subject: odd\n\none of its kind"], np.append(LABELS, "odd")
    whole = pool("text").fit(X, y)
    parts = [(RAW[:40], LABELS[:40]), ([], []), (RAW[40:], LABELS[40:]), (X[90:], y[90:])]
    same_pool(cluster.fit(pool("text"), parts), whole, X)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ((["a"], ["ham", "spam"]), r"part 1: it has 1 documents but 2 labels"),
        (([1], ["ham"]), r"part 1: documents must be str or bytes. Got int at index 0"),
        (("text", ["ham"] * 4), r"part 1: its documents are a single str"),
        ((["a", "b"], [0, 1]), r"part 1 has labels that are numbers \(0\), part 0 labels that are text"),
        ((["a"], [[0, 1]]), r"part 1: "),
        ("ab", r"part 1: a part must be a pair"),
    ],
)
def test_bad_parts_are_named(part, message):
    with pytest.raises(BadInput, match=message):
        cluster.fit(pool(), [(RAW, LABELS), part])


def test_what_can_not_be_fitted():
    with pytest.raises(BadInput, match="the parts have no documents"):
        cluster.fit(pool(), [([], [])])
    with pytest.raises(BadInput, match=r"at least two classes. Got \['ham'\]"):
        cluster.fit(pool(), [(RAW[:3], ["ham"] * 3)])
    given = sb.ViewPool([("words", sb.CountVectorizer(), sb.OpinionPoolNB())])
    with pytest.raises(TypeError, match="on one machine, or fit each view's pipeline"):
        cluster.fit(given, [(RAW, LABELS)])
    with pytest.raises(ValueError, match="'weights' parameter"):
        cluster.fit(sb.ViewPool(weights="heavy"), [(RAW, LABELS)])
    fitted = pool().fit(RAW, LABELS)
    with pytest.raises(BadInput):
        cluster.fit(fitted, [([], [])])
    same_pool(fitted, pool().fit(RAW, LABELS), RAW)  # as it was


class Changing:
    """A part that is another one each time."""

    def __init__(self, *parts):
        self.parts = list(parts)

    def __call__(self):
        return self.parts.pop(0)


@pytest.mark.parametrize(
    ("later", "message"),
    [
        ((RAW[:-1], LABELS[:-1]), "had 90 documents at first and 89 later"),
        (([b"other"] * 90, LABELS), "parts must not change"),
        ((RAW, ["list"] * 90), "part 0: it has labels that are new since the first pass"),
    ],
)
def test_parts_that_change_are_noticed(later, message):
    with pytest.raises(BadInput, match=message):
        cluster.fit(pool(), [Changing((RAW, LABELS), later)])


def test_a_part_that_always_fails_is_named():
    def fails():
        raise OSError("the share was away")

    with pytest.raises(PartFailed, match="part 1 could not be read: OSError: the share was away"):
        cluster.fit(pool(), [(RAW, LABELS), fails])


def test_counts_that_no_pool_has_are_refused():
    many = Counts(np.array([3], np.uint32), np.array([2**31 - 1], np.uint32))
    with pytest.raises(OverflowError, match=r"2\*\*31"):
        many.plus(many)
    both = many.plus(Counts(np.array([1, 4], np.uint32), np.array([1, 2], np.uint32)))
    assert (both.columns.tolist(), both.documents.tolist()) == ([1, 3, 4], [1, 2**31 - 1, 2])
