"""Word counts as in the papers, with token rules, stop words, stemming and a cut-off for rare words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import CountVectorizer

from surebayes.research.laboratory.porter import stem


@dataclass(frozen=True, slots=True)
class Words:
    """Rules for counting words.

    Attributes
    ----------
    pattern : str
        The regular expression of a word, for lower-cased text.
    stop_words : bool
        Whether to leave out English stop words (scikit-learn's list).
    stems : bool
        Whether to count Porter stems instead of words.
    min_count : int
        Minimum number of occurrences of a word in all texts.
    subject : bool
        Whether to count the words of an article's subject too.
    ngrams : (int, int)
        Lengths of the word or character n-grams.
    characters : bool
        Whether to count character n-grams within words, instead of words.

    Examples
    --------
    >>> from surebayes.research.laboratory.words import Words
    >>> X, terms = Words(r"[a-z]+", stop_words=True, stems=True, min_count=2).count(["The cats sat", "A cat, a mat"])
    >>> terms, X.toarray().tolist()
    (['cat'], [[1], [1]])
    """

    pattern: str = r"\w+"
    stop_words: bool = False
    stems: bool = False
    min_count: int = 1
    subject: bool = False
    ngrams: tuple[int, int] = (1, 1)
    characters: bool = False

    def settings(self) -> dict[str, object]:
        """Return the settings as a mapping, for use in a cache key."""
        return asdict(self)

    def count(self, texts: Sequence[str]) -> tuple[csr_array, list[str]]:
        """Return the word counts of texts as a sparse matrix, and the word of each column."""
        vectorizer = CountVectorizer(
            analyzer="char_wb" if self.characters else "word",
            ngram_range=self.ngrams,
            token_pattern=None if self.characters else self.pattern,
            stop_words="english" if self.stop_words else None,
            dtype=np.int32,
        )
        X = csr_array(vectorizer.fit_transform(texts))
        terms = vectorizer.get_feature_names_out().tolist()
        if self.stems:
            X, terms = _merged(X, [stem(term) for term in terms])
        frequent = np.flatnonzero(X.sum(axis=0) >= self.min_count)
        if len(frequent) < len(terms):
            X, terms = csr_array(X[:, frequent]), [terms[k] for k in frequent]
        X.sort_indices()
        return X, terms


def _merged(X: csr_array, names: list[str]) -> tuple[csr_array, list[str]]:
    """Add up the columns that have the same name."""
    distinct, place = np.unique(np.array(names), return_inverse=True)
    shape = len(names), len(distinct)
    rows, columns = np.arange(len(names), dtype=np.int32), place.astype(np.int32)
    return csr_array(X @ csr_array((np.ones(len(names), np.int32), (rows, columns)), shape=shape)), distinct.tolist()
