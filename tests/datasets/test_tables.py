"""Tables: the registry, tab-separated values with and without quotes, UTF-16, arrays of JSON, kept columns."""

import csv
import gzip
import io
import json
import os
import pickle
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import TABLE_CELLS, TABLE_ROWS
from surebayes.datasets.opening import Spooled, is_read_once, open_input, shown, spooled
from surebayes.datasets.sources import FORMATS, Source, Sources, guess_format
from surebayes.datasets.tables import MAX_LINE, TABLE_SUFFIXES, TABLES, table_in
from surebayes.datasets.written_tables import TableWriter, written_as
from surebayes.errors import BadInput, NoInput
from surebayes.filter.quick import lessons


def documents(path, **options):
    return [(document.content, document.label) for document in Source(path, **options)]


# ---------------------------------------------------------------------- the registry


def test_everything_knows_the_formats_of_the_registry():
    assert set(TABLES) <= set(FORMATS)
    for format in TABLES.values():
        for suffix in format.suffixes:
            assert guess_format(f"x{suffix}") == guess_format(f"x{suffix.upper()}.gz") == format.name
            assert TABLE_SUFFIXES[suffix] == format.name
    assert set(lessons.TABLES) == set(TABLE_SUFFIXES)


def test_commands_have_an_option_for_each_format():
    from surebayes.cli import commands as cli
    from surebayes.cli.shared.command import walk

    takers = [words for words, command in walk(cli) if any("--text" in p.opts for p in command.params)]
    assert {("train",), ("learn",), ("classify",), ("explain",), ("evaluate",), ("compare",)} <= set(takers)
    for words, command in walk(cli):
        if words in takers:
            options = {option for parameter in command.params for option in parameter.opts}
            assert {format.flag for format in TABLES.values()} <= options, words


# ---------------------------------------------------------------------- tab-separated values


@settings(max_examples=150)
@given(rows=TABLE_ROWS)
def test_quoted_tab_separated_values_as_the_csv_module_writes_them(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("t") / "t.tsv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter="\t", quoting=csv.QUOTE_ALL, lineterminator="\r\n")
        writer.writerow(["text", "label"])
        writer.writerows([(text.replace("\n", " "), label) for text, label in rows])
    assert documents(path) == [(text.replace("\n", " "), label.strip()) for text, label in rows]


@pytest.mark.parametrize(
    "text",
    ["two\nlines", 'he said "no"\nand left', "a\tb", 'tab\t"and" quote', "three\n\nlines\n", "\n", '"\n"', "x\n" * 50],
)
@pytest.mark.parametrize("columns", [("text", "label"), ("label", "text"), ("id", "text", "label")])
def test_cells_of_several_lines(tmp_path, text, columns):
    texts = ["plain", text, "it's", text, "end"]
    with open(tmp_path / "t.tsv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, delimiter="\t", lineterminator="\n")
        writer.writeheader()
        writer.writerows([{key: {"text": each, "label": "ham", "id": "7"}[key] for key in columns} for each in texts])
    assert documents(tmp_path / "t.tsv") == [(each, "ham") for each in texts]


@settings(max_examples=150)
@given(rows=TABLE_ROWS)
def test_tab_separated_values_that_know_no_quotes(tmp_path_factory, rows):
    """Whatever quotes a text has, a line is a row, unless all of it reads as quoted cells."""
    path = tmp_path_factory.mktemp("t") / "t.tsv"
    plain = [(text.replace("\t", " ").replace("\n", " "), label) for text, label in rows]
    path.write_text(
        "text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in plain), encoding="utf-8", newline=""
    )
    found = documents(path)
    assert len(found) == len(plain)
    for (text, label), (content, given_label) in zip(plain, found):
        quoted = len(text) > 1 and text[0] == text[-1] == '"' and '"' not in text[1:-1].replace('""', "")
        assert content == (text[1:-1].replace('""', '"') if quoted else text)
        assert given_label == label.strip()


@pytest.mark.parametrize("place", [0, 1, 3])
def test_a_lone_quote_swallows_no_rows(tmp_path, place):
    texts = ["one", "two", "three", "four"]
    texts[place] = '"' + texts[place]
    for columns in ("text\tlabel", "label\ttext"):
        lines = [f"{text}\tham" if columns.startswith("text") else f"ham\t{text}" for text in texts]
        (tmp_path / "t.tsv").write_text("\n".join([columns, *lines]) + "\n")
        assert documents(tmp_path / "t.tsv") == [(text, "ham") for text in texts]


# ---------------------------------------------------------------------- encodings and delimiters


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig", "utf-8", "latin-1"])
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".json", ".txt"])
@pytest.mark.parametrize("compressed", [False, True])
def test_encodings(tmp_path, encoding, suffix, compressed):
    texts = [
        "see you at caf\u00e9 \u00fc\u00f6",
        "na\u00efve \u0a0d".encode("latin-1", "ignore").decode("latin-1"),
        "x" * 5000,
    ]
    rows = [{"text": text, "label": "ham"} for text in texts]
    if suffix == ".jsonl":
        table = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    elif suffix == ".json":
        table = json.dumps(rows, ensure_ascii=False, indent=1)
    else:
        between = "," if suffix == ".csv" else "\t"
        table = "\r\n".join([f"text{between}label", *(f"{text}{between}ham" for text in texts), ""])
    raw = table.encode(encoding)
    path = tmp_path / f"t{suffix}{'.gz' if compressed else ''}"
    path.write_bytes(gzip.compress(raw) if compressed else raw)
    marked = encoding in ("utf-16", "utf-32", "utf-8-sig", "utf-8")
    options = {} if marked else {"encoding": encoding}
    assert documents(path, format=table_in(path) if suffix == ".txt" else "auto", **options) == [
        (t, "ham") for t in texts
    ]


def test_a_file_that_breaks_its_encoding_is_named(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("text,label\nx,ham\n".encode("utf-16") + b"\x00")
    with pytest.raises(BadInput, match=r"t\.csv is not utf-16: truncated data"):
        documents(path)
    with pytest.raises(BadInput, match="Unknown encoding 'klingon'"):
        documents(path, encoding="klingon")


@pytest.mark.parametrize("delimiter", [",", "\t", ";"])
@pytest.mark.parametrize("names", [["text", "label"], ["id", "label", "text"]])
def test_the_delimiter_is_found_from_the_first_line(tmp_path, delimiter, names):
    row = {"text": "hello; you, there", "label": "ham", "id": "1"}
    file = io.StringIO()
    writer = csv.DictWriter(file, names, delimiter=delimiter, extrasaction="ignore")
    writer.writeheader()
    writer.writerow(row)
    path = tmp_path / "t.csv"
    path.write_text(file.getvalue())
    assert documents(path) == [("hello; you, there", "ham")]
    if delimiter != ",":
        with pytest.raises(BadInput, match="no column 'text'"):
            documents(path, delimiter=",")


# ---------------------------------------------------------------------- JSON


@settings(max_examples=100)
@given(
    rows=st.lists(st.fixed_dictionaries(
        {"text": st.text(), "label": st.sampled_from(["a", "b"]), "more": st.lists(st.text())}), max_size=5),
    indent=st.sampled_from([None, 0, 2]), newline=st.sampled_from(["", "\n", " \n\n"]),
)  # fmt: skip
def test_an_array_is_what_lines_are(tmp_path_factory, rows, indent, newline):
    folder = tmp_path_factory.mktemp("t")
    (folder / "a.json").write_text(newline + json.dumps(rows, indent=indent) + newline)
    (folder / "l.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert documents(folder / "a.json") == documents(folder / "l.jsonl")
    assert [row.row for row in Source(folder / "a.json")] == list(range(1, len(rows) + 1))


@pytest.mark.parametrize(("text", "message"), [
    ('[{"text": "a", "label": "b"}', "row 2 is not valid JSON: the array has no closing ]"),
    ('[{"text": "a", "label": "b"', "row 1 is not valid JSON: "),
    ('[{"text": "a", "label": "b"}, 7]', "row 2 is not a JSON object but a int"),
    ('[{"text": "a", "label": "b"}] [1]', "unexpected content after the array"),
    ('[{"text": "a", "label": "b"}]\n\n{"text": "a"}', "unexpected content after the array"),
    ('[{"txt": "a"}]', "row 1 has no column 'text'"),
    ('{\n"text": "a",\n"label": "b"\n}', "line 1 begins an object that spans several lines"),
    ("[" * 100_000, "row 1 is not valid JSON"),
])  # fmt: skip
def test_arrays_that_are_none(tmp_path, text, message):
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(BadInput, match=message.replace("]", r"\]")):
        documents(tmp_path / "t.json")


def test_a_long_array_is_read_in_bounded_memory(tmp_path):
    import tracemalloc

    with open(tmp_path / "t.json", "w") as file:
        file.write("[\n" + ",\n".join(json.dumps({"text": "x" * 1000, "label": "a"}) for _ in range(20_000)) + "\n]")
    tracemalloc.start()
    try:
        assert sum(1 for _ in Source(tmp_path / "t.json")) == 20_000
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()
    assert MAX_LINE >= 2**20


# ---------------------------------------------------------------------- rows that are kept, and written


def write_table(path, rows):
    """Write rows of a text, a label and a number as the format that the name ends in."""
    with TableWriter(path, list(rows[0])) as table:
        for row in rows:
            table.write(list(row.values()))
    return path


ROWS_KEPT = [
    {"text": f"text {i}", "label": "ham", "id": i, "more": None if i == 2 else f"m\u00e9 {i}"} for i in range(1, 5)
]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_columns_that_are_kept(tmp_path, suffix):
    path = write_table(tmp_path / f"t{suffix}", ROWS_KEPT)
    found = list(Source(path, keep=("id", "more", "label")))
    typed = suffix in (".jsonl", ".parquet")
    for row, expected in zip(found, ROWS_KEPT, strict=True):
        assert row.file == str(path)
        assert row.row == expected["id"]
        nothing = None if typed else ""
        assert row.kept == (expected["id"] if typed else str(expected["id"]), expected["more"] or nothing, "ham")
        assert tuple(pickle.loads(pickle.dumps(row))) == tuple(row)
        assert pickle.loads(pickle.dumps(row)).kept == row.kept
    if suffix != ".jsonl":
        with pytest.raises(BadInput, match=r"no column 'idd'.*--keep; did you mean 'id'"):
            list(Source(path, keep=("idd",)))


@settings(max_examples=60)
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 9), st.none() | TABLE_CELLS, st.floats(allow_nan=False) | st.none()), max_size=5
    ),
    suffix=st.sampled_from([".csv", ".tsv", ".jsonl", ".parquet"]),
)
def test_what_is_written_is_read_back(tmp_path_factory, rows, suffix):
    path = tmp_path_factory.mktemp("t") / f"t{suffix}"
    with TableWriter(path, ["n", "text", "x"]) as table:
        for row in rows:
            table.write(row)
    options = {"labelled": False, "keep": ("n", "text", "x"), "text": "n", "scores": True}
    kept = [row.kept for row in Source(path, **options)] if rows or suffix != ".jsonl" else []
    if suffix in (".jsonl", ".parquet"):
        assert kept == rows
    else:
        assert kept == [tuple("" if value is None else str(value) for value in row) for row in rows]


def test_a_table_is_there_whole_or_not_at_all(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("before")
    with pytest.raises(ZeroDivisionError), TableWriter(path, ["a"]) as table:
        table.write([1 / len(table.columns[1:])])
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["t.csv"]
    for name in ("t.txt", "t", "t.csv.gz", "t.json"):
        with pytest.raises(BadInput, match=r"must end in \.csv"):
            written_as(name)
    with pytest.raises(BadInput, match="two columns 'a'"):
        TableWriter(path, ["a", "b", "a"])


def test_a_column_that_changes_its_type(tmp_path):
    rows = [{"x": value} for value in [*range(5000), *["text"] * 5000]]
    with pytest.raises(BadInput, match="column 'x' changes its type from int64"):
        write_table(tmp_path / "t.parquet", rows)
    with TableWriter(tmp_path / "t.parquet", ["x"]) as table:
        for value in [1, "text", [1, 2], None]:
            table.write([value])
    rows = Source(tmp_path / "t.parquet", text="x", labelled=False, keep=("x",), skip_bad=[].append)
    assert [row.content for row in rows] == ["1", "text", "[1, 2]"]


# ---------------------------------------------------------------------- pipes


def piped(path, content):
    """Make a named pipe that somebody writes once."""
    os.mkfifo(path)
    threading.Thread(target=lambda: path.write_bytes(content), daemon=True).start()
    return path


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".json", ".parquet"])
@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("pipe", [False, True])
def test_tables_are_read_twice_whatever_they_come_from(tmp_path, suffix, compressed, pipe):
    if suffix == ".json":
        content = json.dumps(ROWS_KEPT).encode()
    else:
        content = write_table(tmp_path / f"plain{suffix}", ROWS_KEPT).read_bytes()
    content = gzip.compress(content) if compressed else content
    path = tmp_path / f"t{suffix}{'.gz' if compressed else ''}"
    piped(path, content) if pipe else path.write_bytes(content)
    assert is_read_once(path) == pipe
    sources = Sources([Source(path)])
    assert sources.labels() == ["ham"]
    for _ in range(2):
        assert [document.content for document in sources] == [row["text"] for row in ROWS_KEPT]
    (document, *_) = sources
    assert document.name.startswith(str(path))
    assert sources.bytes() is None or sources.bytes() > 0


def test_a_spooled_copy_is_private_and_goes_with_its_owner(tmp_path):
    copy = spooled(piped(tmp_path / "t.csv", b"text,label\na,b\n"))
    assert isinstance(copy, Spooled)
    assert shown(copy) == str(tmp_path / "t.csv")
    place = os.fspath(copy)
    assert os.stat(place).st_mode & 0o077 == 0
    with open_input(copy) as file:
        assert file.read() == b"text,label\na,b\n"
    assert spooled(copy) is copy
    del copy
    assert not os.path.exists(place)


def test_a_missing_file_is_missing_and_not_spooled(tmp_path):
    for suffix in (".csv", ".jsonl", ".parquet"):
        sources = Sources([Source(tmp_path / f"none{suffix}")])
        with pytest.raises(NoInput, match="No such file"):
            sources.labels()
