"""Manifests with the right checksum that say impossible things: refused when loaded, or as good as any."""

import json
import random
import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.exceptions import NotFittedError

import surebayes as sb
from hostile_json import mutated, write_sealed
from surebayes.errors import BadModel, StoreError
from surebayes.persist.manifest import NAME

random_state = np.random.default_rng(7)
X = csr_array(random_state.poisson(0.4, size=(60, 30)))
Y = np.array(["ham", "spam"])[random_state.integers(0, 2, 60)]
TEXTS = [" ".join(random_state.choice(["gold", "lunch", "Größe", "mine", "now", "you"], 6)) for _ in range(60)]
MAILS = [f"Subject: {text}\n\n{text}\n" for text in TEXTS]

MODELS = {
    "multinomial": (sb.MultinomialNB(), X),
    "opinion pool": (sb.OpinionPoolNB(top=7), X),
    "poisson": (sb.PoissonNB(), X),
    "class normalized": (sb.ClassNormalizedNB(), X),
    "centroid": (sb.CentroidClassifier(), X),
    "discriminant": (sb.TermDiscriminant(), X),
    "reversal": (sb.DecisionReversalNB(), X),
    "weighting": (sb.TermWeighting(), X),
    "threshold": (sb.GuaranteedThreshold(sb.MultinomialNB(), max_fpr=0.3, cv=0.5), X),
    "tuned": (sb.TunedNB(budget=2), X),
    "words": (sb.CountVectorizer(), TEXTS),
    "hashed": (sb.HashingVectorizer(n_features=64, norm=None), TEXTS),
    "mail pool": (sb.ViewPool("mail", n_features=2**12), MAILS),
    "text pool": (sb.ViewPool("text", n_features=2**12, weights="stack"), TEXTS),
}


def use(estimator, documents):
    for name in ("decision_function", "predict", "predict_proba", "transform"):
        if hasattr(estimator, name):
            getattr(estimator, name)(documents)
    repr(estimator)


def refused_or_usable(name, folder, times, seed):
    estimator, documents = MODELS[name]
    sb.save(estimator.fit(documents, Y), folder)
    body = json.loads((folder / NAME).read_bytes())
    body.pop("crc32")
    dice, refused = random.Random(seed), 0
    for _ in range(times):
        described, what = mutated(body["estimator"], dice)
        write_sealed(folder, {**body, "estimator": described})
        try:
            loaded = sb.load(folder)
        except StoreError:
            refused += 1
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                use(loaded, documents)
        except NotFittedError:
            continue
        except Exception as error:
            raise AssertionError(f"{what} was loaded and failed when used") from error
    return refused


@pytest.mark.parametrize("name", MODELS)
def test_a_hostile_manifest_is_refused_or_usable(name, tmp_path):
    assert refused_or_usable(name, tmp_path / "m", 30, 1) > 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", MODELS)
def test_many_hostile_manifests(name, seed, tmp_path):
    refused_or_usable(name, tmp_path / "m", 200, 100 + seed)


@pytest.mark.parametrize(
    ("place", "value"),
    [(("files",), None), (("files",), []), (("files", "arrays"), 3), (("files", "arrays", "size"), -1),
     (("files", "arrays", "size"), "1"), (("estimator",), None), (("version",), "1"), (("version",), 0),
     (("version",), True), (("kind",), None), (("format",), 3)],
)  # fmt: skip
def test_the_frame_of_a_manifest(place, value, tmp_path):
    sb.save(sb.MultinomialNB().fit(X, Y), tmp_path / "m")
    body = json.loads((tmp_path / "m" / NAME).read_bytes())
    body.pop("crc32")
    parent = body
    for key in place[:-1]:
        parent = parent[key]
    parent[place[-1]] = value
    write_sealed(tmp_path / "m", body)
    with pytest.raises(BadModel):
        sb.load(tmp_path / "m")


def test_a_pool_of_the_first_form_is_named(tmp_path):
    sb.save(sb.ViewPool("text", n_features=2**12).fit(TEXTS, Y), tmp_path / "m")
    body = json.loads((tmp_path / "m" / NAME).read_bytes())
    body.pop("crc32")
    body["version"] = 1
    body["estimator"]["state"]["views"] = {"$record": "HashedView", "fields": []}
    write_sealed(tmp_path / "m", body)
    with pytest.raises(BadModel, match="was saved by an early release whose format is no longer read: fit it again"):
        sb.load(tmp_path / "m")
