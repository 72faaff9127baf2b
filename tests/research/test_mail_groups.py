"""Messages that belong together: copies, campaigns, threads, senders."""

import pytest

from surebayes.research.mail_groups import BY, MailGroups, connected

BODY = b"The hall of the club is closed on Monday, so we meet at the lake at nine in the morning and walk to the mill."


def mail(name, body=BODY, sender="anna@example.org", answers=""):
    head = f"From: {sender}\nMessage-ID: <{name}@x>\n" + (f"In-Reply-To: <{answers}@x>\n" if answers else "")
    return head.encode() + b"Subject: news\n\n" + body + b"\n"


MAILS = [
    mail("a"),
    mail("b"),  # a copy
    mail("c", BODY + b" Dear Ben, bring a hat."),  # nearly one
    mail(
        "d", b"Something else altogether, about invoices that nobody has paid since the end of last year.", "ben@x.org"
    ),
    mail("e", b"yes", "carl@x.org", "d"),
    mail("f", b"no", "dora@x.org", "e"),
    mail("g", b"no", "BEN@x.org"),
    b"no header at all",
]


@pytest.mark.parametrize(
    ("by", "groups"),
    [
        ("mail", [0, 1, 2, 3, 4, 5, 6, 7]),
        ("copies", [0, 0, 1, 2, 3, 4, 5, 6]),
        ("near", [0, 0, 0, 1, 2, 3, 4, 5]),
        ("thread", [0, 0, 0, 1, 1, 1, 2, 3]),
        ("sender", [0, 0, 0, 1, 2, 3, 1, 4]),
    ],
)
def test_mails_that_belong_together(by, groups):
    assert MailGroups(by).add_all(MAILS).groups().tolist() == groups
    assert by in BY


def test_bad_ways_and_no_mails():
    with pytest.raises(ValueError, match=r"Messages can be grouped by mail, copies, near, thread, sender\. Got 'day'"):
        MailGroups("day")
    assert MailGroups("near").groups().tolist() == connected([]).tolist() == []
