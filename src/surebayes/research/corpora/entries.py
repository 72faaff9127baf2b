"""Catalogue of the corpora: publisher, licence, contents, source, published counts, papers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

KOLCZ_YIH = "Kolcz & Yih 2007"
KIM = "Kim, Seo & Rim 2003"
FRANK = "Frank & Bouckaert 2006"
JUNEJO = "Junejo & Karim 2008"
CHOWDHURY = "Kolcz & Chowdhury 2005"


def _counts(**counts: int) -> Mapping[str, int]:
    return MappingProxyType(counts)


@dataclass(frozen=True, slots=True)
class Entry:
    """A corpus in the catalogue.

    Attributes
    ----------
    name : str
        The name for `load`.
    title, publisher, licence, contents : str
        Full name, publisher, licence or agreement, and contents.
    obtain : str
        Where to get it, or why it isn't available.
    obtainable : bool
        Whether anybody can get it.
    used_by : tuple of str
        The papers that use it.
    stands_in_for : tuple of str
        The unavailable corpora, used in the papers, that it replaces.
    kind : str
        Type of document: "mail" (RFC 822 bytes), "newsgroup" (article with headers, bytes), "html" (HTTP headers
        and HTML, bytes), "text" (str) or "counts" (str of ``term:count`` pairs).
    parquet, fold : str or None
        The Parquet file that `load` looks for first, and its column with the fold.
    layout : str or None
        The publisher's format, which `load` reads if there is no Parquet file.
    folders : tuple of str
        Usual names of the unpacked folder or file.
    documents : int or None
        The published number of documents.
    classes, splits : mapping
        The published numbers of documents in each class and split.
    notes : tuple of str
        Caveats.
    """

    name: str
    title: str
    publisher: str
    licence: str
    contents: str
    obtain: str
    used_by: tuple[str, ...] = ()
    stands_in_for: tuple[str, ...] = ()
    obtainable: bool = True
    kind: str = "text"
    parquet: str | None = None
    fold: str = "fold"
    layout: str | None = None
    folders: tuple[str, ...] = ()
    documents: int | None = None
    classes: Mapping[str, int] = field(default_factory=_counts)
    splits: Mapping[str, int] = field(default_factory=_counts)
    notes: tuple[str, ...] = ()


_GROUPS = (
    "alt.atheism comp.graphics comp.os.ms-windows.misc comp.sys.ibm.pc.hardware comp.sys.mac.hardware comp.windows.x "
    "misc.forsale rec.autos rec.motorcycles rec.sport.baseball rec.sport.hockey sci.crypt sci.electronics sci.med "
    "sci.space soc.religion.christian talk.politics.guns talk.politics.mideast talk.politics.misc talk.religion.misc"
)
_TREC_AGREEMENT = "research use only, after agreeing to the publisher's usage agreement; not to be passed on"
_WATERLOO = "G. V. Cormack and T. R. Lynam, University of Waterloo, for the TREC spam track"
_ECML_FORMAT = "bags of words: one message per line, word numbers and counts; no text"
_AUEB = "Athens University of Economics and Business (Androutsopoulos, Metsis, Paliouras et al.)"

_ALL = (
    Entry(
        "hotmail",
        "Hotmail",
        "Microsoft; never published",
        "private",
        "915,000 messages from a mail service, in chronological order: 765,000 for training, 150,000 for testing",
        "not available; SpamAssassin and Enron-Spam stand in for it",
        (KOLCZ_YIH,),
        obtainable=False,
        kind="mail",
        documents=915_000,
        splits=_counts(train=765_000, test=150_000),
    ),
    Entry(
        "trec05p",
        "TREC 2005 public spam corpus (trec05p-1)",
        _WATERLOO,
        _TREC_AGREEMENT,
        "92,189 raw messages in order of arrival, ham from Enron employees' mailboxes",
        "agree to the terms at plg.uwaterloo.ca/~gvcormac/treccorpus and unpack trec05p-1.tgz",
        (KOLCZ_YIH,),
        kind="mail",
        layout="trec",
        folders=("trec05p-1", "trec05p"),
        documents=92_189,
        classes=_counts(ham=39_399, spam=52_790),
        notes=("The paper's Table 1 adds up to 92,182, seven fewer than the publisher's index.",),
    ),
    Entry(
        "trec06p",
        "TREC 2006 public spam corpus, English (trec06p)",
        _WATERLOO,
        _TREC_AGREEMENT,
        "37,822 raw messages in order of arrival",
        "agree to the terms at plg.uwaterloo.ca/~gvcormac/treccorpus06 and unpack trec06p.tgz",
        (KOLCZ_YIH,),
        kind="mail",
        layout="trec",
        folders=("trec06p",),
        documents=37_822,
        classes=_counts(ham=12_910, spam=24_912),
        notes=("The paper's Table 1 adds up to 37,821, one fewer than the publisher's index.",),
    ),
    Entry(
        "trec07p",
        "TREC 2007 public spam corpus (trec07p)",
        _WATERLOO,
        _TREC_AGREEMENT,
        "75,419 raw messages: all that one server received from April to July 2007",
        "agree to the terms at plg.uwaterloo.ca/~gvcormac/treccorpus07 and unpack trec07p.tgz",
        stands_in_for=("hotmail",),
        kind="mail",
        layout="trec",
        folders=("trec07p",),
        documents=75_419,
        classes=_counts(ham=25_220, spam=50_199),
    ),
    Entry(
        "reuters21578",
        "Reuters-21578, Distribution 1.0",
        "Reuters and Carnegie Group; D. D. Lewis",
        'research use only; acknowledge "Reuters-21578, Distribution 1.0"',
        "21,578 newswire stories from 1987, each with zero or more of 120 topics; ModApte split",
        "www.daviddlewis.com/resources/testcollections/reuters21578 (reuters21578.tar.gz)",
        (KIM, FRANK, CHOWDHURY),
        parquet="reuters21578.parquet",
        layout="reuters",
        folders=("reuters21578",),
        documents=21_578,
        splits=_counts(train=9_603, test=3_299, unused=8_676),
        notes=(
            "Multi-label. 90 categories have at least one training and one test document (Kim; Kolcz & Chowdhury).",
            "Kolcz & Chowdhury's 101 categories and 10,724 documents come from a subset that can't be reconstructed.",
        ),
    ),
    Entry(
        "koreannews2002",
        "KoreanNews2002",
        "built by the authors of the paper from news portals; never published",
        "private",
        "15,000 Korean news articles from 2002 in chronological order, each in one of 46 classes",
        "not available; klue_ynat and korean_news_1600 stand in for it",
        (KIM,),
        obtainable=False,
        documents=15_000,
        splits=_counts(train=10_000, test=5_000),
    ),
    Entry(
        "webkb",
        "WebKB, the 4 Universities data set",
        "CMU World Wide Knowledge Base project",
        "freely available; no licence stated",
        "8,282 web pages from computer science departments, collected in January 1997, seven classes",
        "www.cs.cmu.edu/afs/cs.cmu.edu/project/theo-20/www/data (webkb-data.gtar.gz)",
        (FRANK,),
        kind="html",
        parquet="webkb.parquet",
        layout="webkb",
        folders=("webkb",),
        documents=8_282,
        classes=_counts(student=1641, faculty=1124, course=930, project=504, department=182, staff=137, other=3764),
        notes=("The paper uses the four main classes (4,199 pages): student, faculty, course, project.",),
    ),
    Entry(
        "industry_sector",
        "Industry Sector",
        "Market Guide and A. McCallum, University of Massachusetts",
        "freely available; no licence stated",
        "9,649 company web pages in a hierarchy of 105 industries",
        "people.cs.umass.edu/~mccallum/data (sector.tar.gz), if it is still available there",
        (FRANK,),
        kind="html",
        layout="tree",
        folders=("sector", "industry_sector"),
        documents=9_649,
        notes=("A class is a folder that holds pages; the paper has 105.",),
    ),
    Entry(
        "news20",
        "20 Newsgroups, original",
        "K. Lang; J. Rennie",
        "freely available; no licence stated",
        "19,997 Usenet articles from 1992-93 with all headers, 20 groups of 1,000 (soc.religion.christian 997)",
        "qwone.com/~jason/20Newsgroups (20news-19997.tar.gz)",
        (FRANK, CHOWDHURY),
        stands_in_for=("sraa",),
        kind="newsgroup",
        parquet="news20_19997.parquet",
        layout="newsgroups",
        folders=("20_newsgroups", "20news-19997", "news20"),
        documents=19_997,
        classes=MappingProxyType({group: 997 if "christian" in group else 1000 for group in _GROUPS.split()}),
        notes=(
            "531 articles duplicate an earlier one, so random splits leak.",
            "The headers name the group: use newsgroup_text.",
        ),
    ),
    Entry(
        "news20_bydate",
        "20 Newsgroups, bydate",
        "J. Rennie",
        "freely available; no licence stated",
        "18,846 of the articles, without duplicates and most headers, split by date",
        "qwone.com/~jason/20Newsgroups (20news-bydate.tar.gz)",
        kind="newsgroup",
        parquet="news20_bydate.parquet",
        layout="newsgroups_bydate",
        folders=("20news-bydate",),
        documents=18_846,
        splits=_counts(train=11_314, test=7_532),
        notes=("Its articles have no Date header: when read from folders, they are ordered by file name.",),
    ),
    Entry(
        "ecml2006_a",
        "ECML/PKDD 2006 discovery challenge, task A",
        "S. Bickel, Humboldt-Universität zu Berlin",
        "freely available; no licence stated",
        f"4,000 training messages, three inboxes of 2,500; {_ECML_FORMAT}",
        "the challenge's page, www.ecmlpkdd2006.org/challenge.html, if it is still available there",
        (JUNEJO,),
        kind="counts",
        parquet="ecml2006.parquet",
        layout="ecml_a",
        folders=("ecml2006", "ecml2006_a", "task_a"),
        documents=11_500,
        splits=_counts(train=4_000, test=7_500),
        notes=("If the training file is missing, train on two inboxes and test on the third.",),
    ),
    Entry(
        "ecml2006_a_tune",
        "ECML/PKDD 2006 discovery challenge, task A, tuning files",
        "S. Bickel, Humboldt-Universität zu Berlin",
        "freely available; no licence stated",
        f"4,000 training messages, one inbox of 2,500; {_ECML_FORMAT}",
        "the challenge's page, www.ecmlpkdd2006.org/challenge.html, if it is still available there",
        kind="counts",
        parquet="ecml2006.parquet",
        layout="ecml_a_tune",
        folders=("ecml2006", "ecml2006_a", "task_a"),
        documents=6_500,
        splits=_counts(train=4_000, test=2_500),
        notes=("Its word numbers differ from those in the other files; never mix the two.",),
    ),
    Entry(
        "ecml2006_b",
        "ECML/PKDD 2006 discovery challenge, task B",
        "S. Bickel, Humboldt-Universität zu Berlin",
        "freely available; no licence stated",
        f"100 training messages, 15 inboxes of 400; {_ECML_FORMAT}",
        "the challenge's page, www.ecmlpkdd2006.org/challenge.html, if it is still available there",
        (JUNEJO,),
        kind="counts",
        parquet="ecml2006.parquet",
        layout="ecml_b",
        folders=("ecml2006", "ecml2006_b", "task_b"),
        documents=6_100,
        splits=_counts(train=100, test=6_000),
    ),
    Entry(
        "ecml2006_b_tune",
        "ECML/PKDD 2006 discovery challenge, task B, tuning files",
        "S. Bickel, Humboldt-Universität zu Berlin",
        "freely available; no licence stated",
        f"100 training messages, two inboxes of 400; {_ECML_FORMAT}",
        "the challenge's page, www.ecmlpkdd2006.org/challenge.html, if it is still available there",
        kind="counts",
        parquet="ecml2006.parquet",
        layout="ecml_b_tune",
        folders=("ecml2006", "ecml2006_b", "task_b"),
        documents=900,
        splits=_counts(train=100, test=800),
        notes=("Its word numbers differ from those in the other files; never mix the two.",),
    ),
    Entry(
        "movie_reviews",
        "Movie review polarity, v2.0",
        "B. Pang and L. Lee, Cornell University",
        "CC BY 4.0",
        "1,000 positive and 1,000 negative reviews, tokenised and lower-cased, in ten folds",
        "www.cs.cornell.edu/people/pabo/movie-review-data (review_polarity.tar.gz)",
        (JUNEJO,),
        parquet="movie_reviews_v2.parquet",
        layout="reviews",
        folders=("review_polarity", "movie_reviews"),
        documents=2_000,
        classes=_counts(neg=1000, pos=1000),
        notes=('The paper\'s "2000 positive and 2000 negative" is a slip: there are 1,000 of each.',),
    ),
    Entry(
        "sraa",
        "SRAA: simulated/real/aviation/auto",
        "A. McCallum, University of Massachusetts",
        "freely available; no licence stated",
        "73,218 Usenet articles in four classes",
        "people.cs.umass.edu/~mccallum/data (sraa.tar.gz), if it is still available there; news20 stands in for it",
        (JUNEJO,),
        kind="newsgroup",
        layout="sraa",
        folders=("sraa",),
        documents=73_218,
    ),
    Entry(
        "trec_ap",
        "TREC-AP",
        "Associated Press, in TIPSTER: Linguistic Data Consortium; categories by D. D. Lewis",
        "a paid licence from the Linguistic Data Consortium",
        "209,783 newswire stories of 1988-90 in 20 categories",
        "only by licence, and the lists of categories and splits aren't part of it: there is no reader",
        (CHOWDHURY,),
        obtainable=False,
        documents=209_783,
    ),
    Entry(
        "spamassassin",
        "SpamAssassin public corpus",
        "Apache SpamAssassin project (J. Mason)",
        "freely available, copyright remains with the senders; a packaged edition is under PDDL/CC0",
        "6,046 raw messages of 2001-2003, including 250 hard ham",
        "spamassassin.apache.org/old/publiccorpus (the five archives of 20030228 and 20050311)",
        stands_in_for=("hotmail", "trec05p", "trec06p"),
        kind="mail",
        parquet="spamassassin.parquet",
        layout="spamassassin",
        folders=("spamassassin", "publiccorpus"),
        documents=6_046,
        classes=_counts(ham=4_150, spam=1_896),
        notes=(
            "The publisher's readme still says 6,047: one mislabelled message was removed from spam_2 in 2005.",
            "Ordered by the topmost Received header, or by Date if there is none.",
        ),
    ),
    Entry(
        "enron_spam",
        "Enron-Spam, preprocessed",
        _AUEB,
        "free for research; acknowledge Metsis, Androutsopoulos & Paliouras 2006",
        "33,716 messages, ham from six Enron employees and spam from other sources; subject and body only",
        "www2.aueb.gr/users/ion/data/enron-spam (enron1 to enron6, preprocessed)",
        stands_in_for=("hotmail", "trec05p", "trec06p"),
        kind="mail",
        parquet="enron_spam.parquet",
        layout="enron",
        folders=("enron_spam", "enron-spam", "preprocessed"),
        documents=33_716,
        classes=_counts(ham=16_545, spam=17_171),
        notes=(
            "Use the order, never the date in the file name: the dates separate the classes.",
            "3,253 messages duplicate an earlier one, so random splits leak.",
            "Each file consists of a Subject line and the body, with no blank line between them: use `mails`.",
        ),
    ),
    Entry(
        "lingspam",
        "Ling-Spam",
        _AUEB,
        "freely available; acknowledge Androutsopoulos et al. 2000",
        "2,893 messages from the Linguist List, plus spam, in ten folds",
        "www2.aueb.gr/users/ion/data (lingspam_public.tar.gz)",
        kind="text",
        parquet="lingspam.parquet",
        fold="part",
        layout="lingspam",
        folders=("lingspam_public", "lingspam"),
        documents=2_893,
        classes=_counts(ham=2_412, spam=481),
    ),
    Entry(
        "sms_spam",
        "SMS Spam Collection v.1",
        "T. A. Almeida and J. M. Gómez Hidalgo; UCI machine learning repository",
        "CC BY 4.0",
        "5,574 text messages in English",
        "archive.ics.uci.edu, data set 228 (SMSSpamCollection)",
        parquet="sms_spam.parquet",
        layout="sms",
        folders=("SMSSpamCollection", "sms_spam", "smsspamcollection"),
        documents=5_574,
        classes=_counts(ham=4_827, spam=747),
        notes=("414 messages are copies of an earlier one (403 of them byte for byte): random splits leak.",),
    ),
    Entry(
        "prompt_injections",
        "Prompt injections of deepset",
        "deepset, at huggingface.co",
        "Apache 2.0 (its card also names CC BY 4.0)",
        "662 prompts to a language model: legitimate requests, and attempts to override instructions",
        "huggingface.co/datasets/deepset/prompt-injections, into a folder prompt-injections",
        layout="prompt_injections",
        folders=("prompt_injections", "prompt-injections"),
        documents=662,
        splits=_counts(train=546, test=116),
        notes=(
            "Columns text and label (1 is an injection); files data/train-*.parquet and data/test-*.parquet.",
            "Fewer than 120 test prompts: enough for a ranking, far too few for a promise of 0.1%.",
        ),
    ),
    Entry(
        "civil_comments",
        "Civil Comments",
        "Civil Comments and Jigsaw, at huggingface.co",
        "CC0 1.0",
        "1,999,514 comments on English news sites, 2015-2017, with the share of annotators who found each one toxic",
        "huggingface.co/datasets/google/civil_comments, into a folder civil_comments",
        layout="civil_comments",
        folders=("civil_comments", "civil-comments"),
        documents=1_999_514,
        splits=_counts(train=1_804_874, validation=97_320, test=97_320),
        notes=(
            "Columns text, toxicity and six more; files data/train-*.parquet, data/validation-*, data/test-*.",
            "A comment counts as toxic if at least half of its annotators called it toxic.",
        ),
    ),
    Entry(
        "klue_ynat",
        "KLUE YNAT: headlines of the Yonhap news agency",
        "KLUE benchmark; this edition by DACON",
        "CC BY-SA 4.0",
        "45,654 Korean headlines from 2016-2020 in seven classes",
        "klue-benchmark.com (ynat-v1.1), or DACON's edition of its training part as a Parquet file",
        stands_in_for=("koreannews2002",),
        parquet="klue_ynat_dacon_train.parquet",
        layout="ynat",
        folders=("ynat-v1.1", "klue_ynat"),
        documents=45_654,
        notes=("KLUE's own training file, ynat-v1.1_train.json, has 45,678 headlines: 24 more.",),
    ),
    Entry(
        "korean_news_1600",
        "Korean news articles",
        "unknown; collected from news sites",
        "press text with rights reserved: research use only",
        "1,600 articles, 200 in each of eight classes; title TAB body",
        "only as a Parquet file (columns id, labels, order, text); no publisher is known",
        stands_in_for=("koreannews2002",),
        parquet="korean_news_1600.parquet",
        documents=1_600,
        classes=MappingProxyType(
            dict.fromkeys(("정치", "경제", "사회", "생활/문화", "세계", "기술/IT", "연예", "스포츠"), 200)
        ),
    ),
)

ENTRIES: Mapping[str, Entry] = MappingProxyType({entry.name: entry for entry in _ALL})
