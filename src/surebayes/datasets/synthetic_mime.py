"""Rendering of synthetic messages: random numbers, coined words, disguises, headers, MIME."""

from __future__ import annotations

import time as _time
from binascii import b2a_base64
from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple, TypeVar

from surebayes.datasets import synthetic_words as words

T = TypeVar("T")

HAM_HOSTS = ("north.example", "harbour.example", "example.org", "example.net", "orchard.test", "example.com")
_NETWORKS = ("192.0.2", "198.51.100", "203.0.113")
_SYLLABLES = (
    *("lo", "re", "mip", "su", "dol", "sit", "am", "con", "sec", "te", "tur", "ad"),
    *("pis", "cin", "el", "sed", "do", "ei", "usm", "tem", "por", "ut", "lab", "or"),
)
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_NOTICE = "invented by surebayes.synthetic; no real person, product or place"
_CHARSETS = {"en": "iso-8859-1", "de": "iso-8859-1", "fr": "iso-8859-1", "es": "iso-8859-1", "ko": "euc-kr"}


class Dice:
    """Source of random choices, which uses only ``random()``."""

    __slots__ = ("bits", "roll")

    def __init__(self, *seeds: int) -> None:
        number = 0
        for seed in seeds:
            number = (number << 40) + seed
        source = Random(number)
        self.roll: Callable[[], float] = source.random
        self.bits: Callable[[int], int] = source.getrandbits

    def below(self, n: int) -> int:
        """Return an integer from 0 to n - 1."""
        return int(self.roll() * n)

    def pick(self, items: Sequence[T]) -> T:
        """Return one of the items, uniformly."""
        return items[int(self.roll() * len(items))]

    def early(self, items: Sequence[T]) -> T:
        """Return one of the items; early ones are far more likely."""
        u = self.roll()
        return items[int(u * u * len(items))]

    def chance(self, p: float) -> bool:
        """Return True with probability p."""
        return self.roll() < p


def coin(number: int) -> str:
    """Coin a word that is in no dictionary; different numbers give different words."""
    parts = []
    number += len(_SYLLABLES)
    while number:
        number, digit = divmod(number, len(_SYLLABLES))
        parts.append(_SYLLABLES[digit])
    return "".join(parts)


def rare_words(dice: Dice, n: int) -> list[str]:
    """Return lines of n words from an infinite tail: of N such words about 4.6 (N / 4) ** 0.8 are distinct.

    Word k has a probability of about k ** -1.25 / 4, so that vocabularies grow as fast as those of mail.
    """
    drawn = []
    for _ in range(n):
        u = dice.roll() + 1e-4
        drawn.append(coin(int(1 / (u * u * u * u))))
    return [" ".join(drawn[k : k + 8]) for k in range(0, n, 8)]


_LEET = str.maketrans("aeiost", "4310$7")
_LOOKALIKE = str.maketrans("aeopcx", "\u0430\u0435\u043e\u0440\u0441\u0445")  # Cyrillic letters that look Latin


def _comment(word: str, dice: Dice) -> str:
    cut = 1 + dice.below(max(1, len(word) - 1))
    return f"{word[:cut]}<!-- {coin(dice.below(400))} -->{word[cut:]}"


def _zero_width(word: str, dice: Dice) -> str:
    cut = 1 + dice.below(max(1, len(word) - 1))
    return word[:cut] + dice.pick(("\u200b", "\u200c", "\u00ad")) + word[cut:]


DISGUISE: dict[str, Callable[[str, Dice], str]] = {
    "leet": lambda word, dice: word.translate(_LEET),
    "zero-width": _zero_width,
    "lookalike": lambda word, dice: word.translate(_LOOKALIKE),
    "spaced": lambda word, dice: dice.pick((" ", ".", "-")).join(word),
    "comment": _comment,
}


class Campaign(NamedTuple):
    """Common features of one sender's messages; in spam they last for a season, in ham for the whole stream."""

    host: str
    link: str
    product: str
    mailer: str
    layout: str
    disguise: str


class Letter(NamedTuple):
    """A message before MIME encoding."""

    kind: str
    sender: Campaign
    address: str
    subject: str
    lines: list[str]
    layout: str
    extra: list[str]


_QUOTED = [chr(i) if 33 <= i <= 126 and i != 61 else f"={i:02X}" for i in range(256)]
_QUOTED[32] = " "


def _quoted_printable(body: bytes) -> str:
    lines = []
    for line in body.split(b"\n"):
        pieces = [_QUOTED[byte] for byte in line]
        if pieces and pieces[-1] == " ":
            pieces[-1] = "=20"
        room, out = 75, []
        for piece in pieces:
            room -= len(piece)
            if room < 0:
                out.append("=\n")
                room = 75 - len(piece)
            out.append(piece)
        lines.append("".join(out))
    return "\n".join(lines)


def _base64(body: bytes) -> str:
    return "".join(b2a_base64(body[i : i + 57]).decode("ascii") for i in range(0, len(body), 57))


def _encode(text: str, charset: str) -> tuple[bytes, str]:
    if text.isascii():
        return text.encode("ascii"), "us-ascii"
    try:
        return text.encode(charset), charset
    except UnicodeEncodeError:
        return text.encode("utf-8"), "utf-8"


def _header_text(text: str, charset: str) -> str:
    """Encode a header text (RFC 2047): plain, or base64 words of at most 75 characters."""
    if text.isascii():
        return text
    charset = _encode(text, charset)[1]
    step = 13  # 13 characters of at most 3 bytes are 52 of base64; the longest charset's name adds 22
    chunks = (text[i : i + step].encode(charset) for i in range(0, len(text), step))
    return "\n ".join(f"=?{charset}?B?{b2a_base64(chunk, newline=False).decode('ascii')}?=" for chunk in chunks)


def _part(text: str, subtype: str, charset: str, transfer: float) -> bytes:
    body, charset = _encode(text, charset)
    if transfer < 0.55 and (transfer < 0.12 or charset == "us-ascii"):
        name, coded = ("7bit" if charset == "us-ascii" else "8bit"), body
    elif transfer < 0.75:
        name, coded = "quoted-printable", _quoted_printable(body).encode("ascii")
    else:
        name, coded = "base64", _base64(body).encode("ascii")
    head = f"Content-Type: text/{subtype}; charset={charset}\nContent-Transfer-Encoding: {name}\n\n"
    return head.encode("ascii") + coded + b"\n"


def _html(lines: Sequence[str], link: str) -> str:
    rows = []
    for line in lines:
        before, address, query = line.partition(link)
        if address:
            rows.append(f'<p><a href="{address}{query}">{before or address}</a></p>')
        else:
            rows.append(f"<p>&gt; {line[2:]}</p>" if line.startswith("> ") else f"<p>{line}</p>")
    return '<html><head><title></title></head>\n<body bgcolor="#ffffff">\n' + "\n".join(rows) + "\n</body></html>"


def _image(dice: Dice) -> bytes:
    size = 300 + dice.below(900)
    return b"GIF89a" + dice.bits(8 * size).to_bytes(size, "big")


def _multipart(kind: str, parts: Sequence[bytes], dice: Dice) -> bytes:
    boundary = f"=_synthetic_{dice.bits(48):012x}".encode("ascii")
    head = b"Content-Type: multipart/" + kind.encode("ascii") + b'; boundary="' + boundary + b'"\n\n'
    return head + b"".join(b"--" + boundary + b"\n" + part for part in parts) + b"--" + boundary + b"--\n"


def _content(letter: Letter, dice: Dice, charset: str) -> bytes:
    """Return the message from the Content-Type header on."""
    transfer = dice.roll()
    plain = "\n".join(letter.lines)
    if letter.layout == "plain":
        return _part(plain, "plain", charset, transfer)
    page = _part(_html(letter.lines, letter.sender.link), "html", charset, transfer)
    if letter.layout == "html":
        return page
    if letter.layout == "alternative":
        return _multipart("alternative", (_part(plain, "plain", charset, transfer), page), dice)
    name = f"{coin(dice.below(9000))}.gif"
    shown = [*letter.lines, f'<a href="{letter.sender.link}"><img src="cid:{name}" alt=""></a>']
    page = _part(_html(shown, "\0"), "html", charset, transfer)
    head = f"Content-Type: image/gif; name={name}\nContent-ID: <{name}>\nContent-Transfer-Encoding: base64\n\n"
    return _multipart("related", (page, (head + _base64(_image(dice))).encode("ascii")), dice)


def _date(epoch: int) -> str:
    t = _time.gmtime(epoch)
    clock = f"{t.tm_hour:02d}:{t.tm_min:02d}:{t.tm_sec:02d}"
    return f"{_DAYS[t.tm_wday]}, {t.tm_mday:02d} {_MONTHS[t.tm_mon - 1]} {t.tm_year} {clock} +0000"


def _received(dice: Dice, host: str, epoch: int) -> list[str]:
    """Return the Received fields, last hop first, as each host prepends its line."""
    hops, name = [], host
    for hop in range(1 + dice.below(3)):
        address = f"{dice.pick(_NETWORKS)}.{1 + dice.below(254)}"
        to = "mx.example.org" if hop == 0 else f"relay{dice.below(9)}.{dice.pick(HAM_HOSTS)}"
        hops.append(
            f"Received: from {name} ({name} [{address}])\n\tby {to} with ESMTP id {dice.bits(32):08x};"
            f"\n\t{_date(epoch)}"
        )
        epoch -= dice.below(40)
        name = f"{coin(dice.below(5000))}.{host}"
    return hops


def render(letter: Letter, dice: Dice, language: str, epoch: int) -> bytes:
    """Return the bytes of a message."""
    charset = _CHARSETS[language] if dice.chance(0.35) else "utf-8"
    lines = _received(dice, letter.sender.host, epoch)
    lines += [
        f"From: {letter.address}",
        f"To: {dice.pick(words.NAMES).lower()}@example.org",
        f"Subject: {_header_text(letter.subject, charset)}",
        f"Date: {_date(epoch - dice.below(120))}",
        f"Message-ID: <{dice.bits(64):016x}@{letter.sender.host}>",
        *letter.extra,
        f"X-Mailer: {letter.sender.mailer}",
        f"X-Synthetic: {_NOTICE}",
        "MIME-Version: 1.0",
    ]
    return ("\n".join(lines) + "\n").encode("ascii") + _content(letter, dice, charset)
