"""The synthetic stream: the same bytes for a seed, valid mail, the shares asked for, drift that shows."""

import email
import hashlib
import re
import subprocess
import sys
from email.header import decode_header, make_header
from email.message import Message
from itertools import islice, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.naive_bayes import MultinomialNB

from surebayes import read_message
from surebayes.datasets.synthetic_mime import DISGUISE, Dice, coin
from surebayes.synthetic import LANGUAGES, as_lists, mail_stream, text_stream

HOST = re.compile(r"(?:[a-z0-9-]+\.)+[a-z]{2,}")
RESERVED = (".example", ".test", ".invalid", "example.org", "example.net", "example.com")

PINNED_MAIL = "09a841589eac10f7826b0629dc510f9e1a6953fdaa2fb78a241f2b77c82b0dd7"
PINNED_TEXT = "2d527e9477656c9e32f14416dbb848ff334700b9d7c8c7865e870c55fd6b6d17"


def digest(stream):
    whole = hashlib.sha256()
    for item in stream:
        whole.update(repr(tuple(item)).encode("utf-8"))
    return whole.hexdigest()


def parts(message: Message) -> list[tuple[str, str]]:
    """Content type and decoded text of every text part."""
    return [
        (part.get_content_type(), part.get_payload(decode=True).decode(part.get_content_charset()))
        for part in message.walk()
        if part.get_content_maintype() == "text"
    ]


def visible(raw: bytes) -> str:
    message = email.message_from_bytes(raw)
    return " ".join([str(make_header(decode_header(message["Subject"]))), *(text for _, text in parts(message))])


@pytest.fixture(scope="module")
def mails():
    return list(mail_stream(3000, seed=5, label_noise=0.1, spam_share=0.3))


def test_bytes_are_those_of_every_python_version():
    # Pinned: a change of these is a change of every published figure that rests on the stream.
    assert digest(mail_stream(300, seed=11, label_noise=0.1)) == PINNED_MAIL
    assert digest(text_stream(300, seed=11, topics=7, max_labels=3, skew=0.5)) == PINNED_TEXT


def test_hash_order_does_not_matter():
    code = "import hashlib; from surebayes.synthetic import mail_stream as m; h = hashlib.sha256()\n"
    code += "for mail in m(200, seed=2): h.update(mail.raw)\nprint(h.hexdigest())"
    seen = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "77")
    }
    assert len(seen) == 1


@given(st.integers(0, 2**70), st.integers(0, 40), st.integers(0, 40))
def test_shards_join_and_prefixes_agree(seed, cut, rest):
    whole = list(mail_stream(cut + rest, seed))
    assert list(mail_stream(cut, seed)) == whole[:cut]
    assert list(mail_stream(rest, seed, first=cut)) == whole[cut:]


def test_seeds_differ():
    assert digest(mail_stream(20, seed=1)) != digest(mail_stream(20, seed=2))


def test_stream_is_lazy():
    assert len(list(islice(mail_stream(10**12), 3))) == 3
    assert len(list(islice(text_stream(10**12), 3))) == 3


def test_every_mail_is_valid(mails):
    kinds = set()
    for mail in mails:
        message = email.message_from_bytes(mail.raw)
        for part in message.walk():
            assert not part.defects
        for name in ("Received", "From", "To", "Subject", "Date", "Message-ID", "MIME-Version", "X-Synthetic"):
            assert message[name], name
        assert email.utils.mktime_tz(email.utils.parsedate_tz(message["Date"])) <= mail.time
        assert max(len(line) for line in mail.raw.split(b"\n")) <= 998
        subject = message["Subject"]
        assert subject.isascii()
        assert all(len(word) <= 75 for word in subject.split())
        kinds.update((message.get_content_type(), part["Content-Transfer-Encoding"]) for part in message.walk())
        for content_type, text in parts(message):
            assert ("</html>" in text) == (content_type == "text/html")
    types = {kind for kind, _ in kinds}
    assert types == {"text/plain", "text/html", "multipart/alternative", "multipart/related"}
    assert {"7bit", "8bit", "base64", "quoted-printable"} <= {coding for _, coding in kinds}


def test_both_parts_of_an_alternative_say_the_same(mails):
    seen = 0
    for mail in mails[:800]:
        message = email.message_from_bytes(mail.raw)
        if message.get_content_type() == "multipart/alternative":
            (_, plain), (_, html) = parts(message)
            text = re.sub(r"<[^>]*>", " ", html.replace("&gt;", ">"))
            assert {word for word in plain.split() if not word.startswith("http")} <= set(text.split())
            seen += 1
    assert seen > 50


def test_no_real_host_or_address(mails):
    for mail in mails:
        text = mail.raw.split(b"\n\n", 1)[0].decode("ascii") + visible(mail.raw)
        for host in re.findall(r"(?:@|//)([a-z0-9.-]+\.[a-z]+)\b", text):
            assert host.endswith(RESERVED), host
        for address in re.findall(r"\b\d+\.\d+\.\d+\.\d+\b", text):
            assert address.startswith(("192.0.2.", "198.51.100.", "203.0.113.")), address


def test_header_hosts_are_all_reserved(mails):
    for mail in mails:
        head = mail.raw.split(b"\n\n", 1)[0].decode("ascii").replace("surebayes.synthetic", "")
        head = re.sub(r"(?m)^(X-Mailer|Subject|Content).*(\n[ \t].*)*", "", head)
        assert all(host.endswith(RESERVED) for host in HOST.findall(head))


def test_nothing_but_the_mail_tells_the_label(mails):
    notices = {email.message_from_bytes(mail.raw)["X-Synthetic"] for mail in mails}
    assert len(notices) == 1


@pytest.mark.parametrize("share", [0.0, 0.05, 0.5, 1.0])
def test_spam_share_and_label_noise(share):
    n, noise = 2000, 0.2
    stream = list(mail_stream(n, seed=3, spam_share=share, label_noise=noise, languages="en"))
    spam = sum(mail.truth == "spam" for mail in stream)
    wrong = sum(mail.label != mail.truth for mail in stream)
    # 4.5 standard deviations: 7 in a million
    assert abs(spam - n * share) <= 4.5 * (n * share * (1 - share)) ** 0.5
    assert abs(wrong - n * noise) <= 4.5 * (n * noise * (1 - noise)) ** 0.5


def test_label_noise_leaves_the_mails_alone():
    clean, noisy = mail_stream(300, seed=4), mail_stream(300, seed=4, label_noise=0.5)
    assert all(a.raw == b.raw and a.truth == b.truth == a.label for a, b in zip(clean, noisy))


def test_languages(mails):
    counts = {name: sum(mail.language == name for mail in mails) for name in LANGUAGES}
    for name, share in LANGUAGES.items():
        assert abs(counts[name] - len(mails) * share) <= 4.5 * (len(mails) * share * (1 - share)) ** 0.5
    only = list(mail_stream(200, languages={"ko": 2, "de": 0}))
    assert {mail.language for mail in only} == {"ko"}
    assert all(re.search("[가-힣]", visible(mail.raw)) for mail in only if mail.kind not in ("image", "short"))


def test_time_moves_on(mails):
    times = [mail.time for mail in mails]
    assert all(a <= b for a, b in pairwise(times))
    assert times[-1] - times[0] == pytest.approx(60 * len(times), rel=0.01)


def test_hard_kinds(mails):
    kinds = {(mail.truth, mail.kind) for mail in mails}
    hard = {("ham", "newsletter"), ("spam", "short"), ("spam", "image"), ("spam", "good-words")}
    assert hard <= kinds
    easy = {(mail.truth, mail.kind) for mail in mail_stream(500, seed=5, hard=0)}
    assert not easy & hard


def test_obfuscation():
    def disguised(rate):
        stream = mail_stream(600, seed=9, spam_share=1, obfuscation=rate, languages="en", drift=1, season=100)
        texts = [visible(mail.raw) for mail in stream]
        hidden = sum(bool(re.search("[\u200b\u200c\u00ad\u0400-\u04ff]|[a-z]<!--", text)) for text in texts)
        plain = sum("viagra" in text.lower() for text in texts)
        return hidden, plain

    none, full = disguised(0), disguised(1)
    assert none[0] == 0
    assert full[0] > 150
    assert full[1] < none[1]


@pytest.mark.parametrize("name", DISGUISE)
def test_each_disguise_hides_a_word(name):
    dice = Dice(1)
    hidden = DISGUISE[name]("pharmacies", dice)
    assert "pharmacies" not in hidden
    assert {"spaced": "p", "leet": "ph"}.get(name, "") == hidden[: {"spaced": 1, "leet": 2}.get(name, 0)]


def test_coined_words_differ():
    assert len({coin(k) for k in range(50_000)}) == 50_000


def seasons(drift):
    stream = list(mail_stream(3000, seed=1, drift=drift, season=750))
    texts = [visible(mail.raw) for mail in stream]
    truth = np.array([mail.truth == "spam" for mail in stream])
    words = CountVectorizer(binary=True)
    model = MultinomialNB().fit(words.fit_transform(texts[:750]), truth[:750])
    return [
        accuracy_score(truth[a : a + 750], model.predict(words.transform(texts[a : a + 750])))
        for a in (750, 1500, 2250)
    ]


def test_drift_makes_an_early_classifier_lose():
    still, moving = seasons(0.0), seasons(1.0)
    assert min(still) > 0.93
    assert moving[1] < min(still) - 0.08
    assert moving[2] < min(still) - 0.08


def test_the_stream_is_neither_trivial_nor_hopeless():
    raws, labels = as_lists(2400, seed=8)
    texts, truth = [visible(raw) for raw in raws], np.array(labels) == "spam"
    words = CountVectorizer(binary=True)
    train, test = words.fit_transform(texts[:1200]), words.transform(texts[1200:])
    naive = roc_auc_score(truth[1200:], MultinomialNB().fit(train, truth[:1200]).predict_log_proba(test)[:, 1])
    logistic = LogisticRegression(max_iter=500).fit(train, truth[:1200])
    assert 0.95 < naive < 0.995
    assert naive < roc_auc_score(truth[1200:], logistic.decision_function(test)) < 0.9999


def test_text_stream_topics_and_skew():
    texts = list(text_stream(3000, seed=1, topics=4, skew=1.0))
    counts = np.array([sum(text.truth == (f"topic-{k:02d}",) for text in texts) for k in range(4)])
    share = np.array([1, 1 / 2, 1 / 3, 1 / 4])
    share = share / share.sum()
    assert counts.sum() == 3000
    assert np.all(np.abs(counts - 3000 * share) <= 4.5 * np.sqrt(3000 * share * (1 - share)))
    lengths = [len(text.text.split()) for text in texts]
    assert min(lengths) >= 30
    assert max(lengths) <= 90
    assert np.mean(lengths) == pytest.approx(60, rel=0.02)


def test_text_stream_can_be_learnt():
    texts = list(text_stream(1500, seed=2, topics=10))
    words, labels = CountVectorizer(), [text.labels[0] for text in texts]
    model = MultinomialNB().fit(words.fit_transform([text.text for text in texts[:1000]]), labels[:1000])
    right = accuracy_score(labels[1000:], model.predict(words.transform([text.text for text in texts[1000:]])))
    assert right > 0.95
    nothing = list(text_stream(50, topics=3, overlap=1.0))
    assert {coin(k) for k in range(4000)} >= {word for text in nothing for word in text.text.split()}


def test_text_stream_labels():
    many = list(text_stream(2000, seed=3, topics=6, max_labels=3, label_noise=0.25))
    sizes = np.bincount([len(text.truth) for text in many])
    assert len(sizes) == 4
    assert sizes[1] > sizes[2] > sizes[3] > 0
    assert all(len(set(text.labels)) == len(text.labels) == len(text.truth) for text in many)
    wrong = sum(text.labels != text.truth for text in many)
    assert abs(wrong - 500) <= 4.5 * (2000 * 0.25 * 0.75) ** 0.5
    assert next(text_stream(1, topics=1, max_labels=5, label_noise=1.0)).labels == ("topic-00",)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"spam_share": 1.5}, "'spam_share' parameter must be a share between 0 and 1. Got 1.5"),
        ({"drift": -0.1}, "'drift'"),
        ({"label_noise": float("nan")}, "'label_noise'"),
        ({"season": 0}, "'season' parameter must be an integer of at least 1. Got 0"),
        ({"seed": -1}, "'seed'"),
        ({"interval": 0.5}, "'interval'"),
        ({"languages": ("en", "tlh")}, "some of en, de, fr, es, ko"),
        ({"languages": {}}, "'languages'"),
        ({"languages": {"en": -1, "de": 2}}, "'languages'"),
    ],
)
def test_bad_options_are_refused_at_once(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        mail_stream(5, **options)


@pytest.mark.parametrize("options", [{"topics": 0}, {"skew": -1}, {"overlap": 2}, {"length": 0}, {"max_labels": 0}])
def test_bad_text_options_are_refused_at_once(options):
    with pytest.raises(ValueError, match=f"'{next(iter(options))}'"):
        text_stream(5, **options)


def test_import_is_light():
    code = (
        "import sys, surebayes.synthetic; print([m for m in ('numpy', 'sklearn', 'email.parser') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.strip() == b"[]"


def test_a_tail_makes_the_vocabulary_grow_and_leaves_the_rest_alone():
    plain, tailed = (list(mail_stream(600, seed=4, tail=tail)) for tail in (0, 80))
    assert [mail[1:] for mail in plain] == [mail[1:] for mail in tailed]
    assert [mail.raw for mail in tailed[100:110]] == [mail.raw for mail in mail_stream(10, seed=4, tail=80, first=100)]

    def words_of(mails):
        return len({word for mail in mails for word in read_message(mail.raw).text.lower().split()})

    half, whole = words_of(tailed[:300]), words_of(tailed)
    assert whole > 2 * words_of(plain)
    assert 1.6 < whole / half < 1.85  # 2 ** 0.8 is 1.74
