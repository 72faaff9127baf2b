"""Hypothesis strategies of the tests."""

import ipaddress

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from surebayes.mail import message
from surebayes.mail.message import Limits

SPECIAL = "ΣσςİıßẞKÅȺ_\u0301\u200d😀𐐀𝐀ǅ \t\n\x1c\x85\xa0\u3000aBzZ09-'.\0é한國"
texts = st.text(st.one_of(st.sampled_from(SPECIAL), st.characters(exclude_categories=())), max_size=60)
text_corpora = st.lists(texts, min_size=1, max_size=8)
arrays = npst.arrays(
    st.sampled_from([np.float64, np.int32, np.bool_, "U3", "M8[s]", [("a", "i1"), ("b", "f8")]]),
    npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
)
int64s = st.integers(-(2**63), 2**63 - 1)
some_text = st.text(st.characters(exclude_categories=()), max_size=8)  # lone surrogates, too
journal_rows = st.lists(
    st.tuples(
        int64s, some_text, st.none() | some_text, st.none() | some_text, st.none() | int64s,
        st.floats(allow_nan=False), st.none() | some_text, int64s, int64s, st.none() | int64s,
        st.none() | st.binary(max_size=8), st.none() | int64s, st.binary(max_size=20),
    ),
    min_size=1, max_size=5,
)  # fmt: skip


@st.composite
def corpora(draw, kinds=("binary", "classes", "labels"), min_rows=3, whole=True):
    """Draw counts and labels, every class with at least a document."""
    n = draw(st.integers(min_rows, 12))
    v = draw(st.integers(1, 7))
    seed = draw(st.integers(0, 2**32 - 1))
    generator = np.random.default_rng(seed)
    X = generator.poisson(draw(st.sampled_from([0.3, 0.8, 2.0])), (n, v)).astype(float)
    if not whole:
        X *= generator.random((n, v))
    kind = draw(st.sampled_from(kinds))
    if kind == "labels":
        y = (generator.random((n, 3)) < 0.4).astype(int)
        y[:3] |= np.eye(3, dtype=int)
    else:
        k = 2 if kind == "binary" else 3
        y = np.concatenate([np.arange(k), generator.integers(0, k, n - k)])
    return X, y


@st.composite
def rankings(draw, most=14, distinct=5):
    """Labels of both classes and few distinct scores, so that ties are the rule."""
    n = draw(st.integers(2, most))
    y = draw(st.lists(st.booleans(), min_size=n, max_size=n).filter(lambda labels: 0 < sum(labels) < len(labels)))
    s = draw(st.lists(st.integers(-distinct, distinct), min_size=n, max_size=n))
    return np.array(y), np.array(s, dtype=float)


@st.composite
def lines(draw):
    """Draw two scores, a label and a whole weight for each of a few documents, as four lists."""
    rows = draw(
        st.lists(
            st.tuples(st.integers(0, 6), st.integers(0, 6), st.booleans(), st.integers(0, 3)), min_size=0, max_size=12
        )
    )
    return [list(column) for column in zip(*rows)] if rows else [[], [], [], []]


@st.composite
def score_streams(draw, most=400):
    """Draw scores with ties, and the places where the stream is cut into batches."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(0, most))
    scores = np.round(generator.normal(size=n), draw(st.integers(0, 2)))
    return scores, sorted(draw(st.lists(st.integers(0, n), max_size=6)))


# ---------------------------------------------------------------------- text

vectorizer_options = st.fixed_dictionaries(
    {
        "analyzer": st.sampled_from(["word", "char", "char_wb"]),
        "ngram_range": st.sampled_from([(1, 1), (1, 2), (2, 3), (1, 6)]),
        "lowercase": st.booleans(),
        "binary": st.booleans(),
        "strip_accents": st.sampled_from([None, "unicode", "ascii"]),
        "token_pattern": st.sampled_from([r"(?u)\b\w\w+\b", r"\w+"]),
        "min_df": st.sampled_from([1, 2, 0.4]),
        "max_df": st.sampled_from([1.0, 0.6, 3]),
        "max_features": st.sampled_from([None, 1, 4]),
    }
)
representations = st.fixed_dictionaries(
    {
        "tf": st.sampled_from(["count", "binary", "log"]),
        "weighted": st.sampled_from(["no", "shared", "by class"]),
        "top": st.sampled_from([None, 1, 3, 100]),
        "steepness": st.sampled_from([None, 0.5, 1.5]),
        "norm": st.sampled_from([None, "l1", "l2"]),
        "pad": st.sampled_from([0.0, 0.5]),
        "length": st.sampled_from([1.0, 2.0]),
        "kept": st.booleans(),
    }
)


# ---------------------------------------------------------------------- kernels

# letters whose lower case depends on the context or changes length, marks, spaces, surrogates, astral planes
AWKWARD = "ΣσςİıßẞKÅȺⱥⱢꞍ_\u0301\u0345\u200d\ud800\udfff😀𐐀𝐀ᾈǅ \t\n\x1c\x1f\x85\xa0\u2028\u3000aBzZ09-'.\0é한國"
kernel_texts = st.text(st.one_of(st.sampled_from(AWKWARD), st.characters(exclude_categories=())), max_size=80)
kernel_documents = st.lists(kernel_texts, max_size=6)
analyzers = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["word", "char", "char_wb", "bytes"]),
        "lowercase": st.booleans(),
        "shortest": st.sampled_from([1, 2]),
        "max_bytes": st.integers(0, 100),
        "stop_words": st.lists(kernel_texts.filter(bool), max_size=3),
    }
)
ngram_sizes = st.tuples(st.integers(1, 4), st.integers(0, 3)).map(lambda pair: (pair[0], sum(pair)))
term_lists = st.lists(st.binary(max_size=20), unique=True, max_size=40)
scorers = st.fixed_dictionaries(
    {
        "tf": st.sampled_from(["count", "binary", "log"]),
        "weighted": st.booleans(),
        "binary": st.booleans(),
        "top": st.integers(0, 6),
        "steepness": st.sampled_from([None, -0.5, 0.0, 0.7]),
        "norm": st.sampled_from([None, "l1", "l2"]),
        "pad": st.sampled_from([0.0, 2.5]),
        "length": st.sampled_from([1.0, 3.0]),
    }
)
word_documents = st.lists(
    st.text("ab Ü.\u0130\ud800", max_size=30) | st.lists(st.sampled_from("abc"), max_size=90).map(" ".join)
)


# ---------------------------------------------------------------------- mail

HEADER_NAMES = (
    b"From", b"FROM", b"Reply-To", b"Sender", b"To", b"cc", b"Received", b"received", b"Message-ID", b"Content-Type",
    b"X-Mailer", b"User-Agent", b"Date", b"Subject", b"MIME-Version", b"X-Spam-Flag", b"X-Priority", b"List-Id",
    b"x-", b"X-" + b"long" * 12, b"X-" + b"long" * 12 + b"er", b"Return-Path", b"From someone", b"", b"caf\xe9",
    b"Bad name", b"To ",
)  # fmt: skip


def raw_mails(fields, bodies):
    """Messages of these fields, and of bodies, fields and a few odd bytes; lines end in one way or the other."""
    return st.builds(
        lambda head, body, end: b"".join(field + end for field in head) + end + b"".join(body),
        st.lists(st.sampled_from(fields), max_size=5),
        st.lists(st.one_of(st.sampled_from(bodies), st.sampled_from(fields), st.binary(max_size=3)), max_size=10),
        st.sampled_from((b"\n", b"\r\n")),
    )


def header_blocks(pieces):
    """Blocks of header fields, most of them with a name that means something."""
    value = st.lists(st.sampled_from(pieces), max_size=8).map(b"".join)
    field = st.tuples(st.sampled_from(HEADER_NAMES), st.sampled_from((b":", b": ", b" :", b"")), value).map(b"".join)
    line = st.one_of(field, field, field, field, st.sampled_from((b"", b" more", b"\tfolded", b"\r", b">From x")))
    return st.tuples(st.lists(line, max_size=25), st.sampled_from((b"\n", b"\r\n"))).map(lambda b: b[1].join(b[0]))


subjects = st.one_of(st.text(max_size=30), st.text("aB_1 -!", max_size=60), st.sampled_from(("x" * 300, "ab " * 600)))
file_names = st.one_of(st.text("ab.EXE", max_size=30), st.text(max_size=10))
content_types = st.one_of(st.sampled_from(("text/html", "application/x-" + "y" * 80, "")), st.text(max_size=5))
attachment_lists = st.lists(st.tuples(content_types, file_names), max_size=25).map(tuple)
header_limits = st.builds(
    Limits,
    headers=st.sampled_from((0, 1, 3, 1000, 10**15)),
    header_length=st.sampled_from((0, 1, 17, 60, 16384, 10**30)),
    encoded_words=st.sampled_from((0, 1, 100)),
)
small_limits = st.builds(
    Limits,
    bytes=st.sampled_from((message.MAX_BYTES, 60, 0, 10**30)),
    parts=st.sampled_from((1000, 3, 1, 0, 10**30)),
    depth=st.sampled_from((16, 100, 1, 0)),
    headers=st.sampled_from((1000, 2, 0)),
    header_length=st.sampled_from((16384, 20, 0, 10**30)),
    decoded=st.sampled_from((1024 * 1024, 60, 20, 0)),
    encoded_words=st.sampled_from((100, 1, 0)),
)
line_pieces = st.sampled_from(
    (
        b"X-Spam-Flag: a",
        b"A: 1",
        b" more",
        b"\t",
        b"\r",
        b"\n",
        b"\r\n",
        b"\n\n",
        b"\r\r",
        b"body",
        b"x-spam-",
        b">From ",
    )
)


# ---------------------------------------------------------------------- pool

TABLE_WIDTH = 60
repeated_pieces = st.lists(st.tuples(st.binary(min_size=1, max_size=30), st.integers(1, 40)), max_size=12)
column_sets = st.sets(st.integers(0, TABLE_WIDTH - 1), max_size=TABLE_WIDTH)
many_contrasts = st.integers(6, 70).map(lambda n: [i % 5 - 1 for i in range(n)])
labelled_columns = st.lists(
    st.tuples(st.sets(st.integers(0, 15), max_size=6), st.integers(0, 2)), min_size=1, max_size=12
)


# ---------------------------------------------------------------------- core

bounded_experts = st.lists(
    st.tuples(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9), st.floats(1e-9, 1e6) | st.just(0.0)), min_size=1, max_size=6
)
"""What experts say, the centres of their opinions, and how large they are at most; 0: as they are."""

finite_numbers = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300)

_limits = st.floats(0, 50, allow_subnormal=False)
_parts = st.one_of(st.just(0.0), st.floats(1e-9, 1.0))  # of a number of terms, or of a whole
covered_views = st.lists(
    st.tuples(_parts, st.lists(st.tuples(st.floats(-50, 50), _limits, st.floats(0, 1), _parts), max_size=3)),
    min_size=1,
    max_size=4,
)
"""Views: the share of known terms, and the opinion, bound, usual share and portion of each expert."""
influenced_experts = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)), max_size=6)
"""Usual share, portion, and share of known terms of each expert; a usual share of 0 is outside the pool."""


# ---------------------------------------------------------------------- promises

budget_rates = st.one_of(st.sampled_from([0.5, 0.1, 0.01, 0.001, 0.3]), st.floats(2**-40, 0.999))
budget_bursts = st.one_of(st.integers(1, 7), st.floats(1, 20))


@st.composite
def alarm_streams(draw):
    """Rows of (negative, wants to be flagged, truth comes so many rows later), and when the program restarts."""
    row = st.tuples(st.booleans(), st.booleans(), st.sampled_from([0, 0, 0, 1, 2, 5, 30]))
    rows = draw(st.lists(row, max_size=120))
    return rows, set(draw(st.lists(st.integers(0, 119), max_size=5)))


@st.composite
def labelled_scores(draw):
    n = draw(st.integers(2, 40))
    labels = draw(st.lists(st.booleans(), min_size=n, max_size=n).filter(lambda y: 0 < sum(y) < len(y)))
    scores = draw(st.lists(st.integers(-6, 6) | st.floats(-1e6, 1e6), min_size=n, max_size=n))
    return np.array(scores, dtype=float), np.array(labels)


# ---------------------------------------------------------------------- filter

memory_steps = st.lists(
    st.tuples(
        st.floats(-5, 10, allow_nan=False),
        st.booleans(),
        st.integers(0, 6),
        st.sampled_from(("go on", "restart", "other")),
    ),
    min_size=1,
    max_size=40,
)
known_and_unknown = ["cheap", "pills", "lunch", "zzz", "qqq", "...", "\u00e9t\u00e9"]
words_known_or_not = st.lists(st.sampled_from(known_and_unknown), max_size=4)
lesson_steps = st.lists(
    st.tuples(st.sampled_from(["ham", "spam", "forget", "forget", "absorb", "reopen"]), st.integers(0, 5)), max_size=14
)
"""Lessons with one of six mails, and what comes between them."""
memory_attacks = st.lists(
    st.tuples(
        st.sampled_from(["high", "high", "low", "ham", "ham", "spam", "flood", "spam flood", "clock", "erase", "open"]),
        st.integers(0, 7),
        st.sampled_from(["", "", "ann", "bob"]),
        st.sampled_from([-400, -30, -8, -1, 1, 8, 30, 400]),
    ),
    min_size=1,
    max_size=60,
)
"""An attack on a memory: verdicts, truths, floods; with which document, for whom; days that the clock jumps."""
LESSON_WORDS = ("gold", "lunch", "nine", "pills", "cheap", "now", "order", "meeting", "team")
lesson_texts = st.lists(st.sampled_from(LESSON_WORDS), max_size=6).map(" ".join)
text_lessons = st.lists(st.tuples(lesson_texts, st.integers(0, 1)), max_size=8)
hexadecimal = st.binary(min_size=1, max_size=16).map(bytes.hex)
hashed_names = st.none() | st.binary(max_size=20) | st.sampled_from([b"it's", b'"it\'s"', b"\t\n\r\\\0\x7f\xff"])
journal_messages = st.lists(
    st.tuples(
        st.sampled_from(["learn", "reserve"]), hexadecimal, st.text(max_size=3), st.binary(max_size=9), hashed_names
    ),
    max_size=6,
)

row_values = (
    st.none() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(max_size=4) | st.binary(max_size=4)
)  # fmt: skip
"""What a row of the journal may have."""
lessons = st.tuples(st.integers(0, 23), st.booleans(), st.sampled_from(["ham", "spam"]), st.integers(0, 7))
"""Lessons: the number of a document, whether it comes as bytes of numpy, its class, and in which type."""

layer_steps = st.lists(
    st.tuples(
        st.sampled_from(["teach", "teach", "teach", "forget", "absorb", "reopen", "train", "site"]),
        st.integers(60, 99),
        st.booleans(),
    ),
    min_size=1,
    max_size=40,
)
"""Steps of a layer's life: what is done, with which of a hundred mails, and whether its label is the other one."""


@st.composite
def record_calls(draw):
    """Fields of a record by name, with a default or None, and the arguments of two calls that may not fit them."""
    names = draw(st.lists(st.sampled_from("abcdef"), unique=True, max_size=5))
    required = draw(st.integers(0, len(names)))
    values = st.one_of(st.integers(-2, 2), st.sampled_from(["", "x"]), st.tuples(st.integers(0, 1)))
    fields = {name: None if i < required else draw(values) for i, name in enumerate(names)}
    calls = [
        (
            draw(st.lists(values, max_size=len(names) + 1)),
            draw(st.dictionaries(st.sampled_from([*names, "z"]), values, max_size=3)),
        )
        for _ in range(2)
    ]
    return fields, *calls


TABLE_CELLS = st.text(
    st.characters(codec="utf-8", exclude_characters="\x00\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"), max_size=12
)
TABLE_ROWS = st.lists(st.tuples(TABLE_CELLS, st.sampled_from(["ham", "spam", 'a "b"'])), min_size=1, max_size=6)


audit_steps = st.lists(
    st.tuples(
        st.sampled_from(["judge", "judge", "judge", "tell", "tell", "untell", "days", "restart", "other"]),
        st.integers(0, 6),
        st.booleans(),
        st.sampled_from(["", "anna"]),
    ),
    max_size=40,
)


def json_values(names):
    """JSON values, their objects with some of the given names."""
    plain = st.none() | st.booleans() | st.floats() | st.text(max_size=5)
    objects = st.sampled_from([*names])
    return st.recursive(plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(objects, inner, max_size=4))


def ip_addresses():
    """Addresses of IPv4 and IPv6."""
    four = st.integers(0, 2**32 - 1).map(ipaddress.IPv4Address)
    six = st.integers(0, 2**128 - 1).map(ipaddress.IPv6Address)
    return four | six


mail_folders = st.sampled_from(
    ["", ".Junk", ".Spam", ".Archive", ".Archive.2024", ".Junk.2024", ".Trash", ".Sent", "Lists/dev", ".INBOX.Drafts"]
)
maildir_flags = st.text("DFPRSTab", max_size=5).map(lambda text: "".join(sorted(set(text))))
stored_messages = st.lists(st.tuples(mail_folders, maildir_flags, st.booleans()), min_size=1, max_size=12)
"""Folder, flags, and whether it is new, of each message of a Maildir."""

shares_of_words = st.builds(
    lambda unknown, words: min(unknown, words) / words, st.integers(0, 300), st.integers(1, 300)
)
coverage_shares = st.lists(
    st.one_of(shares_of_words, st.sampled_from([0.0, 0.25, 1 / 3, 1.0])), min_size=1, max_size=90
)
"""Shares of unknown words of known documents."""
