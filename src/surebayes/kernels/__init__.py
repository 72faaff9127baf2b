"""What runs in C, and its twins in Python: text, mail, counts and the scores of a pool.

A compiled kernel is used where it was built, its twin of the same names and signatures otherwise. `kernel` is the one
place where that is chosen.
"""

TYPE_CHECKING = False  # typing costs 4 ms of start-up
if TYPE_CHECKING:
    from types import ModuleType

_TWINS = {"text": "text_twin", "mail": "mail_twin", "pool": "pool_twin"}
_chosen: "dict[str, ModuleType]" = {}
_warned = False


def kernel(name: str = "text") -> "ModuleType":
    """Return a kernel, compiled or in Python; the first time that it is Python, warn.

    Parameters
    ----------
    name : {"text", "mail", "pool"}
        What it is for.

    Examples
    --------
    >>> from surebayes.kernels import kernel
    >>> kernel("mail").html_text("<p>Fish &amp; chips")
    'Fish & chips'
    """
    chosen = _chosen.get(name)
    if chosen is None:
        try:
            chosen = __import__(f"surebayes.kernels._{name}", fromlist=["kernels"])
        except ImportError:
            chosen = __import__(f"surebayes.kernels.{_TWINS[name]}", fromlist=["kernels"])
            _warn()
        _chosen[name] = chosen
    return chosen


def _warn() -> None:
    global _warned
    if not _warned:
        import warnings

        _warned = True
        warnings.warn(
            "surebayes runs on its pure-Python kernels, many times slower than the compiled ones, which are not built "
            "here. To build them, install a C compiler and run `pip install --force-reinstall --no-binary surebayes "
            "surebayes` (in a source tree: `pip install --editable .`).",
            UserWarning,
            stacklevel=3,
        )
