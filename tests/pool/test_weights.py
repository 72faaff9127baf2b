"""Weights of a pool: the functions on plain numbers equal their references, which the kernel equals."""

from hypothesis import given

from strategies import influenced_experts
from surebayes.kernels.reference import pool as reference
from surebayes.pool import weights


@given(influenced_experts)
def test_influences_are_those_of_the_reference(experts):
    """Usual share, portion and share of each expert; a usual share of 0 is that of an expert outside the pool."""
    limits = [(0.0, 1.0, usual, portion) for usual, portion, _ in experts]
    known = [share for *_, share in experts]
    expected = reference.influences([(usual, portion) for usual, portion, _ in experts], known)
    assert weights.influences_of(limits, known) == expected


def test_influences_of_half_a_pool():
    """Two experts of the pool, one of them without a known term, and one expert outside."""
    limits = [(0.0, 1.0, 0.5, 0.25), (0.0, 1.0, 0.5, 0.25), (0.0, 1.0, 0.0, 0.5)]
    total = 0.5 * 0.5 / 0.8 + 0.5
    assert weights.influences_of(limits, [0.5, 0.0, 0.0]) == [1 / total / 0.8, 0.0, 1 / total]
