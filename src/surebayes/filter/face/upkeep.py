"""A filter kept in order: compacted, rid of messages, counted anew."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from surebayes.filter.face.opening import OpenFilter
from surebayes.filter.face.several import several
from surebayes.filter.plain import plain_text, plain_whole, text_or_none
from surebayes.persist.folder import share


class MaintainedFilter(OpenFilter):
    """What an administrator does to a filter."""

    def compact(self) -> dict[str, int]:
        """Put all tables into one file, and write the journal anew without room that nothing takes.

        Returns
        -------
        dict
            The bytes of the folder "before" and "after".
        """
        from surebayes.filter.disk import upkeep

        return upkeep.compact(self._session)

    def repair(self, *, pretend: bool = False) -> dict[str, Any]:
        """Put right what can be put right without a copy; nothing that was learnt changes.

        Parameters
        ----------
        pretend : bool, default=False
            Only look: what would be done.

        Returns
        -------
        dict
            "rows": rows of the journal whose checksum an earlier release took of labels or names that were strings of
            numpy. They are read as they were meant; afterwards they say what their checksum is of. "private": whether
            every user of the machine could read the folder, as earlier releases made it; only its owner may from now
            on, and its group where that was meant. "leftovers": paths in the folder and beside it that processes
            which were killed have left there; they are removed.
        """
        from surebayes.filter.disk import upkeep

        return upkeep.repair(self._session, pretend)

    def share(self, group: str | None) -> None:
        """Give the folder and its files to a group, whose members may read and write them.

        A new filter is its owner's alone: its journal holds readable mail. Files that are made later have the group and
        the permissions of the folder.

        Parameters
        ----------
        group : str or None
            The name of the group; None for nobody but the owner.
        """
        share(self._session.path, text_or_none(group, "group"))

    def keep_content(self, keep: bool) -> None:
        """Set whether the journal keeps what the views read of a message from now on, or its hashed columns alone.

        Parameters
        ----------
        keep : bool
            True: the start of the source and the text, compressed: a fraction of the room, readable to who may read
            the folder. False: columns, which can't be read, and can't be counted anew with other views.
        """
        session = self._session
        with session.exclusive():
            state, journal = session.ready_to_write(), session.open_journal()
            journal.set_fact("content", "yes" if keep else "no")
            state.belong_to(journal)

    def erase(
        self, message_ids: Sequence[str] = (), documents: Iterable[bytes | str] = (), who: str | None = None
    ) -> dict[str, int]:
        """Take messages out of the model, the journal and the remembered verdicts: they can't come back.

        What is left of a message are the heads of its rows: a fingerprint, a keyed hash of its Message-ID, its class,
        when and by whom it was taught.

        Parameters
        ----------
        message_ids : sequence of str
            Message-IDs of mails, with or without brackets.
        documents : iterable of documents
            The messages themselves, recognised by their content.
        who : str, optional
            Who says so.

        Returns
        -------
        dict
            "messages": how many were found; "forgotten" and "released": how many of those were learnt, or set aside;
            "rows": rows of the journal whose content is gone; "remembered": verdicts that are no longer remembered,
            with the sender, the subject and the content that were kept of them.
        """
        from surebayes.filter.disk import upkeep

        message_ids = [plain_text(name, "a Message-ID") for name in several(message_ids, "message_ids", "Message-ID")]
        who = text_or_none(who, "who")
        documents = list(several(documents, "documents"))
        done = upkeep.erase(self._session, message_ids, documents, who)
        return {**done, "remembered": self.erase_remembered(documents=documents, message_ids=message_ids)}

    @classmethod
    def rebuild(
        cls,
        path: str | os.PathLike[str],
        *,
        model: str | None = None,
        width: int | None = None,
        drop_unjournaled: bool = False,
        who: str | None = None,
        progress: Callable[[str, int, int | None], None] | None = None,
    ) -> dict[str, Any]:
        """Count a filter anew from its journal alone: after damage to its other files, or with other views.

        Parameters
        ----------
        path : path
            The folder.
        model : {"pool", "words"}, optional
            Other views, as in `create`; they may read no more of a message than those before. Weights are fitted anew.
        width : int, optional
            Another number of hashed columns.
        drop_unjournaled : bool, default=False
            Go on without messages that were learnt without journal, which only the tables know.
        who : str, optional
            Who says so.
        progress : callable, optional
            Called now and then with the step, the rows done, and of how many.

        Returns
        -------
        dict
            "documents": how many are learnt, by class; "views": how many views there are.
        """
        from surebayes.filter.disk import upkeep

        model, who = text_or_none(model, "model"), text_or_none(who, "who")
        width = None if width is None else plain_whole(width, "width")
        return upkeep.rebuild(os.fspath(path), model, width, drop_unjournaled, who, progress)
