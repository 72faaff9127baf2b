"""Filters that the first release wrote: opened, judged with the same scores, taught on."""

import json
import pathlib
import tarfile

import pytest

import surebayes as sb
from surebayes.filter.model import Model
from surebayes.persist.manifest import read_manifest

TEXTS = [
    (f"{'cheap pills order' if i % 2 else 'lunch noon usual'} w{i % 5} number{i}", "spam" if i % 2 else "ham")
    for i in range(24)
]
MAILS = [(f"Subject: {text[:5]}\n\n{text}\n".encode(), label) for text, label in TEXTS]


@pytest.mark.parametrize("name", ["mail", "text", "words"])
def test_a_filter_of_version_1_is_used_on(tmp_path, name):
    with tarfile.open(pathlib.Path(__file__).parent / "filters_of_version_1.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    folder, documents = tmp_path / name, TEXTS if name == "text" else MAILS
    expected = json.loads((tmp_path / "scores.json").read_bytes())[name]
    assert read_manifest(str(folder))["version"] == 1
    lean = Model.open(str(folder))
    assert [lean.scores(document)[0] for document, _ in documents] == expected
    with sb.Filter.open(folder) as old:
        assert old.certificate is not None
        assert old.problems() == []
        assert [old.judge(document).score for document, _ in documents] == expected
        assert old.forget(documents[21][0]) == "forgotten"
        assert old.teach(*documents[22]) == "learnt"
        assert old.rollback(old.versions()[0]["version"]) == 2
        assert [old.judge(document).score for document, _ in documents] == expected
    assert read_manifest(str(folder))["version"] == 5
