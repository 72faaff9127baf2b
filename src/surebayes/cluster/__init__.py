"""Past one machine: fits and scores of documents in parts, by executors, Dask or Spark.

The result is to the bit what one machine makes of the same documents, however they are cut into parts.

`fit` works with any executor of `concurrent.futures`, or none; `fit_dask` and `fit_spark` with those engines, which are
extras: ``pip install 'surebayes[dask]'`` and ``'surebayes[spark]'``.
"""

from surebayes.cluster.fits import fit

__all__ = ["fit"]
