"""Migrate from scikit-learn: three lines change.

The vectorizer and the classifier have new imports, and the last line adds a threshold with a promise. The matrix and
the predictions stay the same.
"""

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer as TheirVectorizer
from sklearn.naive_bayes import MultinomialNB as TheirNB
from sklearn.pipeline import make_pipeline

from surebayes import CountVectorizer, GuaranteedThreshold, MultinomialNB, synthetic

documents, labels = synthetic.as_lists(1500, seed=6)
texts = [mail.decode("utf-8", "replace") for mail in documents]

theirs = make_pipeline(TheirVectorizer(ngram_range=(1, 2)), TheirNB(alpha=0.1)).fit(texts[:1000], labels[:1000])
ours = make_pipeline(CountVectorizer(ngram_range=(1, 2)), MultinomialNB(alpha=0.1)).fit(texts[:1000], labels[:1000])
same = bool((theirs.predict(texts[1000:]) == ours.predict(texts[1000:])).all())
print(f"the same predictions: {same}")
assert same
assert np.allclose(theirs.predict_log_proba(texts[1000:1010]), ours.predict_log_proba(texts[1000:1010]))

guarded = GuaranteedThreshold(ours, max_fpr=0.03, pos_label="spam").fit(texts[:1000], labels[:1000])
print(guarded.certificate_)
