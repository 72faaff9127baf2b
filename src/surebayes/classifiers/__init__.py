"""scikit-learn estimators on the core: classifiers on sparse rows of counts, term weighting, tuning.

Parameters that several of them share:

tf : {"count", "binary", "log"}
    What a count n becomes: n, 1 or log(1 + n).
weight : str, tuple of str or None
    The weight of a term. "uniform" or None; "idf" = log(1 + N) - log(1 + f); "idf_plain" = log(N / f); "abs", the
    absolute log-odds of a first-stage model; "abs_idf", their product; "ig" = "mi", "chi2", "ratio", "odds",
    "log_odds", "kl", "odds_ratio", from document frequencies inside and outside the class. A tuple is a product.
steepness : float or None
    Softmax: values become exp(steepness * value) before the norm.
top : int, (int, str) or None
    Keep the N best terms of each document, ranked by the absolute log-odds of the model on all terms, or by the
    weight named in the pair.
selection : {"induction", "posthoc"}
    Whether `top` applies to training documents too or only in scoring.
norm : {"l1", "l2"} or None; scale : float or "mean"
    What rows are divided by, and the length they get: a number, or the mean length of the training rows.
smoothing : float
    Added to every sum.
prior : {"fit", "uniform"} or array
    Log-odds of a class before reading: from its share of documents, 0, or from the given probabilities.
unseen : {"smooth", "ignore"}
    Treatment of columns without training documents. "smooth": ordinary terms, as in scikit-learn.
    "ignore": they count neither in V nor in a document's score or length, as if the columns were not there.

With more than two classes (or labels) every class is set against the rest.
"""
