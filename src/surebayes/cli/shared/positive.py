"""Choice of the positive class of two: by an option, by the labels, or by a question on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from surebayes.cli.shared import show as _show
from surebayes.guarantees.positive_class import ambiguity_of


def resolve_positive(labels: Sequence[str], taken: str, remedy: str, given: bool = False) -> str:
    """Return the positive one of two labels: the default, or in case of doubt the user's answer on a terminal.

    Parameters
    ----------
    labels : sequence of str
        The labels; for more than two there is no question or notice.
    taken : str
        The default.
    remedy : str
        Instruction for choosing the other label, which completes "To choose, ...".
    given : bool, default=False
        Whether the command line named it: then there is no doubt.
    """
    doubt = "" if given else ambiguity_of(labels, taken)
    if not doubt:
        return taken
    if sys.stdin.isatty() and sys.stderr.isatty():
        names = [_show.visible(label) for label in labels]
        answer = click.prompt(
            "Which class is the positive one, whose false alarms are limited?",
            type=click.Choice(names),
            default=_show.visible(taken),
            err=True,
        )
        return labels[names.index(answer)]
    _show.note(f"{doubt} To choose, {remedy}.")
    return taken


def note_ambiguity(classes: Sequence[str]) -> None:
    """Print the positive class of a filter if neither its labels nor the training's --positive make it clear.

    Classes out of alphabetical order were ordered by --positive, or by an answer on a terminal.
    """
    if list(classes) == sorted(classes) and (doubt := ambiguity_of(classes, classes[-1])):
        _show.note(f"{doubt} To choose, train a new filter with --positive NAME.")


def roles(negative: str, positive: str) -> str:
    """Return the definition of a false alarm.

    Examples
    --------
    >>> roles("ham", "spam")
    'spam is the positive class: a false alarm is ham that is judged spam.'
    """
    name, other = _show.visible(positive), _show.visible(negative)
    return f"{name} is the positive class: a false alarm is {other} that is judged {name}."
