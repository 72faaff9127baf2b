"""Errors as sentences for users."""

from __future__ import annotations

import errno
import os

from surebayes.errors import exit_code


def sentence_of(error: BaseException) -> str:
    """Return an error as a sentence for users.

    Examples
    --------
    >>> sentence_of(OSError(28, "No space left on device", "/full/model"))
    'No space left on device: /full/model. Free some space and run the command again; existing files are unharmed.'
    """
    code = exit_code(error)
    if code == 130:
        return "Interrupted."
    if code == 70:
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return f"Internal error: {what}. Run the command again with --debug to see where, and please report it."
    if code == 71:
        return "Out of memory."
    if isinstance(error, OSError) and error.strerror:
        where = f": {os.fspath(error.filename)}" if isinstance(error.filename, (str, os.PathLike)) else ""
        advice = " Free some space and run the command again; existing files are unharmed."
        return f"{error.strerror}{where}.{advice if error.errno == errno.ENOSPC else ''}"
    sentence = str(error) or type(error).__name__  # as it is: it may start with a name that the user typed
    return sentence if sentence[-1:] in ".!?)" else f"{sentence}."
