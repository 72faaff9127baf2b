"""Distributed fitting and scoring on executors, Dask or Spark.

The result equals a fit on one machine bit for bit, however the documents are partitioned. `fit` works with any executor
of `concurrent.futures`, or none; the remaining functions need extras:
``pip install 'surebayes[dask]'`` and ``'surebayes[spark]'``.
"""

from surebayes.cluster.fits import fit
from surebayes.cluster.on_dask import fit_dask, score_dask
from surebayes.cluster.on_spark import fit_spark, score_spark
from surebayes.cluster.spread import DaskSpread
from surebayes.cluster.summaries import PositiveCounts, ScoreSummary
from surebayes.cluster.summarizing import summarize

__all__ = [
    "DaskSpread",
    "PositiveCounts",
    "ScoreSummary",
    "fit",
    "fit_dask",
    "fit_spark",
    "score_dask",
    "score_spark",
    "summarize",
]
