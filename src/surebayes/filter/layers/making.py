"""Creation of layers, and changes of their base."""

from __future__ import annotations

import os
from typing import Any

from surebayes.errors import BadInput, BadModel
from surebayes.filter.base import identity_of, link_to, open_whole
from surebayes.filter.base_link import check_weight
from surebayes.filter.model import Model
from surebayes.filter.session import Session
from surebayes.filter.store.events import NOBODY, Lesson
from surebayes.pool.specs import views_of

_DEFAULTS: dict[str, Any] = {"classes": ["ham", "spam"], "reader": "mail", "model": "pool", "width": 2**22}
"""Defaults of `Filter.create`."""


def create_layer(
    path: str, base: str, own_weight: int, renew: bool, arguments: dict[str, Any], content: bool
) -> Session:
    """Create a layer on a base; BadInput for arguments that differ from the base's reader, classes or views."""
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
    return Session.create(path, engine.reader, list(names), engine.views, renew, content, link)


def move_base(session: Session, base: str, own_weight: int | None = None, lesson: Lesson = NOBODY) -> bool:
    """Point a layer to its base at another path, or to another filter of the same kind; return whether it changed.

    Parameters
    ----------
    session : Session
        The layer.
    base : str
        The base's folder.
    own_weight : int, optional
        How often each of the layer's lessons counts; unchanged by default.
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
    session.absorb(f"stands on {os.path.basename(wanted.path)}", renew=True)
    return True
