"""What runs in C, and its twins in Python: text, mail, counts and the scores of a pool.

The compiled kernels are used where they were built, their twins otherwise.
"""

_chosen = None


def kernel():
    """Choose `_text`, or its twin `text_twin` with a warning the first time."""
    global _chosen
    if _chosen is None:
        try:
            from surebayes.kernels import _text

            _chosen = _text
        except ImportError:
            import warnings

            from surebayes.kernels import text_twin

            _chosen = text_twin
            warnings.warn(
                "surebayes runs on its pure-Python text kernel, many times slower than the compiled one, which is not "
                "built here. To build it, install a C compiler and run `pip install --force-reinstall --no-binary "
                "surebayes surebayes` (in a source tree: `pip install --editable .`).",
                UserWarning,
                stacklevel=2,
            )
    return _chosen
