"""Reader of a person's mail on disk: Maildir++, nested Maildirs and mbox files, with folders, flags and keywords.

The label of a message depends on its folder: spam in Junk or Spam, good elsewhere. Keywords such as ``$Junk`` take
precedence. Sent mail, drafts and trash have no label and are left out. Messages of a Maildir are read in place, even if
a mail program renames them in the meantime; an mbox is copied to a temporary file.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from surebayes.datasets.opening import compression_of, decompressed
from surebayes.datasets.sources import Source
from surebayes.errors import BadInput, NoInput
from surebayes.kernels import kernel
from surebayes.mail.headers import Headers
from surebayes.mail.plain import MAX_BYTES
from surebayes.mail.score_headers import header_block

JUNK = ("junk", "spam", "junk e-mail", "junk email", "junk mail", "bulk mail", "bulk")
"""Names of spam folders, in lower case."""
LEFT_OUT = (
    "trash", "deleted items", "deleted messages", "sent", "sent items", "sent messages", "sent mail", "drafts",
    "templates", "outbox", "unsent messages", "archived drafts",
)  # fmt: skip
"""Names of folders without labels, in lower case."""
STORE_FIELDS = (
    b"status:", b"x-status:", b"x-keywords:", b"keywords:", b"x-mozilla-", b"x-uid", b"x-imap", b"content-length:",
    b"x-gmail-labels:", b"x-gm-thrid:",
)  # fmt: skip
"""Prefixes of the header fields in which mail programs record flags, folders and keywords."""

_INFO = re.compile(r"[:;!]2,([A-Za-z]*)\Z")
_SECONDS = re.compile(r"(\d{9,10})\.")
_PARTS = re.compile(r"[/.]")
_SUFFIX = re.compile(r"\.mbox(?:\.[a-z0-9]{1,4})?\Z")
_SPAM_WORDS = frozenset({"$junk", "junk", "spam"})
_GOOD_WORDS = frozenset({"$notjunk", "notjunk", "nonjunk", "$nonjunk"})
_GONE_WORDS = {"trash": "deleted", "sent": "sent", "drafts": "draft"}
_EXPUNGED = 0x8


class MailFolder(NamedTuple):
    """A folder: its name, its path, whether it is a Maildir, and its label (None if it is left out)."""

    name: str
    path: str
    is_maildir: bool
    label: str | None


class StoredMessage(NamedTuple):
    """A message in a store.

    Attributes
    ----------
    folder : int
        Index of its folder in `MailStore.folders`.
    name : str
        Name of its file relative to the folder, or its number in an mbox.
    label : {"ham", "spam"}
        Its label, by keyword if it has one, else by folder.
    read : bool
        Whether it has been opened, answered, forwarded or flagged.
    start, size : int
        Its offset and length in the temporary copy of mboxes.
    """

    folder: int
    name: str
    label: str
    read: bool
    start: int = 0
    size: int = 0


class _Flags(NamedTuple):
    label: str | None = None
    read: bool = False
    left_out: str | None = None


class MailStore:
    r"""A store of mail: a Maildir with its folders, a tree of Maildirs and mbox files, or a single mbox.

    Parameters
    ----------
    path : str
        Path of the folder or mbox.
    junk, leave_out : collection of str
        Further names of spam folders, and of folders without labels; case doesn't matter.
    skipped : callable, optional
        Called with an error message for each unreadable file.

    Attributes
    ----------
    folders : list of MailFolder
        The folders, sorted by name.
    left_out : Counter
        Numbers of messages without a label, by reason; complete after iteration.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as home:
    ...     for name, mail in (("cur/1.a:2,S", b"Subject: lunch\n\n"), (".Junk/new/2.b", b"Subject: pills\n\n")):
    ...         place = pathlib.Path(home, name).parent
    ...         for part in ("cur", "new"):
    ...             place.with_name(part).mkdir(parents=True, exist_ok=True)
    ...         _ = pathlib.Path(home, name).write_bytes(mail)
    ...     with MailStore(home) as store:
    ...         [(store.folders[m.folder].name, m.label, m.read, raw) for m, raw in store]
    [('INBOX', 'ham', True, b'Subject: lunch\n\n'), ('Junk', 'spam', False, b'Subject: pills\n\n')]
    """

    def __init__(
        self,
        path: str,
        junk: Collection[str] = (),
        leave_out: Collection[str] = (),
        skipped: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        if not os.path.exists(path):
            raise NoInput(f"{path} does not exist.")
        self._names = {name.lower(): None for name in (*LEFT_OUT, *leave_out)} | dict.fromkeys(JUNK, "spam")
        self._names |= dict.fromkeys(map(str.lower, junk), "spam") | dict.fromkeys(map(str.lower, leave_out))
        self.path, self.skipped, self.left_out = path, skipped, Counter[str]()
        self.folders = sorted(self._find(path))
        self._copies = tempfile.TemporaryFile(prefix="surebayes-")  # noqa: SIM115 - closed with the store
        self._end = 0
        if not self.folders:
            raise NoInput(f"{path} contains neither a Maildir (a folder with cur and new) nor an mbox.")

    def __enter__(self) -> MailStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Delete the temporary copy."""
        self._copies.close()

    def __iter__(self) -> Iterator[tuple[StoredMessage, bytes]]:
        """Yield labelled messages with their content, folder by folder."""
        self.left_out.clear()
        for number, folder in enumerate(self.folders):
            found = self._maildir(number, folder) if folder.is_maildir else self._mbox(number, folder)
            yield from found

    def __len__(self) -> int:
        """Return the number of messages in Maildirs, without those in mboxes."""
        return sum(1 for folder in self.folders if folder.is_maildir for _ in _files(folder.path, self.skipped))

    def read(self, message: StoredMessage) -> bytes | None:
        """Return the content of a message, even if its flags have changed; None if it was deleted."""
        folder = self.folders[message.folder]
        if not folder.is_maildir:
            self._copies.seek(message.start)
            return self._copies.read(message.size)
        for _ in range(2):
            try:
                return _content(self.file(message))
            except FileNotFoundError:
                stem = _INFO.sub("", os.path.basename(message.name))
                for entry in _files(folder.path, self.skipped):
                    if _INFO.sub("", entry.name) == stem:
                        try:
                            return _content(entry.path)
                        except FileNotFoundError:  # renamed once more
                            break
            except (OSError, BadInput):
                return None
        return None

    def file(self, message: StoredMessage) -> str:
        """Return the path of a message's file, or the path of its mbox followed by "#" and its number."""
        folder = self.folders[message.folder]
        return os.path.join(folder.path, message.name) if folder.is_maildir else f"{folder.path}#{message.name}"

    def delivered(self, message: StoredMessage) -> float | None:
        """Return the delivery time in the file name of a Maildir's message, in seconds since 1970; None without one."""
        seconds = _SECONDS.match(os.path.basename(message.name))
        return float(seconds[1]) if seconds else None

    # ---- folders

    def _find(self, path: str) -> Iterator[MailFolder]:
        waiting = [path]
        while waiting:
            place = waiting.pop()
            if not os.path.isdir(place):
                if _is_mbox(place):
                    yield self._folder(place, False)
                continue
            is_maildir = all(os.path.isdir(os.path.join(place, name)) for name in ("cur", "new"))
            if is_maildir:
                yield self._folder(place, True)
            try:
                with os.scandir(place) as listing:
                    entries = list(listing)
            except OSError as error:
                self.skipped(f"The folder {place} can't be read: {error.strerror}.")
                continue
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if not (is_maildir and entry.name in ("cur", "new", "tmp")):
                        waiting.append(entry.path)
                elif not is_maildir and entry.is_file() and not entry.name.startswith("."):
                    waiting.append(entry.path)

    def _folder(self, path: str, is_maildir: bool) -> MailFolder:
        inside = os.path.relpath(path, self.path) if path != self.path else ""
        parts = [part for part in _PARTS.split(_SUFFIX.sub("", inside).replace(".sbd/", "/")) if part]
        if parts[:1] == ["INBOX"] and len(parts) > 1:
            parts = parts[1:]
        label: str | None = "ham"
        for part in parts or [_SUFFIX.sub("", os.path.basename(os.path.abspath(path)))]:
            label = self._names.get(part.lower(), label)
            if label is None:
                break
        name = "/".join(parts) or ("INBOX" if is_maildir else os.path.basename(path))
        return MailFolder(name, path, is_maildir, label)

    # ---- messages

    def _maildir(self, number: int, folder: MailFolder) -> Iterator[tuple[StoredMessage, bytes]]:
        words = _keywords(folder.path)
        for entry in _files(folder.path, self.skipped):
            info = _INFO.search(entry.name)
            flags = info[1] if info else ""
            named = {words[letter] for letter in flags if letter in words}
            name = os.path.relpath(entry.path, folder.path)
            message = self._labelled(number, folder, name, _flags_of(named, "T" in flags, "D" in flags, flags))
            if message is None:
                continue
            try:
                yield message, _content(entry.path)
            except FileNotFoundError:  # renamed or deleted since the folder was listed
                raw = self.read(message)
                if raw is not None:
                    yield message, raw
            except (OSError, BadInput) as error:
                reason = getattr(error, "strerror", None) or str(error)
                self.left_out["unreadable"] += 1
                self.skipped(f"{entry.path} can't be read: {reason.rstrip('.')}.")

    def _mbox(self, number: int, folder: MailFolder) -> Iterator[tuple[StoredMessage, bytes]]:
        for place, document in enumerate(Source(folder.path, format="mbox", skip_bad=self.skipped), 1):
            raw = document.content
            assert isinstance(raw, bytes)
            message = self._labelled(number, folder, str(place), _flags_in(header_block(raw)))
            if message is not None:
                self._copies.seek(self._end)
                self._copies.write(raw)
                message = message._replace(start=self._end, size=len(raw))
                self._end += len(raw)
                yield message, raw

    def _labelled(self, number: int, folder: MailFolder, name: str, flags: _Flags) -> StoredMessage | None:
        """Return a message with its label; if it has none, count it as left out and return None."""
        reason = flags.left_out or (None if folder.label else f"in {folder.name}")
        if reason is not None:
            self.left_out[reason] += 1
            return None
        return StoredMessage(number, name, flags.label or folder.label or "ham", flags.read)


def _content(path: str) -> bytes:
    """Read the analysed part of a message, plus one byte if there is more."""
    with open(path, "rb") as file:
        content = file.read(MAX_BYTES + 1)
        if compression := compression_of(content):
            file.seek(0)
            content = decompressed(file, compression, path).read(MAX_BYTES + 1)
    return content


def _files(folder: str, skipped: Callable[[str], None]) -> Iterator[os.DirEntry[str]]:
    """Yield the message files of a Maildir, sorted by name."""
    for part in ("cur", "new"):
        try:
            with os.scandir(os.path.join(folder, part)) as listing:
                entries = [entry for entry in listing if not entry.name.startswith(".") and entry.is_file()]
        except OSError as error:
            skipped(f"The folder {os.path.join(folder, part)} can't be read: {error.strerror}.")
            continue
        yield from sorted(entries, key=lambda entry: entry.name)


def _is_mbox(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            start = file.read(4096)
            if compression := compression_of(start):
                file.seek(0)
                start = decompressed(file, compression, path).read(4096)
    except (OSError, BadInput):
        return False
    return bool(kernel("mail").is_from_line(start.lstrip(b"\r\n"), 0))


def _keywords(folder: str) -> dict[str, str]:
    """Return the keywords that Dovecot assigns to the lower-case letters in a Maildir's flags."""
    try:
        with open(os.path.join(folder, "dovecot-keywords"), encoding="utf-8", errors="replace") as lines:
            numbered = [line.split(None, 1) for line in lines]
    except OSError:
        return {}
    return {
        chr(ord("a") + int(pair[0])): pair[1].strip().lower()
        for pair in numbered
        if len(pair) == 2 and pair[0].isascii() and pair[0].isdigit() and int(pair[0]) < 26
    }


def _flags_of(words: Collection[str], deleted: bool, draft: bool, flags: str) -> _Flags:
    """Interpret flags and keywords; contradictory keywords are ignored."""
    is_spam, is_good = bool(_SPAM_WORDS & set(words)), bool(_GOOD_WORDS & set(words))
    label = None if is_spam == is_good else "spam" if is_spam else "ham"
    left_out = "deleted" if deleted else "draft" if draft else None
    return _Flags(label, any(letter in "SRFP" for letter in flags), left_out)


def _flags_in(head: Headers) -> _Flags:
    r"""Return the flags of a message in an mbox, from the header fields that mail programs add.

    Examples
    --------
    >>> _flags_in(Headers.read(b"Status: RO\nX-Keywords: $Junk\n\n"))
    _Flags(label='spam', read=True, left_out=None)
    >>> _flags_in(Headers.read(b"X-Gmail-Labels: Trash,Unread\n\n")).left_out
    'deleted'
    """
    letters = (head.get("Status") or "") + (head.get("X-Status") or "")
    words = " ".join(head.get(name) or "" for name in ("X-Keywords", "Keywords", "X-Mozilla-Keys")).lower()
    labels = [name.strip().lower() for name in (head.get("X-Gmail-Labels") or "").split(",")]
    mozilla = head.get("X-Mozilla-Status") or "0"
    bits = int(mozilla, 16) if re.fullmatch(r"[0-9A-Fa-f]{1,8}", mozilla) else 0
    flags = _flags_of(
        {word.strip(",") for word in words.split()} | {name for name in labels if name == "spam"},
        "D" in letters or bool(bits & _EXPUNGED),
        "T" in letters,
        "S" if set(letters) & set("RAF") or bits & 1 or "opened" in labels else "",
    )
    return flags._replace(left_out=flags.left_out or next((_GONE_WORDS[n] for n in labels if n in _GONE_WORDS), None))
