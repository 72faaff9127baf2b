"""A folder of persons: each has a layer on one site, made at the first lesson, within a quota.

What a person was taught is in one folder, named after them, and nowhere else: to forget a person, delete it. Nobody
pays for the others: a folder is found by its name, and the rest is never listed.
"""

import os
from bisect import bisect_right

from surebayes.errors import NoModel, QuotaReached
from surebayes.filter.person_names import checked_name, person_named
from surebayes.persist.folder import make_private
from surebayes.persist.manifest import NAME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from surebayes.filter.filter import Filter


_GONE = ".gone-"
"""How the folder of a person is called from the moment that it is to be deleted."""


def folder_of(users: str, name: str) -> str:
    """Return the folder of a person; ValueError for what is no name.

    Examples
    --------
    >>> folder_of("/srv/users", "Ann@Example.org")
    '/srv/users/ann@example.org'
    """
    return os.path.join(users, checked_name(name))


def has_layer(folder: str) -> bool:
    """Whether a person has been taught anything."""
    return os.path.exists(os.path.join(folder, NAME))


def judging_folder(users: str, name: str, site: "str | None") -> str:
    """Return the filter that judges for a person: their layer, or the site until they have one."""
    folder = folder_of(users, name)
    if has_layer(folder):
        return folder
    if not site:
        raise NoModel(f"{name!r} has no filter in {users!r} yet, and no site was named to judge by: -m DIR.")
    return site


def own_folder(users: str, name: str) -> str:
    """Return the layer of a person; NoModel where they have none yet."""
    folder = folder_of(users, name)
    if not has_layer(folder):
        raise NoModel(f"{name!r} has no filter in {users!r} yet: it is made at the first lesson.")
    return folder


class Quota:
    """What a person may keep.

    Parameters
    ----------
    lessons : int
        Messages that may be learnt; 0: any number.
    size : int
        Bytes that the folder may take before a lesson; 0: any number.
    """

    __slots__ = ("lessons", "size")

    def __init__(self, lessons: int = 0, size: int = 0) -> None:
        self.lessons, self.size = lessons, size

    def check(self, folder: str, known: int, more: int = 1) -> None:
        """Refuse so many lessons more than are known; QuotaReached says which limit it is."""
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


class Persons:
    """A folder of persons on one site.

    Parameters
    ----------
    users : str
        The folder.
    site : str, optional
        The filter that the persons' layers stand on; needed for those who have none yet.
    quota : Quota, optional
        What each may keep.
    own_weight : int
        How often lessons count in a layer that is made.
    group : str, optional
        The group that a layer which is made is shared with.
    """

    def __init__(
        self,
        users: str,
        site: "str | None" = None,
        quota: "Quota | None" = None,
        own_weight: int = 50,
        group: "str | None" = None,
    ) -> None:
        self.users, self.site, self.quota, self.own_weight = users, site, quota or Quota(), own_weight
        self.group = group

    def layer(self, name: str, renew: bool = True) -> "Filter":
        """Open a person's layer to teach it, made where there is none; it refuses lessons beyond the quota."""
        from surebayes.filter.filter import Filter

        folder = folder_of(self.users, name)
        if not has_layer(folder):
            if not self.site:
                raise NoModel(f"{name!r} has no filter in {self.users!r} yet; name the site that it stands on: -m DIR.")
            if not os.path.isdir(self.users):
                make_private(self.users)
            self.finish_forgetting()
            try:
                opened = Filter.create(folder, base=self.site, own_weight=self.own_weight, renew=renew)
                if self.group is not None:
                    opened.share(self.group)
            except FileExistsError:  # somebody else was quicker
                opened = Filter.open(folder, renew=renew)
        else:
            opened = Filter.open(folder, renew=renew)
        opened.limit(self.quota)
        return opened

    def judging(self, name: str) -> str:
        """Return the folder of the filter that judges for a person."""
        return judging_folder(self.users, name, self.site)

    # ---- who there is

    def names(self, after: str = "", limit: "int | None" = None) -> "list[str]":
        """Return the names of those who have been taught something, in their order, after a name."""
        try:
            entries = sorted(entry.name for entry in os.scandir(self.users) if person_named(entry.name) == entry.name)
        except FileNotFoundError:
            return []
        names: list[str] = []
        for name in entries[bisect_right(entries, after) :]:
            if limit is not None and len(names) >= limit:
                break
            if has_layer(os.path.join(self.users, name)):
                names.append(name)
        return names

    def latest(self, limit: int) -> "list[str]":
        """Return the names of those whose layers were written last, the latest first."""
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
        """Return what a person has; NoModel where they have nothing.

        "person", "lessons", "last_lesson", "bytes", and "budgets" by class: "debt", "burst" and whether it is "mute".
        """
        from datetime import UTC, datetime

        from surebayes.filter.store.journal import Journal
        from surebayes.filter.verdicts import budgets as alarm_budgets
        from surebayes.filter.verdicts import combined
        from surebayes.persist.folder import size_of

        folder = own_folder(self.users, name)
        journal = Journal(folder, write=False)
        try:
            lessons, last = journal.lessons()
        finally:
            journal.close()
        when = None if last is None else datetime.fromtimestamp(last, UTC).isoformat(timespec="seconds")
        memory, budgets = combined.opened(folder), {}
        if memory is not None:
            force = alarm_budgets.in_force(memory.database)
            for label, budget in alarm_budgets.budgets(memory.database).items():
                budgets[label] = {"debt": budget.debt, "burst": budget.burst, "mute": force[label].mute}
            memory.close()
        return {
            "person": checked_name(name), "lessons": lessons, "last_lesson": when, "bytes": size_of(folder),
            "budgets": budgets,
        }  # fmt: skip

    def forget(self, name: str) -> bool:
        """Delete the folder of a person; whether there was one. A process that has it open must let it go first."""
        import shutil

        folder = folder_of(self.users, name)
        if not os.path.isdir(folder):
            self.finish_forgetting()
            return False
        gone = os.path.join(self.users, f"{_GONE}{os.getpid()}-{os.urandom(4).hex()}")
        os.rename(folder, gone)  # at once for everybody; whoever has a file of it open writes to what is deleted
        shutil.rmtree(gone)
        self.finish_forgetting()
        return True

    def half_forgotten(self) -> "list[str]":
        """Return the folders of persons whose deletion was cut short."""
        try:
            names = [entry.name for entry in os.scandir(self.users) if entry.name.startswith(_GONE)]
        except FileNotFoundError:
            return []
        return [os.path.join(self.users, name) for name in sorted(names)]

    def finish_forgetting(self) -> "list[str]":
        """Delete what a process that was killed had begun to delete; return what is gone."""
        from surebayes.persist.leftovers import remove

        return [folder for folder in self.half_forgotten() if remove(folder)]
