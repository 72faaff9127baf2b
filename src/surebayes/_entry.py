"""The command `surebayes`: `filter` takes the lean way, everything else goes to `surebayes.cli`."""

import os
import sys


def main(argv: "list[str] | None" = None) -> int:
    """Run a command; give its exit code."""
    called = argv is None
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == ["filter"]:
        if _configured_anew(argv):
            try:
                from surebayes.cli import main as commands

                return commands(argv)
            except ModuleNotFoundError:  # a mail must come out, whatever is missing
                pass
        from surebayes.filter.one_shot import main as judge

        code = judge(argv[1:])
        if called and sys.stdout is not None:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)  # nothing is left to tidy up, and Python takes a millisecond for it
        return code
    quick = argv[:1] and argv[0] in _MANY
    if quick:
        _make_ready()
    try:
        from surebayes.cli import main as commands
    except ModuleNotFoundError as error:
        if error.name != "surebayes.cli":
            raise
        sys.stderr.write(f"surebayes {argv[0] if argv else ''}: this installation has no commands but `filter`.\n")
        return 2
    code = commands(argv)
    if called and quick:
        sys.stderr.flush()
        os._exit(code)  # everything is written and closed; to take the modules down would cost 20 ms
    return code


_MANY = ("train", "classify", "learn", "forget")
"""Commands that go through many documents in one thread, without numpy's linear algebra."""


def _make_ready() -> None:
    """Save what start-up and many short-lived objects cost."""
    import gc

    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # its threads take 60 ms to start
    gc.set_threshold(50_000, 20, 50)


def _configured_anew(argv: "list[str]") -> bool:
    """Tell whether the filter's configuration file was changed after its manifest was written."""
    if os.environ.get("SUREBAYES_CONFIG") or any(word.startswith("--config") for word in argv):
        return True
    folder = os.environ.get("SUREBAYES_MODEL", "")
    for i, word in enumerate(argv[:-1]):
        if word in ("-m", "--model"):
            folder = argv[i + 1]
    if not folder:
        return False
    try:
        changed = os.stat(os.path.join(folder, "config.toml")).st_mtime_ns
        return changed > os.stat(os.path.join(folder, "manifest.json")).st_mtime_ns
    except OSError:
        return False
