"""Documents from every place where people keep them."""

import json
import mailbox
import os
import pickle
import resource

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from command_line import Stdin
from surebayes.datasets.sources import Source, SourceDocument, Sources, guess_format
from surebayes.errors import BadInput, NoInput
from surebayes.mail import readers
from surebayes.mail.message import MAX_BYTES

try:
    from surebayes.kernels import _mail as kernel
except ImportError:
    kernel = None

FROM = b"From ann@example.org Thu Jan  1 12:00:00 2026\n"


def contents(source):
    return [document.content for document in source]


# ---------------------------------------------------------------------- folders


def test_maildir_gives_new_and_cur_in_the_order_of_names_and_never_tmp(tmp_path):
    box = mailbox.Maildir(tmp_path / "box", create=True)
    box.add(b"Subject: one\n\nfirst")
    (tmp_path / "box" / "cur" / "0000000001.a.host:2,S").write_bytes(b"seen")
    (tmp_path / "box" / "tmp" / "half").write_bytes(b"half written")
    (tmp_path / "box" / ".Sent" / "cur").mkdir(parents=True)
    (tmp_path / "box" / ".Sent" / "cur" / "x").write_bytes(b"another folder")
    assert guess_format(tmp_path / "box") == "maildir"
    assert contents(Source(tmp_path / "box", "ham")) == [b"seen", b"Subject: one\n\nfirst"]


def test_mh_folder_goes_by_number(tmp_path):
    box = mailbox.MH(tmp_path / "inbox", create=True)
    for k in range(11):
        box.add(f"Subject: {k}\n\n".encode())
    box.close()
    assert guess_format(tmp_path / "inbox") == "mh"
    names = [os.path.basename(document.name) for document in Source(tmp_path / "inbox")]
    assert names == [str(k) for k in range(1, 12)]


def test_mh_folder_without_what_it_deleted_and_files_of_others(tmp_path):
    for name in ("1", "2", ",3", "#4", "notes.txt", "backup~", "sub/7", "sub/,8"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    assert guess_format(tmp_path) == "mh"  # deleted messages tell, also without a list of sequences
    assert contents(Source(tmp_path)) == [b"1", b"2", b"sub/7"]
    (tmp_path / ".mh_sequences").write_text("unseen: 2\n")
    (tmp_path / ",3").unlink()
    (tmp_path / "#4").unlink()
    assert contents(Source(tmp_path)) == [b"1", b"2", b"sub/7"]


def test_source_without_documents_is_an_error_or_a_word(tmp_path):
    with pytest.raises(NoInput, match="has no documents of the class 'ham'"):
        list(Sources([Source(tmp_path, "ham")]))
    sentences = []
    assert list(Sources([Source(tmp_path, "ham")], sentences.append)) == []
    assert sentences == [f"{tmp_path} has no documents of the class 'ham'."]


def test_folder_is_walked_by_name_without_hidden_files_and_special_ones(tmp_path):
    for name in ("b", "a", "c/d", "c/a", ".hidden", "c/.DS_Store"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    os.mkfifo(tmp_path / "pipe")  # to open it would wait for ever
    (tmp_path / "c" / "circle").symlink_to(tmp_path)
    assert contents(Source(tmp_path)) == [b"a", b"b", b"c/a", b"c/d"]


def test_dangling_link_is_said_or_left_out(tmp_path):
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "b").symlink_to(tmp_path / "nothing")
    with pytest.raises(BadInput, match="b is a link to a missing file"):
        list(Source(tmp_path))
    skipped = []
    assert contents(Source(tmp_path, skip_bad=skipped.append)) == [b"a"]
    assert len(skipped) == 1


def test_unreadable_file_is_named(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "b").write_bytes(b"b")
    real = open

    def refuse(path, *args, **kwargs):
        if str(path).endswith("a"):
            raise PermissionError(13, "Permission denied", path)
        return real(path, *args, **kwargs)

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(BadInput, match="a can't be read: Permission denied"):
        list(Source(tmp_path))
    skipped = []
    assert contents(Source(tmp_path, skip_bad=skipped.append)) == [b"b"]
    assert "Permission denied" in skipped[0]


def test_empty_source_names_its_class(tmp_path):
    (tmp_path / "spam").mkdir()
    with pytest.raises(NoInput, match="has no documents of the class 'spam'"):
        list(Sources([Source(tmp_path / "spam", "spam")]))


def test_what_is_not_there_is_said(tmp_path):
    with pytest.raises(NoInput, match="No such file or folder"):
        list(Source(tmp_path / "nothing"))


def test_two_thousand_files_in_a_folder(tmp_path):
    for k in range(2000):
        (tmp_path / f"{k:06d}").write_bytes(b"%d" % k)
    source = Source(tmp_path, "ham")
    assert [int(content) for content in contents(source)] == list(range(2000))
    assert source.bytes() == sum(len(str(k)) for k in range(2000))


@pytest.mark.slow
def test_a_hundred_thousand_files_in_a_folder(tmp_path):
    for k in range(100_000):
        (tmp_path / f"{k:06d}").write_bytes(b"%d" % k)
    assert sum(1 for _ in Source(tmp_path)) == 100_000


# ---------------------------------------------------------------------- mailboxes


def test_mbox_is_cut_as_the_standard_library_cuts_it(tmp_path):
    box = mailbox.mbox(tmp_path / "box.mbox")
    mails = [b"Subject: %d\n\nbody\nFrom here on\nend\n" % k for k in range(20)]
    for mail in mails:
        box.add(mail)
    box.close()
    documents = list(Source(tmp_path / "box.mbox", "ham"))
    assert [document.content.rstrip(b"\n") for document in documents] == [mail.rstrip(b"\n") for mail in mails]
    assert documents[3].name == f"{tmp_path / 'box.mbox'}#4"
    assert sum(document.size for document in documents) == (tmp_path / "box.mbox").stat().st_size


def test_pairs_are_the_documents_without_their_names(tmp_path):
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "one").write_bytes(b"Subject: one\n\nfirst")
    many = b"".join(FROM + b"Subject: %d\n\nbody\n\n" % k for k in range(3000))  # more than one block
    for name in ("files/inner.mbox", "box.mbox", "mailbox"):
        (tmp_path / name).write_bytes(many)
    (tmp_path / "t.csv").write_text("text,label\nhello,a\nworld,b\n")
    sources = [Source(tmp_path / name, "ham") for name in ("files", "box.mbox", "mailbox", "files/one")]
    everything = Sources([*sources, Source(tmp_path / "t.csv")])
    pairs = list(everything.pairs())
    assert pairs == [(document.content, document.label) for document in everything]
    assert len(pairs) == 3 * 3000 + 4
    (tmp_path / "empty.mbox").write_bytes(b"")
    with pytest.raises(NoInput, match="has no documents of the class 'ham'"):
        list(Sources([Source(tmp_path / "empty.mbox", "ham")]).pairs())


def test_sources_are_values():
    source = Source("a.csv", "ham", skip_bad=print)
    assert source == Source("a.csv", "ham") == source.replace(label="spam").replace(label="ham")
    assert hash(source) == hash(Source("a.csv", "ham"))
    assert source != Source("a.csv", "spam")
    assert pickle.loads(pickle.dumps(source)).skip_bad is print
    assert repr(source).startswith("Source(path='a.csv', label='ham', format='auto'")
    with pytest.raises(AttributeError, match="is immutable"):
        source.label = "spam"
    with pytest.raises(ValueError, match="format must be one of auto, file"):
        Source("a.csv", format="tsv")


def test_quoted_from_lines_lose_one_quote(tmp_path):
    path = tmp_path / "box.mbox"
    path.write_bytes(FROM + b"Subject: x\n\n>From me\n>>From you\n> From is no quote\n\n")
    assert contents(Source(path)) == [b"Subject: x\n\nFrom me\n>From you\n> From is no quote\n"]


@settings(max_examples=60)
@given(
    bodies=st.lists(st.text("abF \n>\r", max_size=300).map(lambda t: t.replace("From ", "from ").encode()), max_size=6),
    block=st.integers(1, 64),
)
def test_mbox_does_not_depend_on_where_blocks_end(tmp_path_factory, bodies, block):
    path = tmp_path_factory.mktemp("box") / "box.mbox"
    path.write_bytes(b"".join(FROM + b"Subject: x\n\n" + body + b"\n\n" for body in bodies))
    whole = contents(Source(path))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("surebayes.datasets.sources._BLOCK", block)
        assert contents(Source(path)) == whole
    assert len(whole) == len(bodies)


@pytest.mark.skipif(kernel is None, reason="the kernel is not built")
@settings(max_examples=500)
@given(
    st.lists(
        st.sampled_from((b"\n", b">", b"From ", b"From", b"F", b" ", b"a", b"\r", b"\n" + FROM, b"x" * 480)),
        max_size=30,
    ).map(b"".join),
    st.lists(st.integers(0, 400), min_size=2, max_size=2).map(sorted),
    st.booleans(),
    st.sampled_from((0, 3, 1000)),
    st.booleans(),
)
def test_kernel_and_reader_cut_a_mailbox_alike(block, places, quoted, kept, last):
    begin, place = (min(place, len(block)) for place in places)
    in_c = kernel.mailbox_messages(block, begin, place, quoted, kept, last)
    assert in_c == readers.mailbox_messages(block, begin, place, quoted, kept, last)
    found, at, look, _ = in_c
    assert begin + sum(size for _, size in found) == at <= look <= len(block)


@pytest.mark.parametrize("functions", [readers] if kernel is None else [readers, kernel])
def test_places_outside_a_block_are_refused(functions):
    for begin, place, kept in ((-1, 0, 10), (2, 1, 10), (0, 4, 10), (4, 4, 10), (0, 0, -1)):
        with pytest.raises(ValueError, match="must be in the block"):
            functions.mailbox_messages(b"abc", begin, place, False, kept, False)


@pytest.mark.skipif(kernel is None, reason="the kernel is not built")
@settings(max_examples=300)
@given(
    st.lists(st.sampled_from([b"From ", b"1", b"9:30", b":", b"2026", b" ", b"_", b"a\n", b"x" * 450]), max_size=12),
    st.sampled_from((0, 0, 1, 5, 1000)),
)
def test_kernel_and_reader_know_the_same_lines_that_start_a_message(parts, place):
    block = b"From " + b"".join(parts)
    assert kernel.is_from_line(block, place) == readers.is_from_line(block, place)


@pytest.mark.skipif(kernel is None, reason="the kernel is not built")
def test_the_kernel_finds_from_lines_in_bytes_only():
    for wrong in [("a\nFrom ", 0), (b"a", "0"), (b"a",)]:
        with pytest.raises(TypeError):
            kernel.is_from_line(*wrong)
        with pytest.raises(TypeError):
            kernel.mailbox_messages(wrong[0], *wrong[1:], 0, False, 10, False)


def test_mbox_message_of_any_size_is_held_in_part_only(tmp_path):
    path = tmp_path / "box.mbox"
    with path.open("wb") as file:
        file.write(FROM + b"Subject: huge\n\n")
        for _ in range(60):
            file.write(b"x" * 2**20 + b"\n")
        file.write(b"\n" + FROM + b"Subject: small\n\nbody\n")
    huge, small = Source(path)
    assert len(huge.content) == MAX_BYTES + 1
    assert small.content == b"Subject: small\n\nbody\n"
    assert huge.size + small.size == path.stat().st_size


def test_a_file_that_is_no_mailbox_is_not_cut(tmp_path):
    letter = tmp_path / "letter"
    letter.write_bytes(b"From the sea we came.\n\nFrom there to here.\n")
    assert contents(Source(letter)) == [letter.read_bytes()]
    wrong = tmp_path / "wrong.mbox"
    wrong.write_bytes(b"Subject: x\n\nbody")
    with pytest.raises(BadInput, match="is not a mailbox"):
        list(Source(wrong))


def test_standard_input_is_one_message_or_a_mailbox(monkeypatch):
    monkeypatch.setattr("sys.stdin", Stdin(b"Subject: one\n\nbody"))
    assert list(Source("-")) == [SourceDocument("standard input", b"Subject: one\n\nbody", None, 18)]
    monkeypatch.setattr("sys.stdin", Stdin(FROM + b"Subject: a\n\nx\n\n" + FROM + b"Subject: b\n\ny\n"))
    assert contents(Source("-")) == [b"Subject: a\n\nx\n", b"Subject: b\n\ny\n"]
    monkeypatch.setattr("sys.stdin", Stdin(b""))
    with pytest.raises(NoInput, match="No document on standard input"):
        list(Source("-"))


def test_two_gigabytes_are_read_in_bounded_memory(tmp_path):
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.truncate(2 * 2**30)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (document,) = Source(huge)
    assert len(document.content) == MAX_BYTES + 1
    table = tmp_path / "huge.csv"
    huge.rename(table)
    with pytest.raises(BadInput, match="line 1 is longer than 64 MB"):
        list(Source(table))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400 * 1024


# ---------------------------------------------------------------------- tables


def test_csv_with_quotes_line_ends_and_a_byte_order_mark(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes('\ufeffid,text,label\r\n1,"a, ""b""\nc",x\r\n2,ü,y\r\n'.encode())
    assert [(d.content, d.label) for d in Source(path)] == [('a, "b"\nc', "x"), ("ü", "y")]


def test_tsv_takes_a_lone_quote_for_a_letter(tmp_path):
    path = tmp_path / "sms.tsv"
    path.write_text('label\ttext\nham\the said "yes\nspam\tfree\n')
    assert contents(Source(path)) == ['he said "yes', "free"]


def test_table_without_header_goes_by_number(tmp_path):
    path = tmp_path / "sms.tsv"
    path.write_text("ham\tsee you\nspam\tfree\n")
    source = Source(path, header=False, text="2", label_column="1")
    assert [(d.label, d.content) for d in source] == [("ham", "see you"), ("spam", "free")]
    with pytest.raises(BadInput, match="must be a column number"):
        list(Source(path, header=False))


def test_missing_label_names_the_row_and_the_line(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('text,label\n"two\nlines",x\nfine,y\nmissing,\n')
    with pytest.raises(BadInput, match=r"t.csv, row 3 \(line 5\) has no label in 'label'.*--skip-bad"):
        list(Source(path))
    skipped = []
    assert contents(Source(path, skip_bad=skipped.append)) == ["two\nlines", "fine"]
    assert "row 3" in skipped[0]
    assert contents(Source(path, labelled=False)) == ["two\nlines", "fine", "missing"]


def test_short_row_has_no_label(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("text,label\nonly text\n")
    with pytest.raises(BadInput, match="row 1"):
        list(Source(path))


def test_unknown_column_names_those_there_are(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("body,labels\nx,y\n")
    with pytest.raises(BadInput, match=r"no column 'text'; it has body, labels. Choose one with --text"):
        list(Source(path))
    with pytest.raises(BadInput, match=r"no column 'label'.*did you mean 'labels'"):
        list(Source(path, text="body"))


def test_broken_utf8_names_line_and_byte(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"text,label\nok,x\ncaf\xe9,y\n")
    with pytest.raises(BadInput, match=r"line 3: byte 0xe9 at position 4 is not utf-8.*--encoding latin-1"):
        list(Source(path))
    assert contents(Source(path, encoding="latin-1")) == ["ok", "café"]
    with pytest.raises(BadInput, match="Unknown encoding 'klingon'"):
        list(Source(path, encoding="klingon"))


def test_binary_junk_as_a_table_is_an_error_not_a_crash(tmp_path):
    path = tmp_path / "junk.csv"
    path.write_bytes(bytes(range(256)) * 50)
    with pytest.raises(BadInput):
        list(Source(path))
    for suffix in ("jsonl", "parquet"):
        other = path.rename(tmp_path / f"junk.{suffix}")
        with pytest.raises(BadInput):
            list(Source(other))
        path = other


def test_json_lines(tmp_path):
    path = tmp_path / "t.jsonl"
    rows = [{"text": "a", "label": 1}, {"text": "b", "label": 2.0}, {"text": "c", "label": True}]
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n\n")
    assert [(d.content, d.label) for d in Source(path)] == [("a", "1"), ("b", "2"), ("c", "true")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{broken", "line 2 is not valid JSON"),
        ("[1]", "line 2 is not a JSON object but a list"),
        ('{"text": 5, "label": "x"}', "line 2 has a int instead of a text"),
        ('{"text": "a"}', "line 2 has no label"),
        ('{"body": "a", "label": "x"}', "line 2 has no column 'text'"),
    ],
)
def test_bad_json_line_is_named(tmp_path, line, message):
    path = tmp_path / "t.jsonl"
    path.write_text('{"text": "fine", "label": "x"}\n' + line + "\n")
    with pytest.raises(BadInput, match=message):
        list(Source(path))


def test_parquet(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "t.parquet"
    table = arrow.table({"text": [b"raw", b"more", b"last"], "label": ["x", "y", None]})
    parquet.write_table(table, path)
    with pytest.raises(BadInput, match="row 3 has no label"):
        list(Source(path))
    skipped = []
    documents = list(Source(path, skip_bad=skipped.append))
    assert [(d.content, d.label) for d in documents] == [(b"raw", "x"), (b"more", "y")]
    with pytest.raises(BadInput, match="no column 'body'; it has text, label"):
        list(Source(path, text="body"))


# ---------------------------------------------------------------------- several


def test_labels_come_in_the_order_of_sources_then_sorted(tmp_path):
    for name in ("spam", "ham"):
        (tmp_path / name).write_text(name)
    (tmp_path / "t.csv").write_text("text,label\na,z\nb,ham\nc,k\n")
    several = Sources([Source(tmp_path / "spam", "spam"), Source(tmp_path / "ham", "ham"), Source(tmp_path / "t.csv")])
    assert several.labels() == ["spam", "ham", "k", "z"]
    assert several.counts() == {"spam": 1, "ham": 2, "z": 1, "k": 1}


def test_bytes_are_unknown_for_standard_input(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    assert Source(tmp_path / "a").bytes() == 3
    assert Sources([Source(tmp_path / "a"), Source("-")]).bytes() is None


def test_unknown_format_is_refused():
    with pytest.raises(ValueError, match="must be one of auto, file"):
        Source("x", format="zip")


def test_lists_of_labels(tmp_path):
    table = tmp_path / "t.jsonl"
    rows = [{"text": "a", "label": ["gold", "acq"]}, {"text": "b", "label": []}, {"text": "c", "label": ["acq"]}]
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    several = Source(table, multilabel=True)
    assert [document.label for document in several] == [("acq", "gold"), (), ("acq",)]
    assert Sources([several]).counts() == {"acq": 2, "gold": 1}
    assert Sources([several]).labels() == ["acq", "gold"]
    with pytest.raises(BadInput, match="line 1 has 2 labels in 'label' where one is expected"):
        list(Source(table))
    left_out = []
    assert [document.label for document in Source(table, skip_bad=left_out.append)] == ["acq"]
    assert len(left_out) == 2
