"""Health of a layer: problems of its base, with advice."""

from __future__ import annotations

import shlex
from typing import NamedTuple

from surebayes.errors import NoModel
from surebayes.filter.base import ALONE, ON_BASE, ON_LAST, ON_PART, identity_of
from surebayes.filter.state import State

_UNREADABLE = "?"
"""The identity reported for an existing but unreadable base; no filter has it."""


class Health(NamedTuple):
    """The health of a layer: "ok", "note" or "problem", and a sentence with advice."""

    state: str
    detail: str


def health(state: State, path: str) -> Health | None:
    """Return the health of a layer; None for a filter without a base.

    Parameters
    ----------
    state : State
        The layer.
    path : str
        Its folder.
    """
    base_in_use = state.base_in_use
    if base_in_use is None:
        return None
    link, mine = base_in_use.link, shlex.quote(path)
    if base_in_use.basis == ON_BASE and base_in_use.base is not None:
        return _on_base(state, base_in_use.base.folder, base_in_use.base.rows, mine)
    judged = {
        ALONE: "judged by the own lessons alone",
        ON_LAST: "judged by the base as it was last read",
        ON_PART: "judged without what the base stands on",
    }[base_in_use.basis]
    advice = f"put it back, or say where it is: surebayes rebase -m {mine} --base DIR"
    if base_in_use.basis == ON_PART and base_in_use.base is not None:
        below = shlex.quote(base_in_use.base.folder)
        return Health(
            "problem", f"the base stands badly ({base_in_use.problem}) Mail is {judged}: surebayes doctor -m {below}"
        )
    what = "can't be used"
    ids = [_identity(place) for place in link.places(path)]
    if not any(ids):
        what = f"is gone or was moved from {link.path}"
    elif link.id not in ids and _UNREADABLE in ids:
        what = f"at {link.path} can't be read"
        advice = f"mend it or put a copy back, or say where it is: surebayes rebase -m {mine} --base DIR"
    elif link.id not in ids:
        what = f"is not at {link.path}: another filter is there"
        advice = f"if that one is meant: surebayes rebase -m {mine} --base {shlex.quote(link.path)}"
    elif "views" in base_in_use.problem or "reader" in base_in_use.problem or "classes" in base_in_use.problem:
        what = "has other views than this layer"
        advice = (
            f"count the layer anew with the base's views: surebayes rebuild -m {mine} --views NAME; or restore the base"
        )
    return Health("problem", f"the base {what} ({base_in_use.problem}) Mail is {judged}; {advice}")


def _on_base(state: State, folder: str, rows: int, mine: str) -> Health:
    seen = (state.base_record or {}).get("rows", 0)
    link = state.settings.base
    if isinstance(seen, int) and rows < seen:
        return Health(
            "problem",
            f"the base {folder} is older than what this layer has seen of it (row {rows:,}, and it was at {seen:,}): a "
            "copy was restored. Teach the base again what it lost; the layer goes on with it as it is.",
        )
    if link is None or folder != link.path:
        return Health(
            "note",
            f"the base was moved to {folder} together with this layer. Make that known: "
            f"surebayes rebase -m {mine} --base {shlex.quote(folder)}",
        )
    lessons, times = sum(state.engine.documents), link.own_weight
    counted = "1 own lesson," if lessons == 1 else f"{lessons:,} own lessons, each"
    return Health("ok", f"{counted} {times} times, on {folder}")


def _identity(place: str) -> str:
    try:
        return identity_of(place)
    except NoModel:
        return ""
    except (OSError, ValueError):
        return _UNREADABLE
