"""What a training came to: its record, the sentences beside it, and whether what was read can be mail."""

from __future__ import annotations

from itertools import islice

TYPE_CHECKING = False  # no typing, no `re`: a script's training starts with this module
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any


class HeaderCheck:
    """Looks at whether the first documents of a training are mail, as a filter takes them to be unless it is told.

    Examples
    --------
    >>> check = HeaderCheck()
    >>> len(list(check.watched([("cheap pills, buy now", "spam"), ("see you at noon", "ham")])))
    2
    >>> check.without_header
    True
    """

    _LOOKED_AT = 100

    def __init__(self) -> None:
        self._seen = self._with_header = 0

    def watched(self, documents: Iterable[tuple[bytes | str, Any]]) -> Iterator[tuple[bytes | str, Any]]:
        """Yield the documents as they come."""
        rest = iter(documents)
        for document in islice(rest, self._LOOKED_AT):
            self._seen += 1
            self._with_header += starts_like_mail(document[0])
            yield document
        yield from rest

    @property
    def without_header(self) -> bool:
        """Whether most of what was seen can't be mail."""
        return self._with_header < self._seen / 2


_VISIBLE = bytes(range(ord("!"), ord("~") + 1))


def starts_like_mail(document: bytes | str) -> bool:
    """Return whether the first line that isn't empty is a field of a header, or an mbox's envelope.

    Examples
    --------
    >>> [starts_like_mail(start) for start in (b"Subject: hello", "From a@b.example Mon Nov 16", "Hello, all")]
    [True, True, False]
    """
    start = document[:1000] if isinstance(document, bytes) else document[:1000].encode("utf-8", "replace")
    line = start.lstrip()
    if line.startswith((b"From ", b">From ")):
        return True
    name, colon, _ = line.partition(b":")
    name = name.rstrip(b" \t")
    return bool(colon and name and not name.translate(None, _VISIBLE))


def told_apart(classes: Sequence[str], scores: Sequence[Sequence[float]], labels: Sequence[str]) -> dict[str, Any]:
    """Return how many documents were set aside, and how well they are told apart: of two classes, if both are there.

    Parameters
    ----------
    classes : sequence of str
        The filter's classes.
    scores, labels : sequence
        The scores of each document that was set aside, and its class.

    Examples
    --------
    >>> told_apart(["ham", "spam"], [[-1.0], [2.0]], ["ham", "spam"])["figures"]["auc"]["value"]
    1.0
    """
    figures: dict[str, Any] = {}
    if len(classes) == 2 and len(set(labels)) == 2:
        from surebayes.filter.figures import quick_figures

        measured = quick_figures([label == classes[1] for label in labels], [score for (score,) in scores])
        figures = {name: figure._asdict() for name, figure in measured.items()}
    return {"documents": len(labels), "figures": figures}


def record(
    done: Mapping[str, int], skipped: int, documents: Mapping[str, int], model: str, held_out: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what `surebayes train` prints as JSON.

    Parameters
    ----------
    done : mapping from str to int
        What `Filter.train` returned.
    skipped : int
        Files and rows that were left out.
    documents : mapping from str to int
        How many documents of each class the filter knows.
    model : str
        The version of the model.
    held_out : mapping
        What `told_apart` returned.
    """
    return {**done, "skipped": skipped, "documents": documents, "model": model, "held_out": held_out}


def about_documents(no_mail: bool, contradictory: int) -> Iterator[str]:
    """Yield what is to be said of the documents of a training: that they are `no_mail`, or of more than one class."""
    if no_mail:
        yield (
            "Most of these documents have no mail header, and were read as mail. If they are plain text, train a new "
            "filter with --reader text: it is made for them."
        )
    if contradictory:
        yield (
            f"left out: {contradictory:,} documents that were given as more than one class. "
            "Decide for one, and teach it with `surebayes learn`."
        )


def about_filter(model: str, unweighed: int, second_stage: Mapping[str, Any] | None, journal: bool) -> Iterator[str]:
    """Yield what is to be said of a filter after a training.

    Parameters
    ----------
    model : str
        Its folder, as it was typed.
    unweighed : int
        Documents of trainings that were cut short, as `Filter.unweighed` counts them.
    second_stage : mapping or None
        How its second stages are, as in `Filter.status`.
    journal : bool
        Whether the training went into the journal.

    Examples
    --------
    >>> list(about_filter("f", 0, None, journal=False))
    ["Without journal: these documents can't be forgotten, moved or used by `surebayes tune`."]
    """
    if unweighed:
        yield (
            f"{unweighed:,} documents of this filter were learnt by a training that was cut short before the experts "
            "were weighed: train on the same documents again, and they will be."
        )
    elif second_stage is not None and second_stage["tune_helps"] and not second_stage["fitted"]:
        from shlex import quote

        yield (
            "The second stages of this filter were never fitted, because documents came one by one: "
            f"run `surebayes tune -m {quote(model)}`."
        )
    if not journal:
        yield "Without journal: these documents can't be forgotten, moved or used by `surebayes tune`."
