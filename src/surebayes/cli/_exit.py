"""From what went wrong to an exit code and a sentence: the one table of both."""

from __future__ import annotations

import errno
import os

CODES = {
    0: "all went well",
    1: "found: a positive document (`--exit-code`), a difference (`corpora check`), a problem (`doctor`)",
    2: "the command was not understood: an unknown option, a missing argument",
    65: "bad data: a document, table or model that can't be used, too few documents for a promise",
    66: "no input: a file, folder, corpus or model that isn't there",
    69: "an extra that isn't installed",
    70: "an error inside surebayes; `--debug` shows where",
    71: "out of memory",
    73: "there is something already where the command would write",
    74: "reading or writing failed: no space left, a disk error",
    75: "try again: another process writes to the filter",
    77: "permission denied",
    78: "a setting that doesn't exist or has an impossible value",
    130: "interrupted (Ctrl-C)",
    141: "the program that read the output has gone",
}
"""Every exit code and what it means; docs/commands.md shows this table."""

# By name, so that no module is loaded only to look for its errors. The first class of an error's family that is
# named here decides.
_OF_CLASS = {
    "surebayes._manifest.Busy": 75,
    "surebayes._manifest.NoModel": 66,
    "surebayes._manifest.BadModel": 65,
    "surebayes._manifest.NewerModel": 65,
    "surebayes._manifest.StoreError": 74,
    "surebayes._source_tables.BadInput": 65,
    "surebayes._source_tables.NoInput": 66,
    "surebayes.config.BadConfig": 78,
    "surebayes.corpora.CorpusMissing": 66,
    "surebayes._corpora_formats.MalformedCorpus": 65,
    "builtins.KeyboardInterrupt": 130,
    "builtins.BrokenPipeError": 141,
    "builtins.FileNotFoundError": 66,
    "builtins.NotADirectoryError": 66,
    "builtins.IsADirectoryError": 66,
    "builtins.FileExistsError": 73,
    "builtins.PermissionError": 77,
    "builtins.OSError": 74,
    "builtins.ImportError": 69,
    "builtins.MemoryError": 71,
    "builtins.UnicodeError": 65,
    "builtins.OverflowError": 65,
    "builtins.ValueError": 65,
    "sqlite3.Error": 74,
}
_BUSY = ("database is locked", "database table is locked")


def code_of(error: BaseException) -> int:
    """Give the exit code of an error; 70 for what nobody foresaw.

    Examples
    --------
    >>> from surebayes.sources import BadInput
    >>> [code_of(error) for error in (BadInput("row 7 has no label"), PermissionError(), TypeError())]
    [65, 77, 70]
    """
    if str(error) in _BUSY:
        return 75
    for family in type(error).__mro__:
        code = _OF_CLASS.get(f"{family.__module__}.{family.__qualname__}")
        if code is not None:
            return code
    return 70


def sentence_of(error: BaseException) -> str:
    """Say what went wrong, for a person.

    Examples
    --------
    >>> sentence_of(OSError(28, "No space left on device", "/full/model"))
    'No space left on device: /full/model. Make room there and run it again: what was there before is unharmed.'
    """
    code = code_of(error)
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
