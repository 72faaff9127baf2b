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
                from .cli import main as commands

                return commands(argv)
            except ModuleNotFoundError:  # a mail must come out, whatever is missing
                pass
        from ._judge import main as judge

        code = judge(argv[1:])
        if called and sys.stdout is not None:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)  # nothing is left to tidy up, and Python takes a millisecond for it
        return code
    try:
        from .cli import main as commands
    except ModuleNotFoundError as error:
        if error.name != "surebayes.cli":
            raise
        sys.stderr.write(f"surebayes {argv[0] if argv else ''}: this installation has no commands but `filter`.\n")
        return 2
    return commands(argv)


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
