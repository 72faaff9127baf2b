"""The C kernels for text, mail, counts and pool scores, and their reference implementations in Python.

A compiled kernel is used where it was built, a module in Python with the same names and signatures otherwise. `kernel`
is the one place where that is chosen.
"""

TYPE_CHECKING = False  # typing costs 4 ms of start-up
if TYPE_CHECKING:
    from types import ModuleType

_IN_PYTHON = {
    "text": "surebayes.kernels.reference.text",
    "mail": "surebayes.mail.readers",  # they also read input that the kernel declines
    "pool": "surebayes.kernels.reference.pool",
}
_chosen: "dict[str, ModuleType]" = {}
_warned = False


def kernel(name: str = "text") -> "ModuleType":
    """Return a kernel, compiled or in Python; the first use of Python warns.

    Parameters
    ----------
    name : {"text", "mail", "pool"}
        The name of the kernel.

    Examples
    --------
    >>> from surebayes.kernels import kernel
    >>> kernel("pool").checksum(b"Fish and chips")
    1612776351
    """
    chosen = _chosen.get(name)
    if chosen is None:
        try:
            chosen = __import__(f"surebayes.kernels._{name}", fromlist=["kernels"])
        except ImportError:
            chosen = __import__(_IN_PYTHON[name], fromlist=["kernels"])
            _warn()
        _chosen[name] = chosen
    return chosen


def is_compiled() -> bool:
    """Whether the kernels are built here.

    Examples
    --------
    >>> from surebayes.kernels import is_compiled
    >>> is_compiled() in (True, False)
    True
    """
    return kernel("text").__name__ == "surebayes.kernels._text"


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
