"""The classifiers as scikit-learn estimators: each picks its parts from `surebayes.core`."""
