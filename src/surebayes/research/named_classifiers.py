"""Construction of classifiers from names: classes of surebayes, scikit-learn or a user's module."""

from __future__ import annotations

import ast
import importlib
import os
import re
import sys
from typing import Any

__all__ = ["classifier_of"]

SOURCES = ("surebayes", "sklearn")
"""Packages allowed in dotted names; classes of any other module are written MODULE:NAME."""
_USER_CLASS = re.compile(r"\s*([A-Za-z_][\w.]*):([A-Za-z_].*)", re.DOTALL)


def classifier_of(text: str) -> Any:
    """Build a classifier from its name and settings; the settings must be literals.

    Parameters
    ----------
    text : str
        A class of surebayes, the full name of a scikit-learn class, or MODULE:NAME for any other class (the current
        folder is searched too), optionally followed by settings in parentheses.

    Raises
    ------
    ValueError
        If the text is malformed, or names no classifier, or its settings are invalid.

    Examples
    --------
    >>> from surebayes.research.named_classifiers import classifier_of
    >>> classifier_of("OpinionPoolNB(top=100)")
    OpinionPoolNB(top=100)
    >>> classifier_of("sklearn.linear_model.LogisticRegression(C=10)")
    LogisticRegression(C=10)
    >>> classifier_of("sklearn.naive_bayes:ComplementNB(alpha=0.1)")
    ComplementNB(alpha=0.1)
    """
    user_class = _USER_CLASS.fullmatch(text)
    name, settings = _parsed(user_class[2] if user_class else text, text)
    if user_class:
        module, attribute = user_class[1], name
    else:
        module, _, attribute = name.rpartition(".")
        module = module or "surebayes"
        if module.split(".")[0] not in SOURCES:
            raise ValueError(
                f"A classifier must come from {' or '.join(SOURCES)}, or be written MODULE:NAME. Got {name!r}."
            )
    factory = _imported(module, attribute, user_class is not None)
    if not (isinstance(factory, type) and hasattr(factory, "fit")):
        raise ValueError(f"{name!r} is not a classifier.")
    try:
        return factory(**settings)
    except TypeError as error:
        raise ValueError(f"{text!r} can't be created: {error}.") from None


def _parsed(text: str, whole: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the settings of Name(setting=value, ...)."""
    try:
        parsed = ast.parse(text.strip(), mode="eval").body
        call = parsed if isinstance(parsed, ast.Call) else None
        name = ast.unparse(call.func if call else parsed)
        if call and call.args:
            raise ValueError("settings need names")
        return name, {str(pair.arg): _value(pair) for pair in (call.keywords if call else [])}
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"Write a classifier as Name or Name(setting=value, ...). Got {whole!r} ({error}).") from None


def _value(pair: ast.keyword) -> Any:
    """Return the value of a setting; raise ValueError for a string without quotes, which shells remove."""
    try:
        return ast.literal_eval(pair.value)
    except ValueError:
        if isinstance(pair.value, ast.Name):
            raise ValueError(f'a string needs quotes: {pair.arg}="{pair.value.id}"') from None
        raise


def _imported(module: str, attribute: str, from_user: bool) -> Any:
    folder = os.getcwd()
    added = from_user and folder not in sys.path
    if added:
        sys.path.insert(0, folder)
    try:
        part_of: Any = importlib.import_module(module)
        for part in attribute.split("."):
            part_of = getattr(part_of, part)
        return part_of
    except ImportError as error:
        missing = f"There is no {attribute!r} in {module}" if not from_user else f"{module} can't be imported: {error}"
        raise ValueError(f"{missing}.") from None
    except AttributeError:
        raise ValueError(f"There is no {attribute!r} in {module}.") from None
    except Exception as error:
        if not from_user:
            raise
        raise ValueError(f"{module} can't be imported: {type(error).__name__}: {error}.") from error
