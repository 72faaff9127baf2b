"""Stores of mail: folders, flags and keywords, in Maildirs and mbox files."""

import gzip
import mailbox
import os

import pytest
from hypothesis import given, settings

from strategies import stored_messages
from surebayes.datasets.mail_store import STORE_FIELDS, MailStore
from surebayes.errors import NoInput
from surebayes.mail.readers import without_fields

RAW = b"From: ann@example.org\nSubject: %d\n\ntext\n"


def put(root, folder, name, raw=RAW % 0):
    place = root / folder
    for part in ("cur", "new", "tmp"):
        (place / part).mkdir(parents=True, exist_ok=True)
    (place / name).write_bytes(raw)


def read(root, **options):
    sentences = []
    with MailStore(os.fspath(root), skipped=sentences.append, **options) as store:
        found = [(store.folders[m.folder].name, m.label, m.read, raw) for m, raw in store]
        assert all(store.read(m) == raw for m, raw in store)
        return found, store.left_out, sentences


@settings(max_examples=40, deadline=None)
@given(stored_messages)
def test_folders_flags_and_keywords_give_the_labels(tmp_path_factory, messages):
    """Against a table of rules, with Dovecot's list of keywords."""
    root = tmp_path_factory.mktemp("mail")
    expected = []
    for k, (folder, letters, is_new) in enumerate(messages):
        raw, name = RAW % k, f"new/17000{k:05d}.x" if is_new else f"cur/17000{k:05d}.x:2,{letters}"
        put(root, folder, name, raw)
        (root / folder / "dovecot-keywords").write_text("0 $Junk\n1 NonJunk\n")
        letters = "" if is_new else letters
        by_folder = {"J": "spam", "S": "spam"}.get(folder[1:2], "ham") if folder != ".Sent" else None
        by_folder = None if folder in (".Trash", ".INBOX.Drafts") else by_folder
        label = by_folder
        if ("a" in letters) != ("b" in letters):
            label = "spam" if "a" in letters else "ham"
        if by_folder and not set(letters) & set("TD"):
            expected.append((label, bool(set(letters) & set("SRFP")), raw))
    found, left_out, sentences = read(root)
    assert sorted(each[1:] for each in found) == sorted(expected)
    assert sum(left_out.values()) >= len(messages) - len(expected)
    assert not sentences


@pytest.mark.parametrize("box", ["Junk", "spam.mbox", "Mail/Junk.sbd/old", "Bulk.mbox.gz"])
def test_mbox_files_are_folders(tmp_path, box):
    place = tmp_path / "store" / box
    place.parent.mkdir(parents=True)
    (tmp_path / "store" / "inbox").write_bytes(b"")
    (tmp_path / "store" / "notes.txt").write_bytes(b"no mail")
    plain = tmp_path / "plain"
    mails = mailbox.mbox(plain)
    for k in range(3):
        mails.add(mailbox.mboxMessage(RAW % k))
    mails.close()
    content = plain.read_bytes()
    place.write_bytes(gzip.compress(content) if box.endswith(".gz") else content)
    found, _, _ = read(tmp_path / "store")
    assert [(label, raw.strip()) for _, label, _, raw in found] == [("spam", (RAW % k).strip()) for k in range(3)]
    alone = "ham" if box.endswith("old") else "spam"  # one file, by its own name
    assert [each[1] for each in read(place)[0]] == [alone] * 3


@pytest.mark.parametrize(
    ("fields", "label", "is_read", "left_out"),
    [
        (b"Status: RO\n", "ham", True, None),
        (b"Status: O\n", "ham", False, None),
        (b"X-Status: A\n", "ham", True, None),
        (b"X-Status: DF\n", None, None, "deleted"),
        (b"X-Status: T\n", None, None, "draft"),
        (b"X-Keywords: $Junk work\n", "spam", False, None),
        (b"X-Keywords: $Junk NonJunk\n", "ham", False, None),
        (b"X-Mozilla-Status: 0001\n", "ham", True, None),
        (b"X-Mozilla-Status: 0009\n", None, None, "deleted"),
        (b"X-Mozilla-Status: zebra\n", "ham", False, None),
        (b"X-Gmail-Labels: Spam,Unread\n", "spam", False, None),
        (b"X-Gmail-Labels: Inbox,Opened\n", "ham", True, None),
        (b"X-Gmail-Labels: Sent\n", None, None, "sent"),
    ],
)
def test_flags_within_messages_of_an_mbox(tmp_path, fields, label, is_read, left_out):
    (tmp_path / "inbox").write_bytes(b"From ann@example.org Thu Jan  1 12:00:00 2026\n" + fields + RAW % 1)
    found, without, _ = read(tmp_path)
    if left_out:
        assert not found
        assert dict(without) == {left_out: 1}
    else:
        assert [each[1:3] for each in found] == [(label, is_read)]
    assert without_fields(fields + RAW % 1, STORE_FIELDS) == RAW % 1


def test_names_of_further_folders(tmp_path):
    for folder in (".Werbung", ".Old", ".Spam"):
        put(tmp_path, folder, "cur/1.x:2,S")
    found, left_out, _ = read(tmp_path, junk=["WERBUNG"], leave_out=["old", "spam"])
    assert [each[:2] for each in found] == [("Werbung", "spam")]
    assert sorted(left_out) == ["in Old", "in Spam"]


def test_messages_that_are_renamed_or_deleted_while_they_are_read(tmp_path):
    for k in range(3):
        put(tmp_path, "", f"new/{k}.x", RAW % k)
    with MailStore(os.fspath(tmp_path)) as store:
        messages = [message for message, _ in store]
        os.rename(tmp_path / "new" / "0.x", tmp_path / "cur" / "0.x:2,S")
        os.remove(tmp_path / "new" / "1.x")
        assert [store.read(message) for message in messages] == [RAW % 0, None, RAW % 2]
        walk = iter(store)
        next(walk)
        (tmp_path / "cur" / "0.x:2,S").rename(tmp_path / "cur" / "0.x:2,RS")
        assert [raw for _, raw in walk] == [RAW % 2]


def test_what_can_not_be_read_is_a_sentence(tmp_path):
    with pytest.raises(NoInput, match="does not exist"):
        MailStore(os.fspath(tmp_path / "none"))
    with pytest.raises(NoInput, match="contains neither a Maildir"):
        MailStore(os.fspath(tmp_path))
    put(tmp_path, "", "cur/1.x:2,S", b"\x1f\x8b\x08broken")
    put(tmp_path, "", "cur/2.x:2,S")
    os.symlink(tmp_path, tmp_path / ".Loop")
    os.symlink(tmp_path / "nowhere", tmp_path / "cur" / "3.x")
    found, left_out, sentences = read(tmp_path)
    assert len(found) == 1
    assert left_out["unreadable"] == 1
    assert all("1.x:2,S can't be read" in sentence for sentence in sentences)
