"""Near copies are one group, other texts are not; fingerprints agree as much as texts resemble each other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surebayes.guarantees.near_copies import fingerprint, near_equal


def texts_of(resemblance, n=200, seed=0):
    """Two texts whose runs resemble each other this much."""
    generator = np.random.default_rng(seed)
    shared = round(2 * n * resemblance / (1 + resemblance))
    runs = generator.choice(2**22, 2 * n, replace=False)
    return runs[:n], np.append(runs[:shared], runs[n : 2 * n - shared])


@pytest.mark.parametrize("resemblance", [0.0, 0.3, 0.7, 0.9, 1.0])
def test_fingerprints_agree_as_much_as_texts_resemble(resemblance):
    agreed = []
    for seed in range(100):
        one, other = texts_of(resemblance, seed=seed)
        agreed.append((fingerprint(one) == fingerprint(np.random.default_rng(seed).permutation(other))).mean())
    assert np.mean(agreed) == pytest.approx(resemblance, abs=0.02)


@pytest.mark.parametrize(("resemblance", "least", "most"), [(0.5, 0.0, 0.02), (0.9, 0.95, 1.0), (1.0, 1.0, 1.0)])
def test_near_copies_are_found(resemblance, least, most):
    found = [
        len(set(near_equal([fingerprint(runs) for runs in texts_of(resemblance, seed=seed)]).tolist())) == 1
        for seed in range(100)
    ]
    assert least <= np.mean(found) <= most


@given(
    of=st.lists(st.none() | st.integers(0, 5), max_size=30),
    seed=st.integers(0, 5),
)
def test_groups_are_those_of_the_campaigns(of, seed):
    generator = np.random.default_rng(seed)
    campaigns = [generator.choice(2**30, 300, replace=False) for _ in range(6)]
    prints = []
    for campaign in of:
        if campaign is None:
            prints.append(None)
        else:  # a name and a number differ
            prints.append(fingerprint(np.append(campaigns[campaign][:295], generator.integers(0, 2**30, 5))))
    groups = near_equal(prints).tolist()
    assert len(groups) == len(of)
    for i, one in enumerate(of):
        for j, other in enumerate(of):
            assert (groups[i] == groups[j]) == (i == j or (one is not None and one == other))


def test_columns_of_zero_are_runs_like_any_others():
    assert (fingerprint(np.arange(100)) == fingerprint(np.arange(1, 101))).mean() > 0.8
    assert (fingerprint([0]) == fingerprint([0, *range(500, 600)])).mean() < 0.2
