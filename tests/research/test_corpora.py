"""Corpora: readers on tiny invented files in each publisher's format, errors, and real counts where there are any."""

import csv
import json
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surebayes import corpora
from surebayes.corpora import CorpusMissing, MalformedCorpus, UnknownCorpus
from surebayes.research.corpora.formats import LAYOUTS

STORY = """<!DOCTYPE lewis SYSTEM "lewis.dtd">
<REUTERS TOPICS="YES" LEWISSPLIT="TRAIN" CGISPLIT="TRAINING-SET" OLDID="7" NEWID="2">
<DATE> 1-JAN-1987 10:00:00.00</DATE>
<TOPICS><D>plum</D><D>nut-oil</D><D>plum</D></TOPICS>
<PLACES><D>nowhere</D></PLACES>
<TEXT>&#2;
<TITLE>PLUMS &lt;PLM> UP</TITLE>
<DATELINE>    NOWHERE, Jan 1 - </DATELINE><BODY>Plums rose &amp; rose.
 Invented
&#3;</BODY></TEXT>
</REUTERS>
<REUTERS TOPICS="YES" LEWISSPLIT="TEST" CGISPLIT="TRAINING-SET" OLDID="8" NEWID="10">
<DATE> 2-JAN-1987 10:00:00.00</DATE>
<TOPICS><D>plum</D></TOPICS>
<TEXT TYPE="BRIEF">&#2;
******<TITLE>PLUMS SAID FIRM
</TITLE>Blah blah blah.
&#3;

</TEXT>
</REUTERS>
"""
MORE = """<!DOCTYPE lewis SYSTEM "lewis.dtd">
<REUTERS TOPICS="NO" LEWISSPLIT="TRAIN" CGISPLIT="TRAINING-SET" OLDID="9" NEWID="1">
<TOPICS></TOPICS>
<TEXT TYPE="UNPROC">&#2;
PLUM REPORT   1 2 3
&#3;
</TEXT>
</REUTERS>
"""


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


# The publishers' formats ---------------------------------------------------------------------------------------------


def test_reuters(tmp_path):
    write(tmp_path / "reuters21578/reut2-000.sgm", STORY)
    write(tmp_path / "reuters21578/reut2-001.sgm", MORE.replace("PLUM", "PL\xdcM").encode("latin-1"))
    corpus = corpora.load("reuters21578", tmp_path)
    assert corpus.ids == ["1", "2", "10"]
    assert corpus.multilabel
    assert corpus.labels == [(), ("plum", "nut-oil"), ("plum",)]
    assert corpus.split == ["unused", "train", "test"]
    assert corpus.documents == [
        "\nPL\xdcM REPORT   1 2 3\n\n",
        "PLUMS <PLM> UP\nPlums rose & rose.\n Invented\n",
        "PLUMS SAID FIRM\n",
    ]
    assert corpus.extra["topics"][1] == ["plum", "nut-oil", "plum"]
    assert corpus.extra["title"][1] == "PLUMS <PLM> UP"
    assert corpus.extra["text_type"] == ["UNPROC", "NORM", "BRIEF"]
    assert corpus.extra["date"][1] == "1-JAN-1987 10:00:00.00"
    train, test = corpora.modapte(corpus)
    assert train.labels == [("plum",)]  # nut-oil has no test document
    assert (len(train), len(test)) == (1, 1)
    assert corpora.top_classes(corpus, 1) == ["plum"]


def test_newsgroups_come_in_the_order_of_their_date(tmp_path):
    late = b"Newsgroups: sci.space\nDate: 3 Apr 93 10:00:00 GMT\nSubject: Re: Moon\n\nFar.\n"
    early = b"Newsgroups: rec.tea\nSubject: a\n folded line\nDate: Fri, 2 Apr 1993 10:00:00 -0500\n\nHot \xe9.\n"
    lost = b"Newsgroups: rec.tea\n\nNo date.\n"
    write(tmp_path / "20_newsgroups/sci.space/1001", late)
    write(tmp_path / "20_newsgroups/rec.tea/999", early)
    write(tmp_path / "20_newsgroups/rec.tea/.DS_Store", b"x")
    write(tmp_path / "20_newsgroups/rec.tea/5", lost)
    corpus = corpora.load("news20", tmp_path)
    assert corpus.ids == ["rec.tea/999", "sci.space/1001", "rec.tea/5"]
    assert corpus.labels == ["rec.tea", "sci.space", "rec.tea"]
    assert corpora.texts(corpus) == ["Hot \xe9.\n", "Far.\n", "No date.\n"]
    assert corpora.texts(corpus, subject=True)[0] == "a folded line\nHot \xe9.\n"
    assert corpora.load("news20", tmp_path / "20_newsgroups").ids == corpus.ids
    assert corpus.extra["time"][1] == 733831200


def test_newsgroups_bydate(tmp_path):
    write(tmp_path / "20news-bydate-train/sci.space/2", "Subject: x\n\na")
    write(tmp_path / "20news-bydate-test/sci.space/1", "Subject: x\n\nb")
    corpus = corpora.load("news20_bydate", tmp_path)
    assert corpus.split == ["train", "test"]
    assert corpus.part("test").ids == ["sci.space/1"]
    with pytest.raises(ValueError, match=r"has no split 'dev'. Its splits: test, train"):
        corpus.part("dev")


def test_webkb(tmp_path):
    page = b"Server: X/1\r\nContent-Type: text/html\r\n\r\n<html><b>Course</b>&nbsp;1</html>"
    write(tmp_path / "webkb/course/cornell/http:^^x.example^c.html", page)
    write(tmp_path / "webkb/student/misc/http:^^x.example^s.html", b"<p>no headers</p>\n\n<p>two</p>")
    corpus = corpora.load("webkb", tmp_path)
    assert corpus.labels == ["course", "student"]
    assert corpus.extra["university"] == ["cornell", "misc"]
    assert [text.split() for text in corpora.texts(corpus)] == [["Course", "1"], ["no", "headers", "two"]]


def test_industry_sector_is_a_tree_of_classes(tmp_path):
    write(tmp_path / "sector/energy.sector/coal.industry/a.html", "x")
    write(tmp_path / "sector/energy.sector/oil.industry/b.html", "y")
    corpus = corpora.load("industry_sector", tmp_path)
    assert corpus.labels == ["energy.sector/coal.industry", "energy.sector/oil.industry"]
    with pytest.raises(CorpusMissing):  # any folder has folders: another name is not taken for this corpus
        corpora.load("industry_sector", tmp_path / "sector/energy.sector")


def test_sraa(tmp_path):
    write(tmp_path / "sraa/simauto/1", "Subject: x\n\na")
    write(tmp_path / "sraa/realauto/2", "Subject: x\n\nb")
    assert corpora.load("sraa", tmp_path).labels == ["realauto", "simauto"]


def test_movie_reviews(tmp_path):
    for name in ("pos/cv000_1", "neg/cv000_2", "neg/cv123_3"):
        write(tmp_path / f"review_polarity/txt_sentoken/{name}.txt", f"a film \xe9 {name}".encode("latin-1"))
    corpus = corpora.load("movie_reviews", tmp_path)
    assert corpus.ids == ["neg/cv000_2", "pos/cv000_1", "neg/cv123_3"]
    assert corpus.folds == [0, 0, 1]
    assert corpus.documents[0] == "a film \xe9 neg/cv000_2"
    write(tmp_path / "review_polarity/txt_sentoken/pos/notes.txt", "x")
    with pytest.raises(MalformedCorpus, match=r"notes\.txt: a review's name must start with cv"):
        corpora.load("movie_reviews", tmp_path)


def test_ecml(tmp_path):
    write(tmp_path / "ecml2006/task_a_labeled_train.tf", "1 3:2 7:1\n-1 1:1\n")
    write(tmp_path / "ecml2006/task_a_u01_eval_lab.tf", "-1 2:5\n")
    write(tmp_path / "ecml2006/task_a_u00_eval_lab.tf", "1 4:1\n\n")
    write(tmp_path / "ecml2006/task_a_u00_eval.tf", "0 4:1\n")
    write(tmp_path / "ecml2006/task_a_u00_tune.tf", "1 9:9\n")
    write(tmp_path / "ecml2006/task_b_u00_eval_lab.tf", "1 8:8\n")
    corpus = corpora.load("ecml2006_a", tmp_path)
    assert corpus.documents == ["3:2 7:1", "1:1", "4:1", "2:5"]
    assert corpus.labels == ["spam", "ham", "spam", "ham"]
    assert corpus.split == ["train", "train", "test", "test"]
    assert corpus.folds == [None, None, 0, 1]
    assert corpora.load("ecml2006_a_tune", tmp_path).documents == ["9:9"]
    assert corpora.load("ecml2006_b", tmp_path).documents == ["8:8"]
    matrix = corpora.count_matrix(corpus.documents, width=10)
    assert matrix.shape == (4, 10)
    assert matrix[0, 3] == 2
    assert matrix.sum() == 10
    with pytest.raises(ValueError, match="at least 8"):
        corpora.count_matrix(corpus.documents, width=7)


@pytest.mark.parametrize(
    ("line", "message"),
    [("0 1:1", r"line 2: the class must be 1 or -1, got '0' \(0 is unlabelled"), ("1 a:1", "line 2: .* got 'a:1'")],
)
def test_malformed_tf(tmp_path, line, message):
    write(tmp_path / "task_b_labeled_train.tf", f"1 1:1\n{line}\n")
    with pytest.raises(MalformedCorpus, match=message):
        corpora.load("ecml2006_b", tmp_path)


def test_trec(tmp_path):
    write(tmp_path / "trec07p/data/inmail.1", b"Subject: a\n\n\xff")
    write(tmp_path / "trec07p/data/inmail.2", b"Subject: b\n\nb")
    index = write(tmp_path / "trec07p/full/index", "spam ../data/inmail.2\nHAM ../data/inmail.1\n")
    corpus = corpora.load("trec07p", tmp_path)
    assert corpus.labels == ["spam", "ham"]
    assert corpus.documents == [b"Subject: b\n\nb", b"Subject: a\n\n\xff"]
    assert corpora.mails(corpus) == corpus.documents
    assert corpora.read_trec(index).documents == corpus.documents
    assert corpora.load("trec07p", tmp_path / "trec07p").ids == corpus.ids
    assert list(corpora.available(tmp_path)) == ["trec07p"]
    with pytest.raises(CorpusMissing, match="trec06p/full/index"):
        corpora.load("trec06p", tmp_path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("junk ../data/1", "line 2: expected 'ham PATH' or 'spam PATH', got 'junk ../data/1'"),
        ("ham", "line 2: expected"),
        ("ham ../data/2", "line 2: there is no message file .*data/2"),
    ],
)
def test_malformed_trec_index(tmp_path, line, message):
    write(tmp_path / "data/1", "x")
    index = write(tmp_path / "full/index", f"ham ../data/1\n{line}\n")
    with pytest.raises(MalformedCorpus, match=message):
        corpora.read_trec(index)


def test_trec_index_that_is_not_there(tmp_path):
    with pytest.raises(CorpusMissing, match="full/index"):
        corpora.read_trec(tmp_path / "full/index")


def test_spamassassin_comes_in_the_order_of_arrival(tmp_path):
    hop = (
        "Received: from x.example\n\tby y.example; {}\nReceived: from z.example; Mon, 1 Jan 2001 00:00:00 +0000\n\nx\n"
    )
    write(tmp_path / "spamassassin/easy_ham/0001.ab", hop.format("Thu, 22 Aug 2002 12:36:23 +0100"))
    write(tmp_path / "spamassassin/spam_2/0001.cd", hop.format("Thu, 22 Aug 2002 12:36:22 +0100"))
    write(tmp_path / "spamassassin/hard_ham/0001.ef", "Date: Thu, 22 Aug 2002 07:36:22 -0400\n\nno way\n")
    write(tmp_path / "spamassassin/spam/0009.aa", "Subject: never\n\n\n")
    write(tmp_path / "spamassassin/spam/cmds", "mv 0001 0002")
    corpus = corpora.load("spamassassin", tmp_path)
    assert [name.partition("/")[0] for name in corpus.ids] == ["hard_ham", "spam_2", "easy_ham", "spam"]
    assert corpus.labels == ["ham", "spam", "ham", "spam"]
    assert corpus.extra["received"] == [1030016182, 1030016182, 1030016183, None]


def test_enron_order_runs_over_both_classes(tmp_path):
    write(tmp_path / "enron_spam/enron2/spam/0001.2001-01-01.X.spam.txt", b"Subject: late\nbuy \xe9")
    write(tmp_path / "enron_spam/enron1/ham/0003.1999-12-10.x.ham.txt", b"Subject: two\r\nthen\r\n")
    write(tmp_path / "enron_spam/enron1/spam/0002.2004-01-01.X.spam.txt", b"Subject: one\r\n")
    write(tmp_path / "enron_spam/enron2/ham/0010.1999-12-10.x.ham.txt", b"Subject: ten\n\nblank already")
    corpus = corpora.load("enron_spam", tmp_path)
    assert corpus.labels == ["spam", "ham", "spam", "ham"]
    assert corpus.extra["part"] == [1, 1, 2, 2]
    assert corpora.mails(corpus) == [
        b"Subject: one\r\n\n",
        b"Subject: two\r\n\nthen\r\n",
        b"Subject: late\n\nbuy \xe9",
        b"Subject: ten\n\nblank already",
    ]
    write(tmp_path / "enron_spam/enron3/ham/0001.txt", b"Subject: x\n")
    with pytest.raises(MalformedCorpus, match="enron3 has no folder 'spam'"):
        corpora.load("enron_spam", tmp_path)


def test_lingspam(tmp_path):
    for part in (10, 2):
        write(tmp_path / f"lingspam_public/bare/part{part}/3-1msg1.txt", "Subject: verbs\n\ndo verbs exist ?\n")
    write(tmp_path / "lingspam_public/bare/part2/spmsga1.txt", "Subject: cash\n\nfree\n")
    write(tmp_path / "lingspam_public/lemm_stop/part2/spmsga1.txt", "Subject: cash\n\nfre\n")
    corpus = corpora.load("lingspam", tmp_path)
    assert corpus.labels == ["ham", "spam", "ham"]
    assert corpus.folds == [2, 2, 10]
    assert corpus.extra["text_lemm_stop"] == [None, "Subject: cash\n\nfre\n", None]


def test_sms(tmp_path):
    write(tmp_path / "SMSSpamCollection", "ham\tsee\tyou \xa3\u2028\x85ok\nspam\tfree\r\n\n")
    corpus = corpora.load("sms_spam", tmp_path)
    assert corpus.documents == ["see\tyou \xa3\u2028\x85ok", "free"]
    assert corpora.texts(corpus) == corpus.documents
    write(tmp_path / "SMSSpamCollection", "ham\tfine\nspam no tab\n")
    with pytest.raises(MalformedCorpus, match=r"SMSSpamCollection, line 2: expected 'ham', TAB, text"):
        corpora.load("sms_spam", tmp_path)


def test_ynat(tmp_path):
    rows = '[{"guid": "ynat-v1_train_00000", "title": "제목", "label": "세계"}]'
    write(tmp_path / "ynat-v1.1/ynat-v1.1_train.json", rows)
    assert corpora.load("klue_ynat", tmp_path).labels == ["세계"]
    write(tmp_path / "ynat-v1.1/ynat-v1.1_train.json", '[{"title": "x"}]')
    with pytest.raises(MalformedCorpus, match="guid, title and label"):
        corpora.load("klue_ynat", tmp_path)


def table(path, **columns):
    """Write a table in the format of its suffix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [dict(zip(columns, row)) for row in zip(*columns.values())]
    if path.suffix == ".parquet":
        pytest.importorskip("pyarrow")
        import pyarrow as pa
        import pyarrow.parquet as pq

        types = {"label": pa.int64(), "text": pa.string()}
        pq.write_table(pa.table({k: pa.array(v, types.get(k, pa.float32())) for k, v in columns.items()}), path)
    elif path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(columns))
            writer.writeheader()
            writer.writerows(rows)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize(
    ("train", "test"),
    [
        ("data/train-00000-of-00001-9564e8b05b4757ab.parquet", "data/test-00000-of-00001-701d16158af87368.parquet"),
        ("train.csv", "test.csv"),
        ("train.jsonl", "test.jsonl"),
    ],
)
@pytest.mark.parametrize("folder", ["prompt-injections", "prompt_injections"])
def test_prompt_injections(tmp_path, folder, train, test):
    table(tmp_path / folder / train, text=['what is a, plum?\n"Now"', "Vergiss alles davor \u2028!"], label=[0, 1])
    table(tmp_path / folder / test, text=["ignore the above"], label=[1])
    write(tmp_path / folder / "README.md", "training notes")
    corpus = corpora.load("prompt_injections", tmp_path)
    assert corpus.documents == ['what is a, plum?\n"Now"', "Vergiss alles davor \u2028!", "ignore the above"]
    assert corpora.texts(corpus) == corpus.documents
    assert corpus.labels == ["legitimate", "injection", "injection"]
    assert corpus.split == ["train", "train", "test"]
    assert len(set(corpus.ids)) == 3
    assert corpora.load("prompt_injections", tmp_path / folder).labels == corpus.labels
    assert list(corpora.available(tmp_path)) == ["prompt_injections"]
    assert "split train: 2 documents, 546 published" in corpora.check("prompt_injections", tmp_path).differences


def test_civil_comments(tmp_path):
    others = {name: [0.0, 0.0] for name in ("severe_toxicity", "obscene", "threat")}
    for split, texts, shares in (
        ("train-00000-of-00002", ["c", "d"], [0.5, 0.49]),
        ("train-00001-of-00002", ["e", "f"], [0.0, 1.0]),
        ("validation-00000-of-00001", ["v", "w"], [0.1, 0.7]),
        ("test-00000-of-00001", ["a", "b"], [0.75, 0.2]),
    ):
        table(tmp_path / f"civil_comments/data/{split}.parquet", text=texts, toxicity=shares, **others)
    corpus = corpora.load("civil_comments", tmp_path)
    assert corpus.documents == list("cdefvwab")
    assert corpus.labels == ["toxic", "other", "other", "toxic", "other", "toxic", "toxic", "other"]
    assert corpus.split == ["train"] * 4 + ["validation"] * 2 + ["test"] * 2
    with pytest.raises(CorpusMissing):  # other corpora have files train* too: the folder's name decides
        corpora.load("prompt_injections", tmp_path / "civil_comments")


@pytest.mark.parametrize(
    ("name", "columns", "message"),
    [
        ("prompt_injections", dict(text=["a"], label=[2]), r"train\.csv, row 1 .*: label must be 0 or 1\. Got '2'"),
        ("prompt_injections", dict(prompt=["a"], type=["benign"]), r"train\.csv has no column 'text'"),
        ("prompt_injections", dict(text=["a"], label=[""]), r"has no label in 'label'"),
        ("civil_comments", dict(text=["a"], toxicity=["nan"]), r"toxicity must be a share from 0 to 1\. Got 'nan'"),
        ("civil_comments", dict(text=["a"], toxicity=[1.5]), r"Got '1\.5'"),
        ("civil_comments", dict(text=["a"], toxicity=["high"]), r"Got 'high'"),
        ("civil_comments", dict(text=[], toxicity=[]), r"has no documents. Expected tables train\*"),
    ],
)
def test_malformed_tables(tmp_path, name, columns, message):
    table(tmp_path / name / "train.csv", **columns)
    with pytest.raises(MalformedCorpus, match=message) as caught:
        corpora.load(name, tmp_path)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (STORY.replace("</REUTERS>\n<REU", "<REU"), r"line 2: a <REUTERS> story without its </REUTERS>"),
        (STORY.removesuffix("</REUTERS>\n"), r"line 12: a <REUTERS> story without"),
        (STORY.replace('NEWID="10"', ""), r"line 12: the <REUTERS> tag has no NEWID"),
        (STORY.replace("<TEXT>", ""), r"line 2: story 2 has no <TEXT>"),
        ("nothing", "has no documents"),
    ],
)
def test_malformed_reuters_names_file_and_line(tmp_path, content, message):
    write(tmp_path / "reut2-000.sgm", content)
    with pytest.raises(MalformedCorpus, match=message) as caught:
        corpora.load("reuters21578", tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_empty_folders_are_malformed(tmp_path):
    (tmp_path / "20_newsgroups/sci.space").mkdir(parents=True)
    with pytest.raises(MalformedCorpus, match=r"has no documents\. Expected a folder for each newsgroup"):
        corpora.load("news20", tmp_path)


# Catalogue, errors, the Corpus itself ---------------------------------------------------------------------------------


def test_catalogue_is_complete():
    entries = corpora.catalogue()
    papers = "hotmail trec05p trec06p reuters21578 koreannews2002 webkb industry_sector news20 ecml2006_a ecml2006_b"
    for name in f"{papers} movie_reviews sraa trec_ap".split():
        assert entries[name].used_by, name
    for name in ["spamassassin", "enron_spam", "trec07p", "klue_ynat", "korean_news_1600"]:
        assert entries[name].stands_in_for, name
    assert {"lingspam", "sms_spam", "news20_bydate"} <= set(entries)
    for name, entry in entries.items():
        assert name == entry.name
        assert all([entry.title, entry.publisher, entry.licence, entry.contents, entry.obtain, entry.documents]), name
        assert entry.kind in ("mail", "newsgroup", "html", "text", "counts")
        assert entry.obtainable == bool(entry.parquet or entry.layout)
        assert entry.layout is None or entry.layout in LAYOUTS
        assert set(entry.stands_in_for) <= set(entries)
        assert not entry.classes or sum(entry.classes.values()) == entry.documents
        assert not entry.splits or sum(entry.splits.values()) == entry.documents
    with pytest.raises(TypeError):
        entries["mine"] = None


def test_unknown_name_suggests_the_nearest():
    with pytest.raises(UnknownCorpus, match="has no corpus 'reuters'; did you mean 'reuters21578'"):
        corpora.load("reuters")
    with pytest.raises(UnknownCorpus, match=r"has no corpus 'qqqq'\.$"):
        corpora.check("qqqq")


def test_no_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("SUREBAYES_DATA", raising=False)
    assert corpora.available() == {}
    with pytest.raises(CorpusMissing, match=r"SUREBAYES_DATA\. Where to get WebKB.*www\.cs\.cmu\.edu"):
        corpora.load("webkb")
    with pytest.raises(CorpusMissing, match="nowhere is not a folder"):
        corpora.load("webkb", tmp_path / "nowhere")
    monkeypatch.setenv("SUREBAYES_DATA", str(tmp_path))
    with pytest.raises(CorpusMissing) as caught:
        corpora.load("webkb")
    for words in ("webkb.parquet", str(tmp_path / "webkb" / "course"), "webkb-data.gtar.gz"):
        assert words in str(caught.value)
    assert isinstance(caught.value, FileNotFoundError)


@pytest.mark.parametrize("name", ["hotmail", "koreannews2002", "trec_ap"])
def test_what_cannot_be_had_says_so(name, tmp_path):
    with pytest.raises(CorpusMissing, match=r"not available|only by licence"):
        corpora.load(name, tmp_path)


def small(**changes):
    parts = {"documents": ["a", "b ", " b"], "labels": ["x", "y", "x"], "ids": ["1", "2", "3"], "order": [0, 1, 2]}
    return corpora.Corpus("mine", **(parts | changes))


def test_corpus_selections():
    corpus = small(split=["train", "test", "train"], folds=[0, 1, 0], extra={"t": [5, 6, 7]})
    taken = corpus.take([2, 1])
    assert taken.order == [2, 1]
    assert taken.extra == {"t": [7, 6]}
    assert taken.folds == [0, 1]
    assert corpus.class_counts == {"x": 2, "y": 1}
    assert corpus.of_classes(["y"]).ids == ["2"]
    assert corpus.without_duplicates().ids == ["1", "2"]
    with pytest.raises(ValueError, match="no class 'xx'; did you mean 'x'"):
        corpus.of_classes(["xx"])
    with pytest.raises(AttributeError):
        corpus.name = "other"
    many = small(labels=[("x", "y"), (), ("y",)], multilabel=True)
    assert many.class_counts == {"x": 1, "y": 2}
    assert many.of_classes(["x"]).labels == [("x",), (), ()]
    assert small().split is None
    with pytest.raises(ValueError, match="Its splits: none"):
        small().part("train")


def test_wrong_kind_of_document(tmp_path):
    write(tmp_path / "SMSSpamCollection", "ham\tx\n")
    with pytest.raises(ValueError, match="not messages but text"):
        corpora.mails(corpora.load("sms_spam", tmp_path))
    write(tmp_path / "task_b_labeled_train.tf", "1 1:1\n")
    with pytest.raises(ValueError, match="use count_matrix"):
        corpora.texts(corpora.load("ecml2006_b", tmp_path))
    write(tmp_path / "enron1/ham/0001.txt", "Subject: x\n")
    write(tmp_path / "enron1/spam/0002.txt", "Subject: x\n")
    with pytest.raises(ValueError, match="read_message"):
        corpora.texts(corpora.load("enron_spam", tmp_path))


def test_check_says_what_differs(tmp_path):
    write(tmp_path / "webkb/course/misc/a", "x: 1\n\nx")
    write(tmp_path / "webkb/course/misc/b", "x: 1\n\nx")
    write(tmp_path / "webkb/cafeteria/misc/c", "x: 1\n\ny")
    checked = corpora.check("webkb", tmp_path)
    assert (checked.documents, checked.duplicates, checked.complete) == (3, 1, False)
    assert checked.classes == {"cafeteria": 1, "course": 2}
    assert "3 documents, 8,282 published" in checked.differences
    assert "class course: 2 documents, 930 published" in checked.differences
    assert "class cafeteria: 1 documents, 0 published" in checked.differences
    assert checked.notes


@given(st.text(alphabet="<>!-/abscripty&;= \n\"'", max_size=60))
def test_strip_tags_leaves_no_tag(page):
    text = corpora.strip_tags(page.replace("&", ""))
    assert "<" not in text


@pytest.mark.parametrize("piece", ["<", "<!--", "<script", "<a href=", "<style>", "</", "&lt;<b>", "<!-- --><script>"])
@pytest.mark.timeout(120)  # measured: 0.01 to 0.6 s; anything quadratic takes many minutes
def test_strip_tags_takes_linear_time(piece):
    text = corpora.strip_tags(piece * (2_000_000 // len(piece)))
    assert "<b>" not in text
    assert "script" not in text


def test_strip_tags():
    page = "A<SCRIPT>var x = '<b>';</SCRIPT >B<style>p{}</style>C<!-- <p> -->D &amp; <br>E<broken"
    assert corpora.strip_tags(page).split() == ["A", "B", "C", "D", "&", "E"]


# Parquet -------------------------------------------------------------------------------------------------------------


def parquet(path, **columns):
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    pyarrow.parquet.write_table(arrow.table(columns), path)


def test_parquet_in_order(tmp_path):
    columns = {"id": ["p", "q"], "label": ["ham", "spam"], "order": [2, 1], "raw": [b"Subject: a\nx", b"Subject: b\ny"]}
    parquet(tmp_path / "enron_spam.parquet", **columns, part=[1, 1])
    corpus = corpora.load("enron_spam", tmp_path)
    assert (corpus.ids, corpus.labels, corpus.order) == (["q", "p"], ["spam", "ham"], [0, 1])
    assert corpus.source == tmp_path / "enron_spam.parquet"
    assert corpora.mails(corpus)[0] == b"Subject: b\n\ny"


def test_parquet_with_lists_of_labels(tmp_path):
    columns = {"id": ["1", "2"], "order": [0, 1], "text": ["a", "b"], "fold": [3, 4]}
    parquet(tmp_path / "movie_reviews_v2.parquet", labels=[["pos"], ["neg"]], **columns)
    corpus = corpora.load("movie_reviews", tmp_path)
    assert (corpus.labels, corpus.folds, corpus.multilabel) == (["pos", "neg"], [3, 4], False)
    parquet(tmp_path / "reuters21578.parquet", labels=[["earn", "acq"], []], split=["train", "test"], **columns)
    corpus = corpora.load("reuters21578", tmp_path)
    assert (corpus.labels, corpus.multilabel) == ([("earn", "acq"), ()], True)


def test_parquet_that_is_none_or_lacks_columns(tmp_path):
    pytest.importorskip("pyarrow")
    write(tmp_path / "webkb.parquet", b"not parquet at all")
    with pytest.raises(MalformedCorpus, match=r"webkb\.parquet can't be read as Parquet"):
        corpora.load("webkb", tmp_path)
    parquet(tmp_path / "webkb.parquet", id=["1"], text=["x"])
    with pytest.raises(MalformedCorpus, match=r"no column labels or label, no column order; it has id, text"):
        corpora.load("webkb", tmp_path)


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    write(tmp_path / "webkb.parquet", b"")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ImportError, match=r"pip install 'surebayes\[corpora\]'"):
        corpora.load("webkb", tmp_path)


# The real ones, where there are any -----------------------------------------------------------------------------------

COUNTS = {  # documents, classes, duplicates, what is known to be missing
    "reuters21578": (21_578, 120, 242, ()),
    "news20": (19_997, 20, 531, ()),
    "news20_bydate": (18_846, 20, 0, ()),
    "webkb": (8_282, 7, 0, ()),
    "movie_reviews": (2_000, 2, 0, ()),
    "ecml2006_a": (7_500, 2, 164, ("7,500 documents, 11,500 published", "split train: 0 documents, 4,000 published")),
    "ecml2006_b": (6_100, 2, 253, ()),
    "ecml2006_b_tune": (900, 2, 5, ()),
    "spamassassin": (6_046, 2, 0, ()),
    "enron_spam": (33_716, 2, 3_253, ()),
    "lingspam": (2_893, 2, 17, ()),
    "sms_spam": (5_574, 2, 414, ()),
    "klue_ynat": (45_654, 7, 0, ()),
    "korean_news_1600": (1_600, 8, 25, ()),
}


@pytest.fixture
def held(corpora_folder):
    """A function that loads a corpus, or skips the test where the folder doesn't hold it."""

    def load(name):
        if name not in corpora.available(corpora_folder):
            pytest.skip(f"SUREBAYES_DATA doesn't hold {name}")
        return corpora.load(name, corpora_folder)

    return load


@pytest.mark.corpus
@pytest.mark.parametrize("name", COUNTS)
def test_real_counts(name, held, corpora_folder):
    held(name)
    checked = corpora.check(name, corpora_folder)
    assert (checked.documents, len(checked.classes), checked.duplicates, checked.differences) == COUNTS[name]


@pytest.mark.corpus
def test_real_reuters(held):
    corpus = held("reuters21578")
    train, test = corpora.modapte(corpus)
    assert (len(train), len(test), len(train.classes), train.classes == test.classes) == (9603, 3299, 90, True)
    both = corpus.take(row for row, split in enumerate(corpus.split) if split != "unused")
    ten = ["earn", "acq", "money-fx", "grain", "crude", "trade", "interest", "ship", "wheat", "corn"]
    assert corpora.top_classes(both) == ten
    # R52, a well-known cut: stories with one topic, of the topics that have such a story in both halves.
    alone = both.take(row for row, topics in enumerate(both.extra["topics"]) if len(topics) == 1)
    halves = [Counter(alone.part(split).class_counts) for split in ("train", "test")]
    common = halves[0].keys() & halves[1].keys()
    assert [len(common), *(sum(half[name] for name in common) for half in halves)] == [52, 6532, 2568]


@pytest.mark.corpus
def test_real_mail(held):
    for name in ("spamassassin", "enron_spam"):
        corpus = held(name)
        assert all(isinstance(raw, bytes) for raw in corpus.documents)
        assert corpus.order == list(range(len(corpus)))
    assert all(b"\n\n" in raw[: raw.find(b"\n") + 3] for raw in corpora.mails(corpus)[:500])
    times = held("spamassassin").extra["received"]
    assert times == sorted(times)


@pytest.mark.corpus
def test_real_spamassassin_in_its_folders(held, tmp_path):
    corpus = held("spamassassin").take(range(0, 6046, 12))
    for name, raw in zip(corpus.ids, corpus.documents):
        write(tmp_path / "spamassassin" / name, raw)
    again = corpora.load("spamassassin", tmp_path)
    assert (again.ids, again.labels, again.documents) == (corpus.ids, corpus.labels, corpus.documents)
    assert again.extra["received"] == corpus.extra["received"]


@pytest.mark.corpus
def test_real_texts(held):
    webkb = held("webkb").of_classes(["student", "faculty", "course", "project"])
    assert len(webkb) == 4199
    # What is left of tags was written as text, with &lt;.
    left = [raw for raw, text in zip(webkb.documents, corpora.texts(webkb)) if "<html" in text.lower()]
    assert len(left) < 10
    assert all(b"&lt;" in raw.lower() for raw in left)
    news = held("news20")
    assert all(b"Newsgroups:" in raw for raw in news.documents)
    # 96 articles quote another one's headers in their body.
    assert sum("Newsgroups: " in text[:500] for text in corpora.texts(news)) < 100
    inboxes = held("ecml2006_a")
    assert sorted(set(inboxes.folds)) == [0, 1, 2]
    assert corpora.count_matrix(inboxes.documents).shape[0] == 7500
