"""A folder of personal layers on one site, each created at the first lesson and limited by a quota.

Names are used as mail systems send them, in lower case; a name that can't be a folder's is refused.

All lessons of a person are in one folder, named after the person; deleting it forgets the person. A folder is found by
its name without listing the other folders, so lookups take the same time for any number of people.
"""

import os
from bisect import bisect_right

from surebayes.errors import NoModel, QuotaReached
from surebayes.filter.plain_values import plain_text
from surebayes.persist.folder import make_private
from surebayes.persist.manifest import NAME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from surebayes.filter.filter import Filter
    from surebayes.filter.host_layers import SharedLayers

LONGEST = 128
_ALLOWED = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._+@-")


def person_named(name: "str | None") -> "str | None":
    """Return a valid name in lower case, else None: 1 to 128 characters of a-z 0-9 . _ + @ -, not starting with a dot.

    Examples
    --------
    >>> person_named("Ann@Example.org"), person_named("../ann"), person_named(".ann"), person_named(None)
    ('ann@example.org', None, None, None)
    """
    lowered = (name or "").lower()
    if not (name or "").isascii():  # the Kelvin sign would become a k
        return None
    is_one = 0 < len(lowered) <= LONGEST and lowered[0] != "." and _ALLOWED.issuperset(lowered)
    return lowered if is_one else None


def checked_name(name: str) -> str:
    """Return the name in lower case; ValueError for an invalid one."""
    person = person_named(plain_text(name, "the name of a person"))
    if person is None:
        raise ValueError(
            f"{name[:200]!r} is not a valid name of a person: use 1 to {LONGEST} of a-z 0-9 . _ + @ -, without a dot "
            f"at the start."
        )
    return person


_GONE = ".gone-"
"""Prefix of a person's folder during its deletion."""


def folder_of(users: str, name: str) -> str:
    """Return the folder of a person; ValueError for an invalid name.

    Examples
    --------
    >>> folder_of("/srv/users", "Ann@Example.org")
    '/srv/users/ann@example.org'
    """
    return os.path.join(users, checked_name(name))


def has_layer(folder: str) -> bool:
    """Return whether a person's folder contains a layer."""
    return os.path.exists(os.path.join(folder, NAME))


def judging_folder(users: str, name: str, site: "str | None") -> str:
    """Return the folder of the filter that judges for a person: their layer, or the site until they have one."""
    folder = folder_of(users, name)
    if has_layer(folder):
        return folder
    if not site:
        raise NoModel(f"{name!r} has no layer in {users!r} yet. Name the shared filter to judge by: -m DIR.")
    return site


def own_folder(users: str, name: str) -> str:
    """Return the folder of a person's layer; NoModel if they have none yet."""
    folder = folder_of(users, name)
    if not has_layer(folder):
        raise NoModel(f"{name!r} has no layer in {users!r} yet. The first lesson creates it.")
    return folder


class Quota:
    """Limits of a person's layer.

    Parameters
    ----------
    lessons : int
        Maximum number of learnt messages; 0 for no limit.
    size : int
        Maximum size of the folder before a lesson, in bytes; 0 for no limit.
    """

    __slots__ = ("lessons", "size")

    def __init__(self, lessons: int = 0, size: int = 0) -> None:
        self.lessons, self.size = lessons, size

    def check(self, folder: str, known: int, more: int = 1) -> None:
        """Raise QuotaReached if `more` lessons would exceed a limit."""
        if self.lessons and known + more > self.lessons:
            raise QuotaReached(
                f"The quota of {self.lessons:,} lessons is used up in {folder!r}: it has {known:,}. Forget some, or "
                "raise quota_lessons."
            )
        if not self.size:
            return
        from surebayes.persist.folder import size_of

        if (used := size_of(folder)) >= self.size:
            raise QuotaReached(
                f"The quota of {self.size:,} bytes is used up in {folder!r}: it has {used:,}. Forget some, or raise "
                "quota_bytes."
            )


_ATTEMPTS = 3
"""Maximum number of attempts to delete a folder that other processes may be deleting, too."""


class Persons:
    """A folder of personal layers on one site.

    Parameters
    ----------
    users : str
        The folder.
    site : str, optional
        The base of the layers; needed to create one.
    quota : Quota, optional
        The limits of each layer.
    own_weight : int
        The weight of each lesson in a new layer.
    group : str, optional
        The group that new layers are shared with.
    shared : SharedLayers, optional
        The layers in the database, if several hosts share the site's journal; see `site_persons.persons_of`.
    """

    def __init__(
        self,
        users: str,
        site: "str | None" = None,
        quota: "Quota | None" = None,
        own_weight: int = 50,
        group: "str | None" = None,
        shared: "SharedLayers | None" = None,
    ) -> None:
        self.users, self.site, self.quota, self.own_weight = users, site, quota or Quota(), own_weight
        self.group, self.shared = group, shared

    def layer(self, name: str, renew: bool = True) -> "Filter":
        """Open a person's layer with its quota, created if missing."""
        from surebayes.filter.filter import Filter

        folder = folder_of(self.users, name)
        if not has_layer(folder):
            if not self.site:
                raise NoModel(f"{name!r} has no layer in {self.users!r} yet. Name its base, the shared filter: -m DIR.")
            if not os.path.isdir(self.users):
                make_private(self.users)
            self.finish_forgetting()
            if self.shared is not None and self.shared.make(checked_name(name)):
                opened = Filter.open(folder, renew=renew)
                opened.limit(self.quota)
                return opened
            try:
                opened = Filter.create(folder, base=self.site, own_weight=self.own_weight, renew=renew)
                if self.group is not None:
                    opened.share(self.group)
            except FileExistsError:  # another process was faster
                opened = Filter.open(folder, renew=renew)
        else:
            opened = Filter.open(folder, renew=renew)
        opened.limit(self.quota)
        return opened

    def judging(self, name: str) -> str:
        """Return the folder of the filter that judges for a person."""
        return judging_folder(self.users, name, self.site)

    # ---- listing

    def names(self, after: str = "", limit: "int | None" = None) -> "list[str]":
        """Return the names of the people with a layer, sorted, after a name."""
        elsewhere: set[str] = set() if self.shared is None else set(self.shared.known())
        try:
            here = {entry.name for entry in os.scandir(self.users) if person_named(entry.name) == entry.name}
        except FileNotFoundError:
            here = set()
        entries, names = sorted(here | elsewhere), list[str]()
        for name in entries[bisect_right(entries, after) :]:
            if limit is not None and len(names) >= limit:
                break
            if name in elsewhere or has_layer(os.path.join(self.users, name)):
                names.append(name)
        return names

    def bring(self, name: str) -> None:
        """Copy the layer of a person to this host, if only the database has it."""
        if self.shared is not None:
            self.shared.bring(checked_name(name))

    def latest(self, limit: int) -> "list[str]":
        """Return the names of the most recently written layers, latest first."""
        from heapq import nlargest

        written = []
        try:
            entries = list(os.scandir(self.users))
        except FileNotFoundError:
            return []
        for entry in entries:
            try:
                if person_named(entry.name) == entry.name:
                    written.append((os.stat(os.path.join(entry.path, NAME)).st_mtime_ns, entry.name))
            except (FileNotFoundError, NotADirectoryError):
                continue
        return [name for _, name in nlargest(limit, written)]

    def about(self, name: str) -> "dict[str, Any]":
        """Return a summary of a person's layer; NoModel without one.

        Returns
        -------
        dict
            "person"; "lessons", their number; "last_lesson", its time; "bytes", the size on this host, 0 for a layer in
            the database alone; "budgets", by class, with "debt", "burst" and "mute".
        """
        from datetime import UTC, datetime

        from surebayes.filter.store.journal import Journal
        from surebayes.filter.verdicts import budgets as alarm_budgets
        from surebayes.filter.verdicts import combined
        from surebayes.persist.folder import size_of

        is_elsewhere = self.shared is not None and not has_layer(folder_of(self.users, name))
        if is_elsewhere and self.shared is not None and self.shared.has(checked_name(name)):
            folder = self.users
            lessons, last = self.shared.lessons_of([checked_name(name)]).get(checked_name(name), (0, None))
        else:
            is_elsewhere, folder = False, own_folder(self.users, name)
            journal = Journal(folder, write=False)
            try:
                lessons, last = journal.lessons()
            finally:
                journal.close()
        when = None if last is None else datetime.fromtimestamp(last, UTC).isoformat(timespec="seconds")
        memory, budgets = None if is_elsewhere else combined.opened(folder), {}
        if memory is not None:
            force = alarm_budgets.in_force(memory.database)
            for label, budget in alarm_budgets.budgets(memory.database).items():
                budgets[label] = {"debt": budget.debt, "burst": budget.burst, "mute": force[label].mute}
            memory.close()
        return {
            "person": checked_name(name), "lessons": lessons, "last_lesson": when,
            "bytes": 0 if is_elsewhere else size_of(folder),
            "budgets": budgets,
        }  # fmt: skip

    def forget(self, name: str) -> bool:
        """Delete the layer of a person; return whether there was one. Servers close it at its next use.

        If hosts share the journal of the site, the layer is first deleted from the database, and each other host
        deletes its copy with the next rows that it receives.
        """
        removed = self.forget_in_database(name) > 0
        return self.delete_here(name) or removed

    def forget_in_database(self, name: str) -> int:
        """Delete the layer of a person from the database; return the removal's number, 0 without such a layer."""
        return 0 if self.shared is None else self.shared.forget(checked_name(name))

    def delete_here(self, name: str) -> bool:
        """Delete the folder of a person; return whether there was one."""
        from surebayes.persist.leftovers import remove

        gone = self.set_aside(name)
        if gone is not None and not any(remove(gone) for _ in range(_ATTEMPTS)):
            raise PermissionError(13, "Some files of the layer can't be deleted", gone)
        self.finish_forgetting()
        return gone is not None

    def set_aside(self, name: str) -> "str | None":
        """Rename the folder of a person, for its deletion; return the new path, or None if there was none."""
        folder = folder_of(self.users, name)
        if not os.path.isdir(folder):
            return None
        gone = os.path.join(self.users, f"{_GONE}{os.getpid()}-{os.urandom(4).hex()}")
        try:
            os.rename(folder, gone)  # atomic; a process with an open file writes to a deleted one
        except FileNotFoundError:  # another process was faster
            return None
        return gone

    def partly_deleted(self) -> "list[str]":
        """Return the folders whose deletion was interrupted."""
        try:
            names = [entry.name for entry in os.scandir(self.users) if entry.name.startswith(_GONE)]
        except FileNotFoundError:
            return []
        return [os.path.join(self.users, name) for name in sorted(names)]

    def finish_forgetting(self) -> "list[str]":
        """Finish interrupted deletions; return the deleted folders."""
        from surebayes.persist.leftovers import remove

        return [folder for folder in self.partly_deleted() if remove(folder)]
