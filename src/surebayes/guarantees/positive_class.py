"""The positive class of two: the one with limited false alarms, inferred from the labels' names."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

_POSITIVE = frozenset({"true", "yes", "pos", "positive", "spam", "junk", "phish", "phishing", "bad", "alarm"})
_NUMBERS = ({0.0, 1.0}, {-1.0, 1.0})


def positive_of(labels: "Iterable[Any]") -> "Any | None":
    """Return the positive one of at most two labels where their names say which it is.

    It must be spam, junk, phish, phishing, bad, alarm, true, yes, pos or positive, whatever its case, or 1 where the
    other is 0 or -1.

    Parameters
    ----------
    labels : iterable
        Labels of any type; repeated ones count once.

    Returns
    -------
    label or None
        None where the labels give no hint, contradict each other, or are more than two.

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
    """Return a label as a number, "1" and 1.0 alike; None for names, True and False among them."""
    try:
        return None if str(label) in ("True", "False") else float(label)
    except (TypeError, ValueError):
        return None


def doubt_about(labels: "Iterable[Any]", positive: "Any") -> str:
    """Return a sentence where the labels do not confirm the positive class that was taken by default; else "".

    Parameters
    ----------
    labels : iterable
        Labels; there is doubt about two only.
    positive : label
        The class that was taken.

    Examples
    --------
    >>> print(doubt_about(["fraud", "legit"], "legit"))  # doctest: +NORMALIZE_WHITESPACE
    The labels 'fraud' and 'legit' do not say which one is positive: took 'legit', so that alarms on 'fraud' are
    limited.
    >>> print(doubt_about(["spam", "ham"], "ham"))
    Took 'ham' as the positive class, so that alarms on 'spam' are limited; the labels suggest the reverse.
    >>> doubt_about(["ham", "spam"], "spam")
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
    """Warn where the labels do not confirm the positive class that was taken by default; of the same labels once.

    Parameters
    ----------
    labels, positive
        As for `doubt_about`.
    way_out : str
        How to choose, as the end of "To choose, ...".
    stacklevel : int
        As for `warnings.warn`: 1 is the caller of this function.
    """
    doubt = doubt_about(labels, positive)
    if doubt and doubt not in _warned:
        import warnings

        _warned.add(doubt)
        warnings.warn(f"{doubt} To choose, {way_out}.", UserWarning, stacklevel=stacklevel + 1)


def _quoted(label: "Any") -> str:
    return repr(str(label)) if isinstance(label, str) else str(label)
