"""Porter's stemmer (M. F. Porter 1980, "An algorithm for suffix stripping")."""

from __future__ import annotations

import re
from functools import lru_cache

# Porter writes a word as [C](VC)^m[V]; y is a vowel after a consonant.
_MEASURE = re.compile("v+c+")


@lru_cache(maxsize=1 << 16)
def _shape(stem: str) -> str:
    """Return a stem with each vowel replaced by "v" and each consonant by "c"."""
    shape = ""
    for letter in stem:
        vowel = letter in "aeiou" or (letter == "y" and shape[-1:] == "c")
        shape += "v" if vowel else "c"
    return shape


def _measure(stem: str) -> int:
    return len(_MEASURE.findall(_shape(stem)))


def _ends_in_double_consonant(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _shape(word)[-1] == "c"


def _short(word: str) -> bool:
    """Whether a word ends in consonant, vowel, consonant other than w, x or y: "hop", but not "snow"."""
    return _shape(word)[-3:] == "cvc" and word[-1] not in "wxy"


_STEP_2 = dict(
    pair.split(":")
    for pair in [
        "ational:ate",
        "tional:tion",
        "enci:ence",
        "anci:ance",
        "izer:ize",
        "abli:able",
        "alli:al",
        "entli:ent",
        "eli:e",
        "ousli:ous",
        "ization:ize",
        "ation:ate",
        "ator:ate",
        "alism:al",
        "iveness:ive",
        "fulness:ful",
        "ousness:ous",
        "aliti:al",
        "iviti:ive",
        "biliti:ble",
    ]
)
_STEP_3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_STEP_4 = [
    "al",
    "ance",
    "ence",
    "er",
    "ic",
    "able",
    "ible",
    "ant",
    "ement",
    "ment",
    "ent",
    "ion",
    "ou",
    "ism",
    "ate",
    "iti",
    "ous",
    "ive",
    "ize",
]


def _longest(word: str, suffixes: tuple[str, ...]) -> str | None:
    endings = [suffix for suffix in suffixes if word.endswith(suffix)]
    return max(endings, key=len) if endings else None


def _step_1(word: str) -> str:
    """Strip the endings of plurals and participles."""
    if word.endswith(("sses", "ies")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    if word.endswith("eed"):
        word = word[:-1] if _measure(word[:-3]) > 0 else word
    else:
        suffix = _longest(word, ("ed", "ing"))
        if suffix and "v" in _shape(word[: -len(suffix)]):
            word = _restored(word[: -len(suffix)])
    if word.endswith("y") and "v" in _shape(word[:-1]):
        word = word[:-1] + "i"
    return word


def _restored(stem: str) -> str:
    """Restore a stem after -ed or -ing was stripped: "hopp" becomes "hop", "hop" from "hoping" becomes "hope"."""
    if stem.endswith(("at", "bl", "iz")):
        return stem + "e"
    if _ends_in_double_consonant(stem) and stem[-1] not in "lsz":
        return stem[:-1]
    return stem + "e" if _measure(stem) == 1 and _short(stem) else stem


def _replaced(word: str, endings: dict[str, str]) -> str:
    suffix = _longest(word, tuple(endings))
    if suffix and _measure(word[: -len(suffix)]) > 0:
        return word[: -len(suffix)] + endings[suffix]
    return word


def _step_4(word: str) -> str:
    suffix = _longest(word, tuple(_STEP_4))
    if suffix is None:
        return word
    stem = word[: -len(suffix)]
    allowed = _measure(stem) > 1 and (suffix != "ion" or stem.endswith(("s", "t")))
    return stem if allowed else word


def _step_5(word: str) -> str:
    if word.endswith("e"):
        stem = word[:-1]
        m = _measure(stem)
        if m > 1 or (m == 1 and not _short(stem)):
            word = stem
    return word[:-1] if _measure(word) > 1 and _ends_in_double_consonant(word) and word.endswith("l") else word


def stem(word: str) -> str:
    """Return the stem of a lower-case English word; words of one or two letters are unchanged.

    Examples
    --------
    >>> from surebayes.research.laboratory.porter import stem
    >>> [stem(word) for word in ["caresses", "hopping", "relational", "generalizations", "sky"]]
    ['caress', 'hop', 'relat', 'gener', 'sky']
    """
    if len(word) < 3:
        return word
    word = _replaced(_replaced(_step_1(word), _STEP_2), _STEP_3)
    return _step_5(_step_4(word))
