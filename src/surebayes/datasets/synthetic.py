"""Seeded streams of synthetic mail and texts, for demonstrations and load tests without private messages.

`mail_stream` yields complete messages (headers, plain and HTML parts, base64 and quoted-printable, five languages) with
drift, class skew, label noise, obfuscated words and hard cases of both classes. `text_stream` yields plain texts on K
topics.

Message i depends only on the seed, i and the options, so that ``first`` divides a stream into shards, and a longer
stream starts with the shorter one. All hosts belong to reserved domains (RFC 2606), all addresses to documentation
networks (RFC 5737), and every message has an X-Synthetic header, so that none can be mistaken for real mail.

The same seed gives the same bytes on every version of Python: only ``random()`` and ``getrandbits()`` of `random` are
used, because their sequences are stable, and floats are only multiplied, added, divided and compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from surebayes.datasets import synthetic_words as words
from surebayes.datasets.synthetic_mime import DISGUISE, HAM_HOSTS, Campaign, Dice, Letter, coin, rare_words, render

__all__ = ["LANGUAGES", "Mail", "Text", "as_lists", "mail_stream", "text_stream"]

LANGUAGES: Mapping[str, float] = {"en": 0.6, "de": 0.12, "fr": 0.1, "es": 0.1, "ko": 0.08}
"""Languages of the stream, with their default shares."""

_MAILERS = ("Loremail 2.1", "Ipsum Post 7", "Dolor Webmail", "Sitamet/0.9", "Loremail 3.0")


class Mail(NamedTuple):
    """One message of the stream: its bytes, given label (possibly wrong), true label, time, language and kind."""

    raw: bytes
    label: str
    truth: str
    time: int
    language: str
    kind: str


class Text(NamedTuple):
    """One text of `text_stream`: its words, given topics (possibly wrong) and true topics."""

    text: str
    labels: tuple[str, ...]
    truth: tuple[str, ...]


class _StreamPlan(NamedTuple):
    seed: int
    spam_share: float
    drift: float
    season: int
    label_noise: float
    languages: tuple[tuple[str, float], ...]
    obfuscation: float
    hard: float
    start: int
    interval: int
    tail: int


def _spam_campaign(seed: int, season: int, slot: int) -> Campaign:
    dice = Dice(seed, 2, season, slot)
    product = coin(dice.below(300_000)).capitalize() + dice.pick(("ex", "ium", "il", "ora"))
    # Some campaigns use a host of ham, through a stolen account.
    stolen = dice.chance(0.25)
    host = dice.pick(HAM_HOSTS) if stolen else coin(dice.below(300_000)) + dice.pick((".test", ".example"))
    link = f"http://{coin(dice.below(9000))}.{host}/{coin(dice.below(500))}"
    layout = dice.pick(("plain", "html", "html", "alternative"))
    tricks = tuple(DISGUISE)
    # The disguise changes with the season, as spammers replace tricks that filters have learnt.
    disguise = tricks[season % len(tricks)] if dice.chance(0.7) else dice.pick(tricks)
    return Campaign(host, link, product, dice.pick(_MAILERS), layout, disguise)


def _ham_sender(seed: int, person: int) -> Campaign:
    dice = Dice(seed, 3, person)
    # Some people write from hosts that are as unknown as those of spam.
    host = coin(dice.below(300_000)) + ".example" if dice.chance(0.3) else dice.pick(HAM_HOSTS)
    link = f"http://www.{host}/{coin(dice.below(500))}"
    layout = dice.pick(("plain", "plain", "plain", "alternative", "html"))
    return Campaign(host, link, coin(dice.below(300_000)).capitalize(), dice.pick(_MAILERS), layout, "")


class _Author:
    """Generator of sentences in one language about one topic; on request, it disguises the words of the topic."""

    def __init__(self, dice: Dice, language: str, topic: Sequence[str], product: str, disguise: str = "") -> None:
        self.dice, self.topic, self.product = dice, topic, product
        self.glue = words.GLUE[language]
        self.disguise = DISGUISE.get(disguise)

    def word(self) -> str:
        word = self.dice.early(self.topic)
        return self.disguise(word, self.dice) if self.disguise and self.dice.chance(0.5) else word

    def sentence(self) -> str:
        dice, words = self.dice, []
        for _ in range(5 + dice.below(9)):
            u = dice.roll()
            if u < 0.32:
                words.append(self.word())
            elif u < 0.36:
                words.append(self.product)
            elif u < 0.44:  # the long tail of a real vocabulary
                words.append(coin(int(1 / (dice.roll() + 1e-5)) + dice.below(60)))
            else:
                words.append(dice.early(self.glue))
        first = words[0]
        words[0] = first[:1].upper() + first[1:]
        return " ".join(words) + dice.pick((".", ".", ".", "!", "?"))

    def sentences(self, least: int, most: int) -> list[str]:
        return [self.sentence() for _ in range(least + self.dice.below(most - least + 1))]

    def title(self) -> str:
        words = [self.word() for _ in range(1 + self.dice.below(3))]
        if self.dice.chance(0.5):
            words.append(self.product)
        words.append(self.dice.early(self.glue))
        return " ".join(words)


class _Style(NamedTuple):
    """Probabilities of a greeting, a link, a call to click, a tracking parameter and a closing in a kind of message."""

    greeting: float
    link: float
    call: float
    tracking: float
    closing: float


_FRIEND = _Style(greeting=0.7, link=0.3, call=0.2, tracking=0.2, closing=0.7)
_SELLER = _Style(greeting=0.4, link=0.9, call=0.7, tracking=0.7, closing=0.3)


def _topic(dice: Dice, topics: Mapping[str, tuple[str, ...]], season: int, drift: float) -> tuple[str, ...]:
    """Choose a topic: with drift, one that is in season, else any."""
    names = tuple(topics)
    place = season if dice.chance(drift) else dice.below(len(names))
    return topics[names[place % len(names)]]


def _decorate(dice: Dice, language: str, lines: list[str], link: str, name: str, style: _Style) -> list[str]:
    """Add greeting, link and closing; both classes have all of them, so that no single phrase reveals the class."""
    if dice.chance(style.greeting):
        lines = [f"{dice.pick(words.GREETINGS[language])} {dice.pick(words.NAMES)},", "", *lines]
    if dice.chance(style.link):
        call = dice.pick(words.CALLS[language]) + " " if dice.chance(style.call) else ""
        lines = [*lines, call + link + (f"?{dice.bits(24):06x}" if dice.chance(style.tracking) else "")]
    if dice.chance(style.closing):
        lines = [*lines, "", dice.pick(words.CLOSINGS[language]), name]
    return lines


def _ham(dice: Dice, plan: _StreamPlan, language: str, season: int) -> Letter:
    person = dice.below(60) if dice.chance(0.75) else 60 + dice.below(1_000_000)
    sender = _ham_sender(plan.seed, person)
    name = words.NAMES[person % len(words.NAMES)]
    author = _Author(dice, language, _topic(dice, words.HAM[language], season, plan.drift), sender.product)
    seller = _Author(dice, language, _topic(dice, words.SPAM[language], season, plan.drift), sender.product)
    if dice.chance(plan.hard):
        return _newsletter(dice, language, sender, author, seller)
    kind, layout, subject = "letter", sender.layout, author.title()
    lines, extra = author.sentences(1, 8), []
    if dice.chance(0.2):
        kind, lines = "note", lines[:1]
    elif dice.chance(0.2):
        lines.append(seller.sentence())
    if dice.chance(0.04):
        kind, layout, lines = "photo", "image", lines[:1]
    lines = _decorate(dice, language, lines, sender.link, name, _FRIEND)
    if dice.chance(0.35):
        subject = "Re: " + subject
        lines += ["", f"{dice.pick(words.NAMES)}:", *("> " + sentence for sentence in author.sentences(1, 3))]
        extra.append(f"In-Reply-To: <{dice.bits(40):010x}@{dice.pick(HAM_HOSTS)}>")
    return Letter(
        kind, sender, f"{name} {sender.product} <{name.lower()}@{sender.host}>", subject, lines, layout, extra
    )


def _newsletter(dice: Dice, language: str, sender: Campaign, author: _Author, seller: _Author) -> Letter:
    """Write ham that resembles spam, with offers, links, capitals and a way to unsubscribe."""
    lines = [author.title().upper(), "", *author.sentences(1, 4), *seller.sentences(1, 4)]
    lines = _decorate(dice, language, lines, sender.link, sender.product, _SELLER)
    if dice.chance(0.7):
        lines += ["", f"{words.NEWSLETTER[language]} {sender.link}"]
    extra = [f"List-Unsubscribe: <{sender.link}>", "Precedence: bulk"] if dice.chance(0.7) else []
    address = f"{sender.product} News <news@{sender.host}>"
    return Letter("newsletter", sender, address, seller.title(), lines, dice.pick(("html", "alternative")), extra)


def _spam(dice: Dice, plan: _StreamPlan, language: str, season: int) -> Letter:
    born = season if dice.chance(plan.drift) else 0
    sender = _spam_campaign(plan.seed, born, dice.below(8))
    topic = _topic(dice, words.SPAM[language], season, plan.drift)
    disguise = sender.disguise if dice.chance(plan.obfuscation) else ""
    if disguise == "comment" and sender.layout != "html":
        disguise = "zero-width"
    author = _Author(dice, language, topic, sender.product, disguise)
    friend = _Author(dice, language, _topic(dice, words.HAM[language], season, plan.drift), sender.product)
    kind, layout, name = "campaign", sender.layout, dice.pick(words.NAMES)
    # HTML comments have no meaning in a header.
    subject = (author if disguise != "comment" else _Author(dice, language, topic, sender.product)).title()
    lines, extra = author.sentences(1, 8), []
    if dice.chance(plan.hard):
        kind = dice.pick(("short", "image", "good-words"))
    if kind == "short":
        subject, lines, layout = friend.title(), friend.sentences(0, 1), "plain"
    elif kind == "image":
        lines, layout = [], "image"
    elif kind == "good-words":
        subject, lines = friend.title(), [lines[0], "", *friend.sentences(4, 9)]
    elif dice.chance(0.2):
        lines.append(friend.sentence())
    lines = _decorate(dice, language, lines, sender.link, name, _SELLER)
    if dice.chance(0.1):
        subject = "Re: " + subject
    elif dice.chance(0.15):
        subject = subject.upper()
    if dice.chance(0.3):
        lines += ["", f"{words.NEWSLETTER[language]} {sender.link}"]
        extra += [f"List-Unsubscribe: <{sender.link}>", "Precedence: bulk"]
    host = dice.pick(HAM_HOSTS) if dice.chance(0.25) else sender.host
    user = coin(dice.below(9000)) if dice.chance(0.4) else name.lower()
    return Letter(kind, sender, f"{name} {sender.product} <{user}@{host}>", subject, lines, layout, extra)


def _mail(plan: _StreamPlan, index: int) -> Mail:
    dice = Dice(plan.seed, 1, index)
    flip, spam, where = dice.chance(plan.label_noise), dice.chance(plan.spam_share), dice.roll()
    language = plan.languages[-1][0]
    for name, upto in plan.languages:
        if where < upto:
            language = name
            break
    # A season fades into the next: halfway, both are equally likely.
    season = int(index / plan.season + dice.roll())
    letter = (_spam if spam else _ham)(dice, plan, language, season)
    if plan.tail:  # separate dice, so that the rest of the message is unchanged
        letter.lines.extend(rare_words(Dice(plan.seed, 5, index), plan.tail))
    epoch = plan.start + index * plan.interval + dice.below(plan.interval)
    truth = "spam" if spam else "ham"
    label = ("ham" if spam else "spam") if flip else truth
    return Mail(render(letter, dice, language, epoch), label, truth, epoch, language, letter.kind)


def _share(name: str, value: float) -> float:
    if not 0 <= value <= 1:
        raise ValueError(f"The {name!r} parameter must be a share between 0 and 1. Got {value!r} instead.")
    return float(value)


def _whole(name: str, value: int, least: int) -> int:
    if isinstance(value, bool) or int(value) != value or value < least:
        raise ValueError(f"The {name!r} parameter must be an integer of at least {least}. Got {value!r} instead.")
    return int(value)


def _mixture(languages: Mapping[str, float] | Sequence[str]) -> tuple[tuple[str, float], ...]:
    """Return languages with cumulative shares."""
    if isinstance(languages, str):
        languages = (languages,)
    weights = dict(languages) if isinstance(languages, Mapping) else dict.fromkeys(languages, 1.0)
    unknown = [name for name in weights if name not in LANGUAGES]
    total = sum(weights.values())
    if unknown or not total > 0 or min(weights.values()) < 0:
        raise ValueError(
            f"The 'languages' parameter must be some of {', '.join(LANGUAGES)}, or a mapping from them to weights that "
            f"are not negative and not all zero. Got {languages!r} instead."
        )
    upto, result = 0.0, []
    for name, weight in weights.items():
        upto += weight / total
        result.append((name, upto))
    return tuple(result)


def mail_stream(
    n: int,
    seed: int = 0,
    *,
    spam_share: float = 0.4,
    drift: float = 0.5,
    season: int = 1000,
    label_noise: float = 0.0,
    languages: Mapping[str, float] | Sequence[str] = LANGUAGES,
    obfuscation: float = 0.3,
    hard: float = 0.2,
    first: int = 0,
    start: int = 1767225600,
    interval: int = 60,
    tail: int = 0,
) -> Iterator[Mail]:
    """Yield n synthetic messages, in chronological order and in constant memory.

    Parameters
    ----------
    n : int
        Number of messages.
    seed : int
        The seed; the same seed gives the same bytes.
    spam_share : float
        Probability of spam.
    drift : float
        Share of mail that follows the season. With 0, all topics and campaigns occur at all times. With 1, topics
        alternate, and every campaign (its sender, links, product and disguise) lasts for one season and never returns.
    season : int
        Length of a season in messages; seasons change gradually.
    label_noise : float
        Probability that ``label`` differs from ``truth``. The messages themselves stay the same.
    languages : mapping or sequence of str
        A subset of ``LANGUAGES``, with weights if it is a mapping.
    obfuscation : float
        Probability that spam disguises its words: digits for letters, zero-width characters, Cyrillic lookalikes,
        spaced letters, HTML comments within a word.
    hard : float
        Share of hard cases in each class: newsletters in ham; in spam one-liners, image-only messages and good-word
        attacks.
    first : int
        Number of the first message; streams with consecutive numbers are parts of one longer stream.
    start, interval : int
        Time of message 0 in seconds since 1970, and seconds between messages.
    tail : int
        Rare words added to each message. With 80, the vocabulary grows like that of real mail, by its law to 2.6
        million words in 765,000 messages; with 0, it stays below a few hundred thousand.

    Returns
    -------
    iterator of Mail

    Examples
    --------
    >>> from surebayes.synthetic import mail_stream
    >>> mails = list(mail_stream(1000, seed=7, spam_share=0.25))
    >>> sum(mail.truth == "spam" for mail in mails)
    243
    >>> b"X-Synthetic: " in mails[0].raw
    True
    >>> mails[600:] == list(mail_stream(400, seed=7, spam_share=0.25, first=600))
    True
    """
    plan = _StreamPlan(
        _whole("seed", seed, 0),
        _share("spam_share", spam_share),
        _share("drift", drift),
        _whole("season", season, 1),
        _share("label_noise", label_noise),
        _mixture(languages),
        _share("obfuscation", obfuscation),
        _share("hard", hard),
        _whole("start", start, 0),
        _whole("interval", interval, 1),
        _whole("tail", tail, 0),
    )
    first, n = _whole("first", first, 0), _whole("n", n, 0)
    return (_mail(plan, index) for index in range(first, first + n))


def as_lists(n: int, seed: int = 0, **options: Any) -> tuple[list[bytes], list[str]]:
    """Return n messages of `mail_stream` as two lists, raw messages and labels, for a vectorizer and a classifier.

    Examples
    --------
    >>> from surebayes.synthetic import as_lists
    >>> raws, labels = as_lists(40, seed=1, languages="en")
    >>> len(raws), type(raws[0]).__name__, sorted(set(labels))
    (40, 'bytes', ['ham', 'spam'])
    """
    mails = list(mail_stream(n, seed, **options))
    return [mail.raw for mail in mails], [mail.label for mail in mails]


def text_stream(
    n: int,
    seed: int = 0,
    *,
    topics: int = 5,
    max_labels: int = 1,
    length: int = 60,
    skew: float = 0.0,
    overlap: float = 0.5,
    label_noise: float = 0.0,
    first: int = 0,
) -> Iterator[Text]:
    """Yield n texts of coined words about K topics, for demonstrations with more than two classes.

    Parameters
    ----------
    n, seed, first : int
        As in `mail_stream`.
    topics : int
        K, the number of topics, named topic-00, topic-01, ...
    max_labels : int
        Maximum number of topics of a text; 1 for single-label data. Each further topic is half as likely.
    length : int
        Mean number of words; a text has 0.5 to 1.5 times as many.
    skew : float
        Imbalance of the topics: topic k has weight 1 / (1 + skew k).
    overlap : float
        Share of words independent of the topic.
    label_noise : float
        Probability that one of a text's labels is a wrong topic.

    Returns
    -------
    iterator of Text

    Examples
    --------
    >>> from surebayes.synthetic import text_stream
    >>> texts = list(text_stream(200, seed=3, topics=4, max_labels=2))
    >>> sorted({label for text in texts for label in text.labels})
    ['topic-00', 'topic-01', 'topic-02', 'topic-03']
    >>> max(len(text.labels) for text in texts)
    2
    """
    n, seed, first = _whole("n", n, 0), _whole("seed", seed, 0), _whole("first", first, 0)
    topics, length = _whole("topics", topics, 1), _whole("length", length, 1)
    max_labels = min(_whole("max_labels", max_labels, 1), topics)
    overlap, label_noise = _share("overlap", overlap), _share("label_noise", label_noise)
    if not 0 <= skew < float("inf"):
        raise ValueError(f"The 'skew' parameter must be a number of at least 0. Got {skew!r} instead.")
    upto, total = [], 0.0
    for k in range(topics):
        total += 1 / (1 + skew * k)
        upto.append(total)

    def drawn_text(index: int) -> Text:
        dice = Dice(seed, 4, index)
        chosen = [_first_above(upto, dice.roll() * total)]
        while len(chosen) < max_labels and dice.chance(0.5):
            other = _first_above(upto, dice.roll() * total)
            if other not in chosen:
                chosen.append(other)
        text = []
        for _ in range(length - length // 2 + dice.below(2 * (length // 2) + 1)):
            # Word numbers: a shared block of 4,000, and one block for each topic; low numbers are the most frequent.
            block = 0 if dice.chance(overlap) else 1 + dice.pick(chosen)
            text.append(coin(4000 * block + min(3999, int(1 / (dice.roll() + 1e-4)) + dice.below(40))))
        labels = list(chosen)
        if topics > len(chosen) and dice.chance(label_noise):
            others = [k for k in range(topics) if k not in chosen]
            labels[dice.below(len(labels))] = dice.pick(others)
        return Text(" ".join(text), _names(labels), _names(chosen))

    return (drawn_text(index) for index in range(first, first + n))


def _first_above(upto: Sequence[float], value: float) -> int:
    return next((k for k, edge in enumerate(upto) if value < edge), len(upto) - 1)


def _names(topics: Sequence[int]) -> tuple[str, ...]:
    return tuple(f"topic-{k:02d}" for k in sorted(topics))
