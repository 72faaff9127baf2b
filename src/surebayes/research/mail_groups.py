"""Groups of dependent messages, such as copies, near copies, threads and all messages of a sender."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from surebayes.guarantees.independent import Groups, numbered
from surebayes.guarantees.near_copies import Fingerprint, fingerprint, near_equal
from surebayes.mail.message import Message, fingerprint_of, read_message

BY = ("mail", "copies", "near", "thread", "sender")
"""Grouping criteria: none, equal text, nearly equal text, also by thread, also by sender."""
_RUN_WORDS, _MIN_RUNS = 4, 8
_WORD = re.compile(r"\w+")
_ID = re.compile(r"<([^<>\s]+)>")
_ADDRESS = re.compile(r"[^\s<>\"]+@[^\s<>\"]+")


class MailGroups:
    r"""Incremental grouping of messages; it stores a few hundred bytes per message.

    Parameters
    ----------
    by : str
        One of `BY`.

    Examples
    --------
    >>> mails = [b"Message-ID: <a@x>\n\nlunch at nine?", b"Message-ID: <b@x>\nIn-Reply-To: <a@x>\n\nyes"]
    >>> [MailGroups(by).add_all(mails).groups().tolist() for by in ("mail", "near", "thread")]
    [[0, 1], [0, 1], [0, 0]]
    """

    def __init__(self, by: str = "near") -> None:
        if by not in BY:
            raise ValueError(f"Messages can be grouped by {', '.join(BY)}. Got {by!r}.")
        self.by = by
        self._keys: list[list[Hashable]] = []
        self._fingerprints: list[Fingerprint | None] = []

    def add(self, raw: bytes) -> None:
        """Add a message."""
        message = read_message(raw) if self.by != "mail" else None
        self._keys.append([] if message is None else self._keys_of(message))
        if message is not None and self.by != "copies":
            runs = runs_of_words(f"{message.subject}\n{message.text}")
            self._fingerprints.append(None if runs is None else fingerprint(runs))

    def add_all(self, mails: Sequence[bytes]) -> MailGroups:
        """Add messages and return self."""
        for raw in mails:
            self.add(raw)
        return self

    def _keys_of(self, message: Message) -> list[Hashable]:
        text = f"{message.subject}\n{message.text}"
        keys: list[Hashable] = [("text", fingerprint_of(text))] if len(text) > _MIN_RUNS * _RUN_WORDS else []
        if self.by == "thread":
            keys += [("id", name) for name in thread_of(message)]
        elif self.by == "sender" and (sender := sender_of(message)):
            keys.append(("sender", sender))
        return keys

    def groups(self) -> Groups:
        """Return the group number of each message."""
        if self._fingerprints:
            near = near_equal(self._fingerprints).tolist()
            return connected([[*keys, ("near", group)] for keys, group in zip(self._keys, near)])
        return connected(self._keys)


def connected(keys: Sequence[Sequence[Hashable]]) -> Groups:
    """Return group numbers; items that share a key, directly or through further items, get the same number.

    Examples
    --------
    >>> connected([["a"], ["b", "a"], ["c"], ["d", "b"], []]).tolist()
    [0, 0, 1, 0, 2]
    """
    leader = list(range(len(keys)))

    def first_of(item: int) -> int:
        while leader[item] != item:
            leader[item] = leader[leader[item]]
            item = leader[item]
        return item

    seen: dict[Hashable, int] = {}
    for item, of_item in enumerate(keys):
        for key in of_item:
            low, high = sorted((first_of(seen.setdefault(key, item)), first_of(item)))
            leader[high] = low
    return numbered(map(first_of, range(len(keys))))


def runs_of_words(text: str) -> NDArray[np.uint32] | None:
    """Return hashes of a text's distinct runs of four words; None if the text is too short to be distinctive.

    Examples
    --------
    >>> len(runs_of_words("we meet at the lake at nine, and we meet at the office at ten")), runs_of_words("thanks!")
    (11, None)
    """
    words = _WORD.findall(text.lower())
    runs = {
        crc32(" ".join(words[i : i + _RUN_WORDS]).encode("utf-8", "replace"))
        for i in range(len(words) - _RUN_WORDS + 1)
    }
    return np.fromiter(sorted(runs), np.uint32) if len(runs) >= _MIN_RUNS else None


def thread_of(message: Message) -> list[str]:
    r"""Return the Message-ID of a message, followed by those of the messages that it answers.

    Examples
    --------
    >>> thread_of(read_message(b"Message-ID: <b@x>\nReferences: <a@x>\n\nyes"))
    ['b@x', 'a@x']
    """
    fields = "message-id", "references", "in-reply-to"
    return [name for field in fields for name in _ID.findall(message.headers.get(field) or "")]


def sender_of(message: Message) -> str:
    r"""Return the address in a message's From field; "" if there is none.

    Examples
    --------
    >>> sender_of(read_message(b"From: Anna <Anna@Example.org>\n\nyes"))
    'anna@example.org'
    """
    found = _ADDRESS.search(message.headers.get("from") or "")
    return "" if found is None else found.group().lower()
