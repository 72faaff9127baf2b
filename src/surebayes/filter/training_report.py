"""Report of a training: a record for JSON, and sentences for people."""

from __future__ import annotations

from surebayes.mail.header_check import HeaderCheck, no_mail, no_text

TYPE_CHECKING = False  # no typing, no `re`: a script's training starts with this module
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any


def told_apart(classes: Sequence[str], scores: Sequence[Sequence[float]], labels: Sequence[str]) -> dict[str, Any]:
    """Return the size of the reserve, and how well its scores separate two classes.

    Parameters
    ----------
    classes : sequence of str
        The filter's classes.
    scores, labels : sequence
        The scores and classes of the reserve.

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
    """Return the JSON record of `surebayes train`.

    Parameters
    ----------
    done : mapping from str to int
        The result of `Filter.train`.
    skipped : int
        Skipped files and rows.
    documents : mapping from str to int
        The numbers of documents by class; the second of two is positive.
    model : str
        The version of the model.
    held_out : mapping
        The result of `told_apart`.
    """
    positive = list(documents)[1] if len(documents) == 2 else None
    return {
        **done, "skipped": skipped, "documents": documents, "positive": positive, "model": model, "held_out": held_out
    }  # fmt: skip


def about_documents(assumed: str | None, headers: HeaderCheck, contradictory: int) -> Iterator[str]:
    """Yield sentences on the documents of a training.

    Parameters
    ----------
    assumed : {"mail", "text", None}
        The default reader, if the command named none.
    headers : HeaderCheck
        The check of their headers.
    contradictory : int
        The number of documents with more than one label.
    """
    if assumed == "mail" and headers.without_header:
        yield no_mail("train a new filter with --reader text")
    if assumed == "text" and headers.with_header:
        yield no_text("train a new filter with --reader mail")
    if contradictory:
        yield (
            f"skipped: {contradictory:,} documents that were given as more than one class. Choose one class, and teach "
            "it with `surebayes learn`."
        )


def about_filter(model: str, unweighed: int, second_stage: Mapping[str, Any] | None, journal: bool) -> Iterator[str]:
    """Yield sentences on a filter after a training.

    Parameters
    ----------
    model : str
        Its folder, as it was typed.
    unweighed : int
        The result of `Filter.unweighed`.
    second_stage : mapping or None
        The state of its second stages, from `Filter.status`.
    journal : bool
        Whether the training used the journal.

    Examples
    --------
    >>> list(about_filter("f", 0, None, journal=False))
    ["Without a journal, these documents can't be forgotten, moved or used by `surebayes tune`."]
    """
    if unweighed:
        yield (
            f"{unweighed:,} documents of this filter were learnt by a training that stopped before it fitted the "
            f"weights "
            "of experts. Train on the same documents again."
        )
    elif second_stage is not None and second_stage["tune_helps"] and not second_stage["fitted"]:
        from shlex import quote

        yield (
            "The second stages of this filter were never fitted, because documents came one by one. "
            f"Run `surebayes tune -m {quote(model)}`."
        )
    if not journal:
        yield "Without a journal, these documents can't be forgotten, moved or used by `surebayes tune`."
