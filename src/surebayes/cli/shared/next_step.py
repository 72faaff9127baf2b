"""Advice on the next step: a command that works with the filter's present documents."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import click

from surebayes.cli.shared.show import percent, say, visible
from surebayes.errors import smallest_rate

if TYPE_CHECKING:
    from surebayes.filter.filter import Filter

_RATES = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)


class Advice(NamedTuple):
    """A command, and its purpose."""

    command: str
    why: str

    def print(self) -> None:
        """Print it, with the command on a separate line, to be copied."""
        click.echo(f"Next: {visible(self.command)}")
        say(f"      ({self.why})", indent=7)


def after_training(model: str, reserved: Mapping[str, int], max_fpr: float, confidence: float) -> Advice:
    """Return the command that calibrates a filter, with the strictest promise that its reserve supports.

    Parameters
    ----------
    model : str
        The filter's folder, as it was typed.
    reserved : mapping from str to int
        Reserved documents of each class, classes in the filter's order.
    max_fpr, confidence : float
        The desired promise.

    Examples
    --------
    >>> advice = after_training("my filter", {"ham": 489, "spam": 180}, 0.001, 0.95)
    >>> advice.command
    "surebayes calibrate -m 'my filter' --max-fpr 0.01"
    >>> advice.why
    'a threshold with a promise of at most 1% false alarms; 0.1% needs 2,995 documents set aside, and there are 489'
    """
    folder, classes = shlex.quote(model), list(reserved)
    positive = classes[1]
    negatives = sum(count for name, count in reserved.items() if name != positive)
    whose = f" --positive {shlex.quote(positive)}" if len(classes) > 2 else ""
    calibrate = f"surebayes calibrate -m {folder}{whose}"
    for rate in (max_fpr, *(rate for rate in _RATES if rate > max_fpr)):
        if negatives and smallest_rate(negatives, confidence) <= rate:
            why = f"a threshold with a promise of at most {percent(rate)} false alarms"
            if rate == max_fpr:
                return Advice(calibrate, why)
            needs = f"{percent(max_fpr)} needs {needed(max_fpr, confidence):,} documents set aside"
            return Advice(f"{calibrate} --max-fpr {rate:g}", f"{why}; {needs}, and there are {negatives:,}")
    return Advice(
        f"surebayes classify -m {folder} PATH",
        f"a promise on false alarms needs more documents set aside: {needed(0.05, confidence):,} for {percent(0.05)}, "
        f"{needed(0.001, confidence):,} for {percent(0.001)}; give them to `surebayes calibrate`",
    )


def for_filter(opened: Filter, model: str) -> Advice | None:
    """Return the next step for a filter; None if its promise holds."""
    from surebayes.filter import settings

    status, wanted = opened.status(), settings.resolve(model)
    if status["certificate"] is not None and not status["certificate"]["stale"]:
        return None
    return after_training(model, status["reserved"], wanted["max_fpr"].value, wanted["confidence"].value)


def needed(max_fpr: float, confidence: float) -> int:
    """Return the documents without a false alarm that a promise needs: the smallest n with (1 - rate)^n <= doubt.

    Examples
    --------
    >>> needed(0.001, 0.95), needed(0.01, 0.95)
    (2995, 299)
    """
    import math

    return math.ceil(math.log1p(-confidence) / math.log1p(-max_fpr))
