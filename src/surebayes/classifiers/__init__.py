"""scikit-learn estimators on the core: classifiers on sparse count rows, term weighting, tuning.

Common parameters:

tf : {"count", "binary", "log"}
    The transformation of a count n: n, 1 or log(1 + n).
weight : str, tuple of str or None
    The weight of each term. "uniform" or None; "idf" = log(1 + N) - log(1 + f); "idf_plain" = log(N / f); "abs", the
    absolute log-odds of a first-stage model; "abs_idf", their product; "ig" = "mi", "chi2", "ratio", "odds",
    "log_odds", "kl", "odds_ratio", from document frequencies inside and outside the class. A tuple is a product.
steepness : float or None
    Softmax: values become exp(steepness * value) before normalization.
top : int, (int, str) or None
    Keep the N best terms of each document, ranked by the absolute log-odds of a model on all terms, or by the
    weight named in the pair.
selection : {"induction", "posthoc"}
    Whether `top` applies in training as well as in scoring, or in scoring only.
norm : {"l1", "l2"} or None; scale : float or "mean"
    The norm that rows are divided by, and the length they are then given: a number, or the mean length in training.
smoothing : float
    Added to every sum.
prior : {"fit", "uniform"} or array
    Prior log-odds of a class: from its share of documents, 0, or from the given probabilities.
unseen : {"smooth", "ignore"}
    Columns without training documents. "smooth": ordinary terms, as in scikit-learn.
    "ignore": excluded from V and from documents' scores and lengths, as if the columns did not exist.

With more than two classes (or labels), each class is scored against the rest.
"""
