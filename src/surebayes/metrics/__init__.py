"""Measures of rankings and decisions, from labels and scores alone.

Labels may be booleans, 0/1 or any two values; the larger one is the positive class. Higher scores mean "more positive";
scores strictly above a threshold are positive. Rows with equal scores form one step: no measure depends on the order of
ties. Scores may be infinite, never NaN.

=====================================  ==========================================================================
:func:`roc_curve`, :func:`roc_auc`     the curve, the area under it
:func:`partial_auc`                    area left of a false-positive rate (AUC_0.1 of Kolcz & Yih)
:func:`tpr_at_fpr`                     recall at a false-positive rate
:func:`specificity_at_recall`          true-negative rate at a recall (Kolcz & Chowdhury)
:func:`roca_percent`                   TREC's 1-ROCA%
:func:`lam_percent`                    TREC's logistic average of two error rates
:func:`break_even`                     point of equal precision and recall
:func:`precision_recall_f1`            at one threshold
:func:`micro_f1`, :func:`macro_f1`     of multi-label or multi-class decisions
:func:`rate_interval`                  exact interval of a rate
:func:`bootstrap_interval`             interval of any of these, or of your own function of labels and scores
:func:`corrected_resampled_ttest`      two classifiers on the same random splits
:func:`sign_test`                      wins against losses
=====================================  ==========================================================================
"""

from surebayes.metrics.measures import *  # noqa: F403
from surebayes.metrics.measures import __all__ as __all__
