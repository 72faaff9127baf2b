"""Errors of models on disk, in a module separate from `surebayes.errors` for a fast import."""


class SurebayesError(Exception):
    """Base of the errors that a user of surebayes may want to catch."""

    __module__ = "surebayes.errors"


class StoreError(SurebayesError):
    """A problem with a folder or file of a model."""

    __module__ = "surebayes.errors"


class NoModel(StoreError, FileNotFoundError):
    """The folder has no model."""

    __module__ = "surebayes.errors"


class BadModel(StoreError, ValueError):
    """The model is damaged, truncated, or not one of surebayes."""

    __module__ = "surebayes.errors"


class NewerModel(StoreError, ValueError):
    """The model was written by a later release."""

    __module__ = "surebayes.errors"


class Busy(StoreError):
    """Another process is writing to the folder."""

    __module__ = "surebayes.errors"
