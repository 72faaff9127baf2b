"""Errors of a model on disk, apart from the rest of `surebayes.errors` for a fast import."""


class SurebayesError(Exception):
    """Base of the errors that a user of surebayes may want to catch."""

    __module__ = "surebayes.errors"


class StoreError(SurebayesError):
    """Something on disk is not as it should be."""

    __module__ = "surebayes.errors"


class NoModel(StoreError, FileNotFoundError):
    """The folder has no model."""

    __module__ = "surebayes.errors"


class BadModel(StoreError, ValueError):
    """The model is damaged, truncated or not one of ours."""

    __module__ = "surebayes.errors"


class NewerModel(StoreError, ValueError):
    """The model was written by a later release."""

    __module__ = "surebayes.errors"


class Busy(StoreError):
    """Another process is writing to the folder."""

    __module__ = "surebayes.errors"
