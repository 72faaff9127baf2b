"""Scores that other filters left: every form of their headers, and whatever else stands there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surebayes.mail.headers import Headers
from surebayes.mail.score_headers import HeaderScore, arrival, header_block, header_score


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("X-Spam-Status", "No, score=-2.6 required=5.0 tests=BAYES_00 autolearn=ham version=3.4.2", (-2.6, 5.0, False)),
        ("X-Spam-Status", "Yes, hits=17.2 required=7.0\n\ttests=A,B", (17.2, 7.0, True)),
        ("X-Spam-Status", "No, score=4.9 tagged_above=-999 required=6.2 tests=[X=4.9]", (4.9, 6.2, False)),
        ("X-Spam-Status", "score=6 required=5", (6.0, 5.0, True)),
        ("X-Spam-Status", "Yes", None),
        ("X-Spamd-Result", "default: False [-1.61 / 15.00];\n\tARC_NA(0.00)[]", (-1.61, 15.0, False)),
        ("X-Spamd-Result", "default: True [19.30 / 15.00]", (19.3, 15.0, True)),
        ("X-Spamd-Result", "default: False (skip) [0.00 / nan]", (0.0, None, False)),
        ("X-Spamd-Result", "garbage", None),
        ("X-Bogosity", "Spam, tests=bogofilter, spamicity=1.000000, version=1.2.5", (1.0, None, True)),
        ("X-Bogosity", "Unsure, tests=bogofilter, spamicity=0.520000", (0.52, None, False)),
        ("X-Bogosity", "No, tests=bogofilter, spamicity=1e-07", (1e-7, None, False)),
        ("X-Spam-Score", "5.31 (+++++)", (5.31, None, None)),
        ("X-Spam-Score", "-.5", (-0.5, None, None)),
        ("X-Mine", "ham, p=0.25", (0.25, None, False)),
        ("X-Mine", "nothing here", None),
        ("X-Mine", "1e999", None),
    ],
)
def test_forms(name, value, expected):
    head = header_block(f"Subject: x\n{name}: {value}\n\nbody".encode())
    score = header_score(head, name.lower())
    assert score == (None if expected is None else HeaderScore(*expected))


def test_the_nearest_server_speaks_first_and_a_flag_completes_a_score():
    head = Headers.read(b"X-Spam-Score: 2\nX-Spam-Flag: YES\nX-Spam-Score: 99")
    assert header_score(head, "X-Spam-Score") == HeaderScore(2.0, None, True)
    assert header_score(head, "X-Bogosity") is None


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_left(raw):
    head = header_block(b"X-Spam-Status: " + raw)
    for name in ("X-Spam-Status", "X-Spamd-Result", "X-Bogosity", "X-Spam-Score", "X-Other"):
        header_score(head, name)
    arrival(head)


def test_when_a_mail_came():
    both = b"Received: by b; Tue, 02 Jan 2024 00:00:00 +0100\nDate: Mon, 01 Jan 2024 00:00:00 +0000\n\n"
    assert arrival(header_block(both)) == 1704150000.0
    assert arrival(header_block(b"Received: nonsense\nDate: Mon, 01 Jan 2024 00:00:00 +0000\n\n")) == 1704067200.0
    assert arrival(header_block(b"Date: 99 Foo 20240101\n\n")) is None
