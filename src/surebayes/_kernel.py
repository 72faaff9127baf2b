"""The text kernel: compiled where it was built, in plain Python otherwise."""

_chosen = None


def kernel():
    """Choose `_text`, or its twin `_text_python` with a warning the first time."""
    global _chosen
    if _chosen is None:
        try:
            from . import _text

            _chosen = _text
        except ImportError:
            import warnings

            from . import _text_python

            _chosen = _text_python
            warnings.warn(
                "surebayes runs on its pure-Python text kernel, many times slower than the compiled one, which is not "
                "built here. To build it, install a C compiler and run `pip install --force-reinstall --no-binary "
                "surebayes surebayes` (in a source tree: `pip install --editable .`).",
                UserWarning,
                stacklevel=2,
            )
    return _chosen
