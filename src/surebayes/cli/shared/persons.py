"""Personal layers in the commands that teach: `--users DIR --user NAME`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from surebayes.cli.shared.command import Person

if TYPE_CHECKING:
    from surebayes.filter.filter import Filter


def person() -> Person | None:
    """Return the person of the current command, if any."""
    return click.get_current_context().meta.get("surebayes.person")


def site_of_person() -> str | None:
    """Return the base of the person's layer, if the command names both."""
    named = person()
    return None if named is None else named.site


def was_given(name: str) -> bool:
    """Return whether a flag, an environment variable or the settings file has set an option."""
    return click.get_current_context().get_parameter_source(name) not in (None, ParameterSource.DEFAULT)


def is_flag(name: str) -> bool:
    """Return whether an option was given as a flag of this command, not by a variable or the settings file."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def limit(opened: Filter, quota: Mapping[str, int] | None) -> None:
    """Apply the quota of a person to a filter, for a person's layer or a given quota."""
    from surebayes.filter.persons import Quota

    if quota is not None and (quota["quota_lessons"] or quota["quota_bytes"]):
        opened.limit(Quota(quota["quota_lessons"], quota["quota_bytes"]))


@contextmanager
def opened_to_teach(model: str, renew: bool, quota: Mapping[str, int] | None) -> Iterator[Filter]:
    """Open a filter, or a personal layer that is created for the first lesson and removed if there is none."""
    from surebayes.filter import settings
    from surebayes.filter.filter import Filter
    from surebayes.filter.new_folder import remove_unused
    from surebayes.filter.persons import Persons, folder_of, has_layer

    named, unused = person(), None
    if named is not None and quota is not None:
        folder = folder_of(named.users, named.name)
        unused = None if has_layer(folder) else folder
        group = settings.resolve(named.site)["group"].value
        opened = Persons(named.users, named.site, group=group).layer(named.name, renew)
    else:
        opened = Filter.open(model, renew=renew)
    try:
        with opened:
            limit(opened, quota)
            yield opened
    finally:
        if unused is not None:
            remove_unused(unused)
