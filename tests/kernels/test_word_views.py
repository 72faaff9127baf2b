"""Several rows of a document, its words cut once: those of one call for each view, in C and in Python."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import word_documents
from surebayes.kernels.reference import text as reference

compiled = pytest.importorskip("surebayes.kernels._text", reason="the kernel is not built")
KERNELS = [compiled, reference]


def analyzer(module, high):
    return module.Analyzer("word", 1, high, shortest=1)


@given(word_documents, st.integers(1, 4), st.sampled_from([2, 97, 2**22, 2**31 - 1]), st.data())
@settings(max_examples=150, deadline=None)
def test_rows_are_those_of_each_view_alone(texts, high, width, data):
    terms = [b"".join((c % width).to_bytes(4, "little") for c in range(len(text) % 4)) for text in texts]
    kinds = st.tuples(st.integers(1, high), st.booleans(), st.sampled_from([None, terms]))
    views = data.draw(st.lists(kinds, max_size=4))
    both = [module.hash_word_views(analyzer(module, high), width, texts, views) for module in KERNELS]
    for (most, counted, more), *results in zip(views, *both):
        alone = compiled.hash_rows(analyzer(compiled, most), width, texts, more)
        for lengths, columns, counts in results:
            assert (bytes(lengths), bytes(columns)) == tuple(map(bytes, alone))
            assert (counts is not None) == counted
        if counted:
            assert bytes(results[0][2]) == bytes(results[1][2])
            tokens = sum(len(analyzer(reference, most).tokens(text)) for text in texts)
            assert sum(memoryview(results[0][2]).cast("B").cast("I")) == tokens + (
                sum(map(len, terms)) // 4 if more else 0
            )


@pytest.mark.parametrize(
    ("width", "views"),
    [
        (0, []),
        (2**31, []),
        (8, [(0, False, None)]),
        (8, [(3, False, None)]),
        (8, [(1, False, [])]),
        (8, [(1, False, [b"123"])]),
        (8, [(1, False, [b"\x08\0\0\0"])]),
        (8, [(1, False, [3])]),
        (8, [7]),
        (8, [(1,)]),
        (8, ()),
    ],
    ids=str,
)
def test_what_can_not_be_cut_is_refused(width, views):
    with pytest.raises((ValueError, TypeError)):
        compiled.hash_word_views(analyzer(compiled, 2), width, ["a b"], views)


def test_other_analyzers_are_refused():
    for wrong in (compiled.Analyzer("word", 2, 3), compiled.Analyzer("bytes", 1, 3), compiled.Analyzer("char", 1, 3)):
        with pytest.raises(ValueError, match="some words"):
            compiled.hash_word_views(wrong, 8, ["a"], [])
    with pytest.raises(TypeError):
        compiled.hash_word_views(analyzer(compiled, 1), 8, "a", [])
