"""Creation of layers on a base, change of a layer's base, and a layer's health, with advice."""

from __future__ import annotations

import os
import shlex
from typing import Any, NamedTuple

from surebayes.errors import BadInput, BadModel, NoModel
from surebayes.filter.base import ALONE, ON_BASE, ON_LAST, ON_PART, identity_of, link_to, open_whole
from surebayes.filter.model import Model
from surebayes.filter.model_settings import check_weight
from surebayes.filter.session import Session
from surebayes.filter.state import State
from surebayes.filter.store.events import NO_AUTHOR, Lesson
from surebayes.pool.specs import views_of

_DEFAULTS: dict[str, Any] = {"classes": ["ham", "spam"], "reader": "mail", "model": "pool", "width": 2**22}
"""Defaults of `Filter.create`."""


def create_layer(
    path: str, base: str, own_weight: int, renew: bool, arguments: dict[str, Any], content: bool,
    facts: dict[str, str] | None = None,
) -> Session:  # fmt: skip
    """Create a layer on a base; BadInput for arguments that differ from the base's reader, classes or views.

    With `facts`, the layer's journal is a copy of another host's journal with these facts.
    """
    own_weight = check_weight(own_weight)
    below = open_whole(base, path, Model.open)
    engine, names = below.model.engine, below.model.names
    theirs = {"classes": list(names), "reader": engine.reader}
    for name, value in theirs.items():
        if arguments[name] not in (value, _DEFAULTS[name]):
            raise BadInput(f"A layer takes the {name} of its base, {value!r}. Got {arguments[name]!r}.")
    views = arguments["model"], arguments["width"]
    is_asked = views != (_DEFAULTS["model"], _DEFAULTS["width"])
    if is_asked and views_of(arguments["model"], engine.reader, len(names), arguments["width"]) != engine.views:
        raise BadInput(
            f"A layer takes the views of its base. Got model={views[0]!r} and width={views[1]}: leave them out."
        )
    link = link_to(below, path, own_weight)
    return Session.create(path, engine.reader, list(names), engine.views, renew, content, link, facts)


def create_on(base: str, path: str, own_weight: int, content: bool, facts: dict[str, str]) -> Session:
    """Create a layer with the classes, reader and views of its base, and the facts of a given journal."""
    return create_layer(path, base, own_weight, True, dict(_DEFAULTS), content, facts)


def move_base(session: Session, base: str, own_weight: int | None = None, lesson: Lesson = NO_AUTHOR) -> bool:
    """Change the base of a layer: to another path of the same filter, or to another filter of the same kind.

    Return whether anything changed.

    Parameters
    ----------
    session : Session
        The layer.
    base : str
        The base's folder.
    own_weight : int, optional
        The weight of each of the layer's lessons; unchanged by default.
    lesson : Lesson, optional
        Recorded in the history.
    """
    state = session.current_state()
    link = state.settings.base
    if link is None:
        raise BadInput(f"{session.path!r} is not a layer: it was created without a base.")
    below = open_whole(base, session.path, Model.open, state.engine)
    if list(below.model.names) != list(state.names):
        raise BadModel(f"The base {base!r} has different classes: {below.model.names!r}, not {state.names!r}.")
    wanted = link_to(below, session.path, link.own_weight if own_weight is None else own_weight)
    if identity_of(base) == link.id:
        wanted = wanted.steps_from(link.tuned)
    if wanted == link:
        return False
    with session.transaction() as txn:
        txn.settings({"base": wanted.to_json()}, lesson, weights=True)
    session.absorb(f"new base: {os.path.basename(wanted.path)}", renew=True)
    return True


# ---------------------------------------------------------------------- health

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
        ALONE: "judged by the layer's lessons alone",
        ON_LAST: "judged by the last readable version of the base",
        ON_PART: "judged without the filters below the base",
    }[base_in_use.basis]
    advice = f"restore it, or update its path: surebayes rebase -m {mine} --base DIR"
    if base_in_use.basis == ON_PART and base_in_use.base is not None:
        below = shlex.quote(base_in_use.base.folder)
        return Health(
            "problem", f"the base has a problem ({base_in_use.problem}) Mail is {judged}: surebayes doctor -m {below}"
        )
    what = "can't be used"
    ids = [_identity(place) for place in link.places(path)]
    if not any(ids):
        what = f"was moved or deleted from {link.path}"
    elif link.id not in ids and _UNREADABLE in ids:
        what = f"at {link.path} can't be read"
        advice = f"repair or restore it, or update its path: surebayes rebase -m {mine} --base DIR"
    elif link.id not in ids:
        what = f"is not at {link.path}, which now holds another filter"
        advice = f"to use that one: surebayes rebase -m {mine} --base {shlex.quote(link.path)}"
    elif "views" in base_in_use.problem or "reader" in base_in_use.problem or "classes" in base_in_use.problem:
        what = "has different views from this layer"
        advice = (
            f"rebuild the layer with the base's views: surebayes rebuild -m {mine} --views NAME; or restore the base"
        )
    return Health("problem", f"the base {what} ({base_in_use.problem}) Mail is {judged}; {advice}")


def _on_base(state: State, folder: str, rows: int, mine: str) -> Health:
    seen = (state.base_record or {}).get("rows", 0)
    link = state.settings.base
    if isinstance(seen, int) and rows < seen:
        return Health(
            "problem",
            f"the base {folder} is older than the version this layer has seen (row {rows:,} instead of {seen:,}): an "
            "old copy was restored. Repeat the lost lessons of the base; the layer keeps working with it.",
        )
    if link is None or folder != link.path:
        return Health(
            "note",
            f"the base was moved to {folder} together with this layer. Update its path: "
            f"surebayes rebase -m {mine} --base {shlex.quote(folder)}",
        )
    lessons, times = sum(state.engine.documents), link.own_weight
    counted = "1 lesson" if lessons == 1 else f"{lessons:,} lessons"
    return Health("ok", f"{counted}, weighted {times} times, on the base {folder}")


def _identity(place: str) -> str:
    try:
        return identity_of(place)
    except NoModel:
        return ""
    except (OSError, ValueError):
        return _UNREADABLE
