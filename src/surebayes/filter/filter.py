"""Filter: a model that lives in a folder, judges documents and learns from every correction, exactly."""

from __future__ import annotations

import os

from surebayes.filter.face.judging import JudgingFilter
from surebayes.filter.face.learning import LearningFilter
from surebayes.filter.face.looking_back import RecordedFilter
from surebayes.filter.face.moving import MovableFilter
from surebayes.filter.face.promising import PromisingFilter
from surebayes.filter.face.upkeep import MaintainedFilter
from surebayes.filter.lean.verdict import Verdict
from surebayes.persist.manifest import NAME

__all__ = ["Filter", "Verdict"]


class Filter(JudgingFilter, LearningFilter, PromisingFilter, RecordedFilter, MaintainedFilter, MovableFilter):
    r"""A filter: judge documents, teach it, let it forget. It lives in a folder that several processes may share.

    Make one with `Filter.create`, open it with `Filter.open`; it is a context manager. Every message that is taught is
    in the journal before `teach` returns, and survives whatever happens to the process. Learning is exact: a message
    taught twice counts once, one taught with another label moves, one forgotten leaves no trace in the model.

    Attributes
    ----------
    path : str
        The folder.
    classes : list of str
        The labels; of two the second is the one that is looked for.

    Examples
    --------
    >>> import tempfile, surebayes as sb
    >>> folder = tempfile.mkdtemp()
    >>> with sb.Filter.create(folder + "/my filter", model="words") as mine:
    ...     mine.teach(b"Subject: lunch?\n\nAt nine, as usual?", "ham")
    ...     mine.teach(b"Subject: pills\n\nCheap pills, order now", "spam")
    ...     verdict = mine.judge(b"Subject: order\n\npills now")
    'learnt'
    'learnt'
    >>> verdict.label, verdict.score > 0
    ('spam', True)
    >>> with sb.Filter.open(folder + "/my filter") as mine:
    ...     mine.teach(b"Subject: lunch?\n\nAt nine, as usual?", "ham")
    ...     mine.forget(b"Subject: lunch?\n\nAt nine, as usual?")
    'already'
    'forgotten'
    """


def is_filter(path: str | os.PathLike[str]) -> bool:
    """Whether a folder holds a filter; PermissionError where that is not for this user to know."""
    try:
        os.stat(os.path.join(os.fspath(path), NAME))
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True
