"""Console entry point, with a fast path for `filter`, and for `learn` and `forget` of one message.

`surebayes.cli` has the remaining commands.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main(argv: "list[str] | None" = None) -> int:
    """Run a command; return its exit code."""
    called = argv is None
    argv = sys.argv[1:] if argv is None else argv
    quick = argv[:1] and argv[0] in _MANY
    if quick or argv[:1] == ["filter"]:
        _collect_less()
    if argv[:1] == ["filter"]:
        code = _filter(argv[1:])
    else:
        if quick:
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # its threads take 60 ms to start
        done = _lesson(argv) if argv[:1] and argv[0] in ("learn", "forget") else None
        code = _command(argv) if done is None else done
    if called and (quick or argv[:1] == ["filter"]):
        _exit_fast(code)
    return code


def _filter(argv: "list[str]") -> int:
    """Run `filter`; return 75 after any failure, because Python's exit code for a crash, 1, would mean spam."""
    try:
        from surebayes.filter.quick.filter_mail import main as filter_mail

        code = filter_mail(argv)
        return _command(["filter", "--help"]) if code is None else code
    except BaseException as error:
        _warn(f"surebayes filter: {type(error).__name__}: {error}")
        return 75


def _lesson(argv: "list[str]") -> "int | None":
    """Run `learn` or `forget` of one document; return None for other calls, or if the fast path can't be imported."""
    try:
        from surebayes.filter.quick.lessons import main as learn_or_forget
    except Exception:  # the full command reports the error
        return None
    try:
        return learn_or_forget(argv)
    except BaseException as error:
        from surebayes.cli import failed

        return failed(error)


def _command(argv: "list[str]") -> int:
    """Run any other command; return 70 if the installation is damaged."""
    try:
        from surebayes.cli import main as commands
    except Exception as error:
        name = argv[0] if argv else ""
        if isinstance(error, ModuleNotFoundError) and error.name == "surebayes.cli":
            _warn(f"surebayes {name}: this installation has only the command `filter`. Install surebayes again.")
            return 2
        _warn(f"surebayes {name}: the installation is damaged: {type(error).__name__}: {error}. Install it again.")
        return 70
    return commands(argv)


def _exit_fast(code: int) -> "NoReturn":
    """End the process without finalizing modules, which takes up to 20 ms."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
            sys.stdout.close()  # some file systems report a full disk only here
    except Exception as error:
        _warn(f"surebayes: the output could not be written: {error}")
        code = 75 if sys.argv[1:2] == ["filter"] else code or 74
    os._exit(code)


def _warn(text: str) -> None:
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except Exception:  # standard error is closed
        sys.stderr = None


_MANY = ("train", "classify", "learn", "forget")
"""Commands that process many documents in one thread, without numpy's linear algebra."""


def _collect_less() -> None:
    """Run the garbage collector less often: start-up creates no garbage, and each collection takes up to 1 ms."""
    import gc

    gc.set_threshold(50_000, 20, 50)
