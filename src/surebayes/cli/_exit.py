"""From what went wrong to a sentence for a person."""

from __future__ import annotations

import errno
import os

from surebayes.errors import exit_code


def sentence_of(error: BaseException) -> str:
    """Say what went wrong, for a person.

    Examples
    --------
    >>> sentence_of(OSError(28, "No space left on device", "/full/model"))
    'No space left on device: /full/model. Make room there and run it again: what was there before is unharmed.'
    """
    code = exit_code(error)
    if code == 130:
        return "Interrupted."
    if code == 70:
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return f"An error inside surebayes: {what}. Run it again with --debug to see where, and report it, please."
    if code == 71:
        return "There is not enough memory."
    if isinstance(error, OSError) and error.strerror:
        where = f": {os.fspath(error.filename)}" if isinstance(error.filename, (str, os.PathLike)) else ""
        said = f"{error.strerror}{where}."
        if error.errno == errno.ENOSPC:
            said += " Make room there and run it again: what was there before is unharmed."
        return said
    said = str(error) or type(error).__name__
    said = said[0].upper() + said[1:]
    return said if said[-1:] in ".!?)" else f"{said}."
