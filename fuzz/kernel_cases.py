"""What fuzzing asks of the text kernel: for any bytes, the same answers as its Python reference.

Standard library only, so that it runs inside the fuzzer's own interpreter. The first four bytes choose the options, the
rest is documents; whatever the fuzzer finds can be given to `check` again, and `fuzz/regressions` keeps it.
"""

from array import array

from surebayes.kernels import _text as kernel
from surebayes.kernels.reference import text as reference

KINDS = ("word", "char", "char_wb", "bytes")
BETWEEN = b"\x1d"  # a character that text doesn't need


def seeds():
    """Yield inputs to start from: each kind, with letters that need care."""
    texts = [
        "The quick brown Fox, the fox. A B c",
        "ΟΔΥΣΣΕΥΣ ΑΣ Σ İstanbul straße ẞ K Å Ⱥ",
        "one\x1dtwo\x1d\x1dthree  \t\n spaces\x1c\x85\xa0\u3000end",
        "한국어 日本語 😀𐐀 é\u0301",
        "x" * 63 + "é" + "y" * 64 + " " + "word " * 30,
    ]
    for kind in range(4):
        for more in range(3):
            yield from (bytes([kind | more << 2, more, 7 * more, 3]) + text.encode() for text in texts)


def cut(module, options, documents):
    """Return the rows as dicts of term to count, and the vocabulary."""
    analyzer, vocabulary = module.Analyzer(**options), module.Vocabulary()
    lengths, ids, counts = (
        numbers(buffer, code) for buffer, code in zip(module.count(analyzer, vocabulary, documents, True), "IIi")
    )
    terms = vocabulary.terms(array("I", range(len(vocabulary))), True)
    rows, at = [], 0
    for length in lengths:
        rows.append({terms[i]: n for i, n in zip(ids[at : at + length], counts[at : at + length])})
        at += length
    return rows, sorted(terms), vocabulary.terms(vocabulary.order(), True), vocabulary


def numbers(buffer, code):
    """Return a buffer as a list of numbers."""
    return list(memoryview(buffer).cast("B").cast(code)) if len(memoryview(buffer)) else []


def hashes(module, options, documents, n_features, sign):
    """Return the hashed rows, sorted; None where a document can't be encoded."""
    try:
        lengths, ids, counts = module.hash_count(module.Analyzer(**options), n_features, documents, sign)
    except UnicodeEncodeError:
        return None
    lengths, pairs, at, rows = numbers(lengths, "I"), list(zip(numbers(ids, "I"), numbers(counts, "i"))), 0, []
    for length in lengths:
        rows.append(sorted(pairs[at : at + length]))
        at += length
    return rows


def scores(module, options, documents, vocabulary, how):
    """Score with a model made up from the options."""
    terms = len(vocabulary)
    known = terms - terms // 5  # some came after the model
    weighted, top = bool(how & 1), how >> 1 & 3
    stride = 2 + weighted + (top > 0)
    records = array("d", [(i * 7919 % 31) / 8 - 1 for i in range(known * stride)])
    scorer = module.Scorer(
        module.Analyzer(**options),
        vocabulary,
        0,
        records,
        array("d", [0.5, -0.25]),
        tf=("count", "binary", "log")[how % 3],
        weighted=weighted,
        columns=array("i", [(i * 31 % max(known, 1)) - (i % 11 == 3) * known for i in range(known)]),
        top=top,
        steepness=(None, 0.5)[how >> 3 & 1],
        norm=(None, "l1", "l2")[how >> 4 & 3 if how >> 4 & 3 < 3 else 0],
        pad=0.25,
    )
    return numbers(scorer.score(documents), "d")


def refused(function, *arguments):
    """Return what a function answers, or None where it refuses."""
    try:
        return function(*arguments)
    except (UnicodeEncodeError, ValueError):
        return None


def rows_of_views(module, options, documents, n_features, how):
    """Return rows of hashed columns, with terms and counts, and several views of the same words."""
    terms = [[str(document)[:5], "from:ann"] for document in documents] if how & 1 else None
    counted = bool(how & 2) and options["kind"] in ("word", "bytes")
    found = [refused(module.hash_rows, module.Analyzer(**options), n_features, documents, terms, counted)]
    if options["kind"] == "word" and all(isinstance(document, str) for document in documents):
        words = {"kind": "word", "low": 1, "high": options["high"], "shortest": options["shortest"]}
        columns = [bytes(4) * (len(document) % 3) for document in documents]
        views = [(1, True, None), (options["high"], False, columns), (options["high"], True, columns)]
        found += refused(module.hash_word_views, module.Analyzer(**words), n_features, documents, views) or [None]
    return [row and [None if part is None else bytes(part) for part in row] for row in found]


def vocabularies(module, terms):
    """Merge, select and look up the terms of vocabularies, and place rows of them."""
    first, second = module.Vocabulary(), module.Vocabulary()
    first.add(terms[::2])
    second.add(terms[1:])
    merged = numbers(first.merge(second), "I") if len(terms) > 1 else []
    chosen = first.select(array("I", range(len(first) - 1, -1, -1)))
    n = len(first)
    lengths, ids, counts = array("I", [n]), array("I", range(n)), array("i", range(1, n + 1))
    columns, values = array("i", [0] * n), array("d", [0.0] * n)
    placed = module.place(lengths, ids, counts, array("i", [i * 7 % 5 - 1 for i in ids]), columns, values, 0, "d")
    return merged, chosen.dump(), [first.find(term) for term in terms], placed, columns[:placed], sorted(values)


def check(data):
    """Compare kernel and reference on an input; AssertionError where they differ."""
    head, documents = data[:4].ljust(4, b"\0"), data[4:].split(BETWEEN)[:50]
    kind = KINDS[head[0] & 3]
    low = 1 + (head[1] & 3)
    options = {
        "kind": kind,
        "low": low,
        "high": low + (head[1] >> 2 & 3),
        "lowercase": bool(head[0] & 4),
        "shortest": 1 + (head[0] >> 3 & 1),
        "max_bytes": 1 + head[2] * 4,
        "stop_words": ["the", "ας", "one"] if head[0] & 16 else [],
    }
    if kind != "bytes" or head[0] & 32:
        documents = [document.decode("utf-8", "surrogateescape") for document in documents]
    ours, theirs = cut(kernel, options, documents), cut(reference, options, documents)
    assert ours[:3] == theirs[:3], (options, documents)
    n_features = (1, 3, 1000, 2**31 - 1)[head[3] & 3]
    hashed = hashes(kernel, options, documents, n_features, bool(head[3] & 4))
    if hashed is not None:  # the kernel refuses more: a surrogate in a document, not only in a token
        assert hashed == hashes(reference, options, documents, n_features, bool(head[3] & 4)), (options, documents)
    how = head[3] >> 2
    in_c, in_python = (rows_of_views(module, options, documents, n_features, how) for module in (kernel, reference))
    for mine, theirs_too in zip(in_c, in_python):  # what the kernel refuses the reference may take
        assert mine is None or mine == theirs_too, (options, documents)
    some = [term.encode("latin-1") for term in ours[1][:40]]
    found = [vocabularies(module, some) for module in (kernel, reference)]
    assert [tuple(map(bytes, one[1])) for one in found].count(tuple(map(bytes, found[0][1]))) == 2, some
    assert (found[0][0], *found[0][2:]) == (found[1][0], *found[1][2:]), (some, found)
    if len(ours[3]) == len(theirs[3]):
        vocabulary = kernel.Vocabulary(*theirs[3].dump())  # the same ids in both
        for a, b in zip(
            scores(kernel, options, documents, vocabulary, how), scores(reference, options, documents, theirs[3], how)
        ):
            assert abs(a - b) <= 1e-9 * (1 + abs(b)), (options, documents, a, b)
