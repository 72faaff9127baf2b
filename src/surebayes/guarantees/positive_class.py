"""Inference of the positive class, the class with limited false alarms, from the names of two labels."""

from collections.abc import Iterable
from typing import Any

_POSITIVE = frozenset({
    "true", "yes", "pos", "positive", "spam", "junk", "phish", "phishing", "bad", "alarm",
    "attack", "injection", "jailbreak", "toxic", "malicious",
})  # fmt: skip
_NUMBERS = ({0.0, 1.0}, {-1.0, 1.0})


def positive_of(labels: "Iterable[Any]") -> "Any | None":
    """Return the positive one of two labels if their names reveal it.

    It must be spam, junk, phish, phishing, bad, alarm, attack, injection, jailbreak, toxic, malicious, true, yes, pos
    or positive in any case, or 1 if the other label is 0 or -1.

    Parameters
    ----------
    labels : iterable
        Labels of any type; repetitions are ignored.

    Returns
    -------
    label or None
        None if the labels give no hint, contradict each other, or are more than two.

    Examples
    --------
    >>> positive_of(["spam", "ham", "spam"]), positive_of(["Bad", "fine"]), positive_of(["0", "1"])
    ('spam', 'Bad', '1')
    >>> positive_of(["fraud", "legit"]), positive_of([1, 2]), positive_of(["spam", "junk"])
    (None, None, None)
    """
    distinct = list(dict.fromkeys(labels))
    if len(distinct) > 2:
        return None
    numbers = [_number(label) for label in distinct]
    if set(numbers) in _NUMBERS:
        return distinct[numbers.index(1.0)]
    telling = [label for label in distinct if str(label).strip().lower() in _POSITIVE]
    return telling[0] if len(telling) == 1 else None


def _number(label: "Any") -> "float | None":
    """Return a label as a number, "1" and 1.0 alike; None for names and booleans."""
    try:
        return None if str(label) in ("True", "False") else float(label)
    except (TypeError, ValueError):
        return None


def ambiguity_of(labels: "Iterable[Any]", positive: "Any") -> str:
    """Return a sentence if the labels don't confirm the default positive class, else "".

    Parameters
    ----------
    labels : iterable
        The labels; "" is returned unless there are two.
    positive : label
        The class chosen by default.

    Examples
    --------
    >>> print(ambiguity_of(["fraud", "legit"], "legit"))  # doctest: +NORMALIZE_WHITESPACE
    The labels 'fraud' and 'legit' do not say which one is positive: took 'legit', so that alarms on 'fraud' are
    limited.
    >>> print(ambiguity_of(["spam", "ham"], "ham"))
    Took 'ham' as the positive class, so that alarms on 'spam' are limited; the labels suggest the reverse.
    >>> ambiguity_of(["ham", "spam"], "spam")
    ''
    """
    distinct = list(dict.fromkeys(labels))
    hint = positive_of(distinct)
    if len(distinct) != 2 or (hint is not None and hint == positive):
        return ""
    other = distinct[0] if distinct[1] == positive else distinct[1]
    taken, limited = _quoted(positive), f"so that alarms on {_quoted(other)} are limited"
    if hint is not None:
        return f"Took {taken} as the positive class, {limited}; the labels suggest the reverse."
    first, second = map(_quoted, distinct)
    return f"The labels {first} and {second} do not say which one is positive: took {taken}, {limited}."


_warned: "set[str]" = set()


def warn_once(labels: "Iterable[Any]", positive: "Any", way_out: str, stacklevel: int) -> None:
    """Warn if the labels don't confirm the default positive class; once per pair of labels.

    Parameters
    ----------
    labels, positive
        As for `ambiguity_of`.
    way_out : str
        The advice for choosing the class, as the end of the sentence "To choose, ...".
    stacklevel : int
        As for `warnings.warn`: 1 is the caller of this function.
    """
    doubt = ambiguity_of(labels, positive)
    if doubt and doubt not in _warned:
        import warnings

        _warned.add(doubt)
        warnings.warn(f"{doubt} To choose, {way_out}.", UserWarning, stacklevel=stacklevel + 1)


def _quoted(label: "Any") -> str:
    return repr(str(label)) if isinstance(label, str) else str(label)
