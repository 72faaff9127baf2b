"""The people of a site, with their layers in a database where hosts share the journal of the site."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surebayes.errors import NoModel
from surebayes.filter.manifest import Manifest
from surebayes.filter.persons import Persons, Quota, folder_of, has_layer
from surebayes.filter.store.journal_file import is_shared

if TYPE_CHECKING:
    from surebayes.filter.host_layers import SharedLayers


def persons_of(
    users: str, site: str | None, quota: Quota | None = None, own_weight: int = 50, group: str | None = None
) -> Persons:
    """Return the people of a folder of layers; see `Persons` for the parameters.

    The database's library is imported only for a site with a shared journal.
    """
    if site is None or not is_shared(site):
        return Persons(users, site, quota, own_weight, group)
    from surebayes.filter.host_layers import SharedLayers

    return Persons(users, site, quota, own_weight, group, SharedLayers(users, site, own_weight, group))


def shared_by(users: str, name: str) -> SharedLayers | None:
    """Return the site's layers in a database that include a person's layer on this host; None for other layers."""
    folder = folder_of(users, name)
    if not has_layer(folder) or not is_shared(folder):
        return None
    from surebayes.filter.host_layers import SharedLayers

    link = Manifest.read(folder).link
    for place in [] if link is None else link.places(folder):
        if is_shared(place):
            return SharedLayers(users, place)
    raise NoModel(f"The site of the layer {folder!r} was moved or deleted. Name it with -m DIR.")
