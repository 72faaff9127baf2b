"""One mail, one verdict: whichever way it comes in."""

import shutil

import pytest
from hypothesis import HealthCheck, given, settings

import surebayes as sb
from strategies import words_known_or_not
from surebayes.datasets.sources import Source
from surebayes.filter.model import NO_TERMS, UNSURE, Model, WithoutTerms
from surebayes.filter.quick.filter_mail import verdict_fields
from surebayes.synthetic import mail_stream

MAILS = [(mail.raw, mail.label) for mail in mail_stream(60, seed=5)]
LINE = b"From sender@example.org Mon Jan  1 10:00:00 2024\n"


@pytest.fixture(scope="module")
def mine(tmp_path_factory):
    with sb.Filter.create(tmp_path_factory.mktemp("filters") / "f") as made:
        made.train(MAILS[:50])
        yield made


def test_the_line_before_a_mail_changes_nothing(mine, tmp_path):
    for number, (raw, _) in enumerate(MAILS[50:]):
        expected = mine.judge(raw)
        mbox, single = tmp_path / f"{number}.mbox", tmp_path / f"{number}.eml"
        for path in (mbox, single):  # a mailbox has a blank line after each message
            path.write_bytes(LINE + raw + b"\n")
        (cut,) = Source(mbox, "x", "mbox")
        (whole,) = Source(single, "x", "file")
        for copy in (LINE + raw, cut.content, whole.content, (LINE + raw).replace(b"\n", b"\r\n")):
            verdict = mine.judge(copy)
            assert (verdict.score, verdict.fingerprint) == (expected.score, expected.fingerprint)


def test_fields_of_filters_change_nothing(mine):
    fields = b"X-Surebayes-Label: ham\nX-Spam-Flag: NO\nX-Bogosity: Ham, tests=bogofilter\nX-Spamd-Bar: ----\n"
    for raw, _ in MAILS[50:]:
        assert mine.judge(fields + raw).score == mine.judge(raw).score


# ---------------------------------------------------------------------- documents without known terms

KNOWN = ["cheap", "pills", "lunch", "noon"]


@pytest.fixture(scope="module", params=["two", "several", "thresholds"])
def leaning(request, tmp_path_factory):
    """A filter of words whose many spams lean what nothing is known of to be spam, unless it is kept from that."""
    folder, classes = tmp_path_factory.mktemp("leaning") / "f", ["ham", "spam"]
    if request.param != "two":
        classes = ["aaa", "ham", "spam"]
    with sb.Filter.create(folder, classes, reader="text", model="words") as made:
        texts = [(f"cheap pills {'pills ' * i}", "spam") for i in range(30)] + [("lunch noon", "ham")] * 2
        texts += [("lunch", "aaa")] if len(classes) == 3 else []
        made.train(texts, reserve=0.0)
        for text, label in texts[-3:]:
            made.teach(text, label)
        if request.param == "thresholds":
            with made._session.transaction() as txn:
                txn.settings({"thresholds": {"spam": 0.1, "ham": 0.1}})
            made.absorb()
    return folder


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words_known_or_not)
def test_what_has_no_known_terms_is_no_alarm_whichever_way_it_comes(leaning, words):
    text, is_known = " ".join(words), any(word in KNOWN for word in words)
    mapped, state = sb.Filter.open(leaning), sb.Filter.open(leaning)
    state._session.loaded_state()
    verdicts = [opened.judge(text) for opened in (mapped, state)]
    bulk = Model.open(str(leaning), hold=True)
    (decision,) = bulk.judge([text])
    fields = dict(verdict_fields(str(leaning), text.encode(), True)[0])
    assert {(each.label, each.score, each.basis) for each in verdicts} == {(*decision[:2], verdicts[0].basis)}
    assert fields[b"X-Surebayes-Label"].decode() == decision[0]
    assert fields[b"X-Surebayes-Score"] == repr(decision[1]).encode()
    assert fields.get(b"X-Surebayes-Basis", b"").decode() == verdicts[0].basis == ("" if is_known else NO_TERMS)
    assert isinstance(decision, WithoutTerms) == (not is_known)
    if not is_known:
        several = len(mapped.classes) > 2
        thresholds = bulk.thresholds
        assert decision[0] == (UNSURE if several and thresholds else mapped.classes[0])
        assert fields[b"X-Spam-Flag"] == b"NO"
        assert several or decision[3] <= 0.5
    mapped.close()
    state.close()


def test_what_has_no_known_terms_would_have_been_an_alarm(tmp_path):
    """The scores stay: what is left of them are the shares of the classes."""
    with sb.Filter.create(tmp_path / "f", reader="text") as made:
        made.train([(f"cheap pills {i}", "spam") for i in range(30)] + [(f"lunch {i}", "ham") for i in range(3)])
        for text in ("", "zzz"):
            verdict = made.judge(text)
            assert verdict.score > verdict.threshold
            assert (verdict.label, verdict.basis) == ("ham", NO_TERMS)
            assert verdict.to_dict()["basis"] == NO_TERMS
        assert made.judge("pills").basis == ""
    shutil.copytree(tmp_path / "f", tmp_path / "copy")
    with sb.Filter.create(tmp_path / "mine", base=tmp_path / "copy") as layer:
        assert layer.judge("zzz").basis == NO_TERMS
        layer.teach("zzz", "spam")
        assert layer.judge("zzz").basis == "base"
