"""A filter that is open: making it, opening and closing it, what it is, and writing its model."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Self

from surebayes.filter.features import Features
from surebayes.filter.memory.remembering import Remembering
from surebayes.filter.new_folder import check_classes, is_left_over
from surebayes.filter.plain import plain_text, plain_whole, text_or_none
from surebayes.filter.session import Session
from surebayes.filter.state import State
from surebayes.pool.specs import READERS, views_of


class OpenFilter(Remembering):
    """A filter's folder, opened."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._last: tuple[bytes | str, Features] | None = None  # the last document that was judged or taught

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        classes: Sequence[str] = ("ham", "spam"),
        *,
        reader: str = "mail",
        model: str = "pool",
        width: int = 2**22,
        renew: bool = True,
        content: bool = True,
        base: str | os.PathLike[str] | None = None,
        own_weight: int = 50,
    ) -> Self:
        """Make a filter that has learnt nothing.

        Parameters
        ----------
        path : path
            The folder; it must be new or empty.
        classes : sequence of str, default=("ham", "spam")
            The labels, two or more. Of two, the second is looked for: false alarms are its.
        reader : {"mail", "text"}, default="mail"
            What documents are: raw mails, or plain text.
        model : {"pool", "words"}, default="pool"
            The experts of `ViewPool`, or one expert on hashed words and header tokens: a fraction of the size and
            ten times the speed, less precise. With one expert there are no weights to learn: its own stays as it is,
            or as `retune` sets it.
        width : int, default=2**22
            Hashed columns of each view; only those seen take room.
        renew : bool, default=True
            As in `open`.
        content : bool, default=True
            Whether the journal keeps what the views read of a message; see `keep_content`.
        base : path, optional
            Another filter, to stand on: this one is then a layer. It has the base's reader, classes and views, and
            judges by the base's counts and `own_weight` times its own; what it is taught stays in its own folder. The
            base is only read, and what it learns later counts as well.
        own_weight : int, default=50
            How often own lessons count in a layer, from 1 to 1,000.
        """
        with contextlib.suppress(TypeError):  # `check_classes` says what it must be
            width = plain_whole(width, "width")
        names, folder = check_classes(classes, width), os.fspath(path)
        reader, model = plain_text(reader, "reader"), plain_text(model, "model")
        if reader not in READERS:
            raise ValueError(f"reader must be 'mail' or 'text'. Got {reader!r}.")
        views = views_of(model, reader, len(names), width)
        if os.path.isdir(folder) and not all(map(is_left_over, os.listdir(folder))):
            raise FileExistsError(f"{folder!r} is not empty. Create a filter in a new or empty folder.")
        if base is not None:
            from surebayes.filter.layers.making import create_layer

            arguments = {"classes": names, "reader": reader, "model": model, "width": width}
            below = plain_text(os.fsdecode(base), "base")
            return cls(create_layer(folder, below, own_weight, renew, arguments, content))
        return cls(Session.create(folder, reader, names, views, renew, content))

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, renew: bool = True) -> Self:
        """Open a filter.

        The model's files are checked whole; what the journal has and the model has not yet absorbed is replayed.

        Parameters
        ----------
        path : path
            The folder.
        renew : bool, default=True
            Whether this process renews the certificate of the threshold when what it teaches has made it stale: after
            `train`, `retune` and `rollback`, and whenever the model is written after 100 lessons, or as many as a
            hundredth of all documents.

        Raises
        ------
        surebayes.StoreError
            No filter there, a damaged one, or one that a later release wrote.
        """
        return cls(Session.open(os.fspath(path), renew))

    def close(self) -> None:
        """Absorb what was taught, and close the files."""
        self._close_memory()
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    @property
    def path(self) -> str:
        """The folder."""
        return self._session.path

    @property
    def classes(self) -> list[str]:
        """The labels."""
        return list(self._session.model().names)

    @property
    def reader(self) -> str:
        """What documents are: "mail" or "text"."""
        return self._session.model().engine.reader

    @property
    def basis(self) -> str:
        """Of a layer, by what it judges: "base", "last base" or "own layer"; "" without a base."""
        return self._session.model().basis

    @property
    def model(self) -> str:
        """The version of the model; it changes with everything that is learnt or forgotten."""
        return self._session.model().version

    def refresh(self) -> None:
        """Read what other processes have written, and of a layer what its base has learnt, now instead of when asked.

        Memory that only the earlier model needed is free then.
        """
        self._session.model()

    def absorb(self, note: str | None = None) -> None:
        """Write the model with everything that was taught, so that `surebayes filter` sees it.

        Parameters
        ----------
        note : str, optional
            What the history says of the version that this makes.
        """
        self._session.absorb(text_or_none(note, "note"))

    def bulk(self, note: str | None = None, renew: bool = False) -> AbstractContextManager[None]:
        """Put off writing the model to the end of a block of many lessons; the journal has them at once all the same.

        Parameters
        ----------
        note : str, optional
            What the history says of the version that the block ends with.
        renew : bool, default=False
            Renew a stale certificate at the end, however little has changed.
        """
        return self._session.bulk(text_or_none(note, "note"), renew)

    def _see(self, document: bytes | str, state: State) -> Features:
        """Read a document; one that is judged and then taught is read once."""
        if self._last is None or self._last[0] is not document or not isinstance(document, (bytes, str)):
            self._last = document, state.see(document)
        return self._last[1]

    def __repr__(self) -> str:
        return f"Filter({self.path!r})"
