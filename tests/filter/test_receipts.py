"""Receipts: confirmed by their journal, refused when anything in them is altered."""

import contextlib
import json
import os
import random
import shutil
import stat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("cryptography")

import surebayes as sb
from command_line import run_here
from strategies import json_values
from surebayes.errors import BadInput
from surebayes.filter import receipts

SMALL = {"width": 2**12, "model": "words", "reader": "text", "classes": ("ok", "bad")}


@pytest.fixture
def folder(tmp_path):
    with sb.Filter.create(tmp_path / "f", **SMALL) as opened:
        opened.teach("Cheap pills", "bad")
        opened.teach("Lunch at noon", "ok")
    return str(tmp_path / "f")


@pytest.fixture(scope="module")
def signed_receipt(tmp_path_factory):
    path = tmp_path_factory.mktemp("signed") / "f"
    with sb.Filter.create(path, **SMALL) as opened:
        opened.teach("Cheap pills", "bad")
        return opened.receipts(["Cheap pills"])[0]


def problem(receipt, **expected):
    return receipts.problem_of(receipts.parse_receipt(json.dumps(receipt)), **expected)


def test_receipts_state_what_is_learnt_set_aside_and_absent(folder):
    with sb.Filter.open(folder) as opened:
        opened.train([(f"good {i}", "ok") for i in range(4)] + [("another bad one", "bad")], reserve=0.5)
        aside = next(f"good {i}" for i in range(4) if opened.is_set_aside(f"good {i}"))
        found = opened.receipts(["Cheap pills", aside, "never seen"])
        opened.erase(documents=["Cheap pills"])
        found += opened.receipts(["Cheap pills"])
    states = [(one["statement"], one["label"], one["content"]) for one in found]
    assert states == [
        ("learnt", "bad", True), ("set aside", "ok", True), ("absent", None, False), ("absent", None, False)
    ]  # fmt: skip
    assert [problem(one) for one in found] == [None] * 4
    assert [receipts.contradiction(one, folder) for one in found] == [None] * 4
    assert len({one["key"] for one in found}) == 1


def test_a_message_learnt_again_contradicts_no_earlier_receipt(folder):
    with sb.Filter.open(folder) as opened:
        opened.erase(documents=["Cheap pills"])
        (gone,) = opened.receipts(["Cheap pills"])
        opened.teach("Cheap pills", "bad")
        (back,) = opened.receipts(["Cheap pills"])
    assert receipts.contradiction(gone, folder) is None
    assert receipts.contradiction(back, folder) is None


def test_a_forgotten_message_still_has_content(folder):
    with sb.Filter.open(folder) as opened:
        opened.forget("Cheap pills")
        (receipt,) = opened.receipts(["Cheap pills"])
    assert (receipt["statement"], receipt["content"]) == ("absent", True)
    assert (
        receipts.contradiction({**receipt, "content": False}, folder)
        == "the journal still has the content of the message"
    )


@pytest.mark.parametrize("name", sorted(receipts._FIELDS))
def test_an_altered_field_is_refused(signed_receipt, name):
    value = signed_receipt[name]
    altered = {
        bool: lambda: not value, int: lambda: value + 1, type(None): lambda: "0" * 64, list: lambda: value[::-1],
        str: lambda: ("0" if value[0] != "0" else "1") + value[1:],
    }[type(value)]()  # fmt: skip
    with contextlib.suppress(BadInput):
        assert problem({**signed_receipt, name: altered}) is not None


@given(st.data())
@settings(max_examples=200)
def test_no_altered_byte_passes(signed_receipt, data):
    line = bytearray(json.dumps(signed_receipt).encode())
    place = data.draw(st.integers(0, len(line) - 1))
    line[place] = data.draw(st.integers(32, 126).filter(lambda byte: byte != line[place]))
    try:
        receipt = receipts.parse_receipt(bytes(line))
    except BadInput:
        return
    if receipt != signed_receipt:  # white space may differ
        assert receipts.problem_of(receipt) is not None


@given(json_values(receipts._FIELDS))
def test_other_json_is_refused_in_words(value):
    with pytest.raises(BadInput, match="Not a receipt"):
        receipts.parse_receipt(json.dumps(value))


@pytest.mark.parametrize("line", [
    '{"receipt": 1, "receipt": 1}', "[" * 100_000, "", "NaN", '{"receipt": true}', '{"receipt": 1.0}', "\ud800",
])  # fmt: skip
def test_hostile_lines_are_refused_in_words(line):
    with pytest.raises(BadInput, match="Not a receipt"):
        receipts.parse_receipt(line)


def test_another_key_another_message_another_journal(signed_receipt, folder):
    assert "another key" in problem(signed_receipt, key="0" * 64)
    assert problem(signed_receipt, key=signed_receipt["key"].upper()) is None
    assert "for the message" in problem(signed_receipt, fingerprint="0" * 32)
    assert "for the journal" in receipts.contradiction(signed_receipt, folder)


def test_a_journal_that_lost_or_gained_lessons_contradicts(folder):
    with sb.Filter.open(folder) as opened:
        (receipt,) = opened.receipts(["Lunch at noon"])
    for altered, expected in (
        ({"row": 1}, "is absent"), ({"row": 99}, "ends at row"), ({"lessons": 1}, "another digest"),
        ({"digest": "0" * 64}, "another digest"), ({"views": "0" * 64}, "another digest"),
        ({"classes": ["bad", "ok"]}, "another digest"), ({"label": "bad"}, "is learnt"),
        ({"statement": "absent"}, "is learnt"),
    ):  # fmt: skip
        assert expected in receipts.contradiction({**receipt, **altered}, folder)


def test_the_key_is_private_and_stays_in_the_folder(folder, tmp_path):
    umask = os.umask(0)
    try:
        with sb.Filter.open(folder) as opened:
            assert opened.lesson_digest()["key"] is None
            (receipt,) = opened.receipts(["Cheap pills"])
            assert opened.lesson_digest()["key"] == receipt["key"]
            opened.export(tmp_path / "archive")
    finally:
        os.umask(umask)
    key = os.path.join(folder, receipts.KEY_NAME)
    assert stat.S_IMODE(os.stat(key).st_mode) == 0o600
    with open(key, "rb") as file:
        seed = file.read()
    assert seed not in (tmp_path / "archive").read_bytes()
    with sb.Filter.import_(tmp_path / "archive", tmp_path / "copy") as copy:
        assert copy.receipts(["Cheap pills"])[0]["key"] != receipt["key"]


def test_a_damaged_key_is_named(folder):
    with open(os.path.join(folder, receipts.KEY_NAME), "wb") as file:
        file.write(b"short")
    with sb.Filter.open(folder) as opened, pytest.raises(BadInput, match=r"receipts\.key is not a key of 32 bytes"):
        opened.receipts(["Cheap pills"])


def test_messages_learnt_without_a_journal_get_no_receipt(tmp_path):
    with sb.Filter.create(tmp_path / "f", **SMALL) as opened:
        opened.train([("one", "ok"), ("two", "bad")], reserve=0, journal=False)
        assert opened.receipts(["three"])[0]["statement"] == "absent"
        with pytest.raises(ValueError, match="learnt without a journal"):
            opened.receipts(["one"])


# ---------------------------------------------------------------------- by command


@pytest.fixture
def run(capsys, monkeypatch):
    return lambda *words, stdin=b"": run_here(capsys, monkeypatch, *words, stdin=stdin)


def test_learn_erase_and_verify_by_command(folder, tmp_path, run):
    document, receipt = tmp_path / "spam.txt", tmp_path / "receipt.json"
    document.write_text("Buy this now")
    words = ["-m", folder, "--receipt", receipt, document]
    assert run("learn", "--as", "bad", *words).code == 0
    done = run("verify", receipt, "--document", document, "--journal", folder)
    assert done.code == 0
    assert done.records()[0]["statement"] == "learnt"
    learnt = receipt.read_text()
    assert run("erase", *words).code == 0
    done = run("verify", receipt, "--no-json")
    assert done.code == 0
    assert "is not among the lessons, and the journal has no content of it" in " ".join(done.out.split())
    assert "compare it with the key" in " ".join(done.err.split())
    receipt.write_text(learnt.replace('"learnt"', '"set aside"'))
    done = run("verify", receipt)
    assert done.code == 1
    assert done.records()[0]["valid"] is False


def test_a_receipt_that_cannot_be_written_stops_the_lesson(folder, tmp_path, run):
    document = tmp_path / "spam.txt"
    document.write_text("Buy this now")
    assert run("learn", "-m", folder, "--as", "bad", "--receipt", tmp_path / "no" / "r", document).code != 0
    with sb.Filter.open(folder) as opened:
        assert opened.forget("Buy this now") == "unknown"


def test_status_prints_the_digest(folder, run):
    done = run("status", "-m", folder, "--digest")
    with sb.Filter.open(folder) as opened:
        assert done.records()[0]["lessons"] == opened.lesson_digest()
    assert opened_digest(run, folder) in run("status", "-m", folder, "--digest", "--no-json").out


def opened_digest(run, folder):
    return run("status", "-m", folder, "--digest").records()[0]["lessons"]["digest"]


@pytest.mark.parametrize("content", ["", "\n", "{}", "not json", '{"receipt": 2}'])
def test_verify_explains_what_is_no_receipt(tmp_path, content, run):
    path = tmp_path / "r"
    path.write_text(content)
    done = run("verify", path)
    assert done.code != 0
    assert "Not a receipt" in done.err or "No receipt" in done.err


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(int(os.environ.get("SUREBAYES_HISTORIES", "20"))))
def test_an_auditor_with_the_journal_alone_rebuilds_every_digest(tmp_path, seed):
    """Receipts at random moments of a random history hold; altered ones don't, and another history contradicts them."""
    dice, texts, given_out = random.Random(seed), [f"text {i} of words w{i} w{i % 3}" for i in range(8)], []
    with sb.Filter.create(tmp_path / "f", **SMALL) as opened:
        for _ in range(dice.randint(5, 30)):
            text, what = dice.choice(texts), dice.random()
            if what < 0.55:
                opened.teach(text, dice.choice(["ok", "bad"]))
            elif what < 0.7:
                opened.forget(text)
            elif what < 0.75:
                opened.erase(documents=[text])
            elif what < 0.8:
                opened.train([(text, "ok"), (dice.choice(texts) + " more", "bad")], reserve=dice.choice([0.0, 0.5]))
            elif what < 0.85:
                opened.absorb("a mark")
            else:
                given_out += opened.receipts(dice.sample(texts, 2))
        given_out += opened.receipts(texts[:2])
        whole = opened.lesson_digest()
    (tmp_path / "auditor").mkdir()
    shutil.copy(tmp_path / "f" / "journal.sqlite", tmp_path / "auditor")
    auditor = str(tmp_path / "auditor")
    assert [receipts.contradiction(one, auditor) for one in given_out] == [None] * len(given_out)
    assert (given_out[-1]["digest"], given_out[-1]["lessons"]) == (whole["digest"], whole["lessons"])
    for one in given_out:
        for name, value in {"label": "other", "digest": "0" * 64, "lessons": one["lessons"] + 1, "row": one["row"] + 1,
                            "statement": "learnt" if one["statement"] != "learnt" else "absent"}.items():  # fmt: skip
            altered = {**one, name: value}
            assert problem(altered) is not None
            assert receipts.contradiction(altered, auditor) is not None or name == "row"
