"""One mail, one verdict: whichever way it comes in."""

import pytest

import surebayes as sb
from surebayes.corpora.sources import Source
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
        for path in (mbox, single):  # a mailbox has a blank line after each mail
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
