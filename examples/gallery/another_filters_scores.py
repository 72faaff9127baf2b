"""Certify the scores of another filter.

A promise needs only scores and labels, from any classifier. Here a linear model plays the other filter; `surebayes
audit` does the same for the scores of SpamAssassin, rspamd or bogofilter in your mail.
"""

import numpy as np
from sklearn.linear_model import SGDClassifier

import surebayes as sb
from surebayes import synthetic

documents, labels = synthetic.as_lists(4000, seed=8)
X = sb.HashingVectorizer(n_features=2**16).transform([mail.decode("utf-8", "replace") for mail in documents])
spam = np.array(labels) == "spam"

other = SGDClassifier(random_state=0).fit(X[:2000], spam[:2000])
held_out, new = slice(2000, 3000), slice(3000, 4000)
certificate = sb.certify(other.decision_function(X[held_out]), spam[held_out], max_fpr=0.02, pos_label="spam")
print(certificate)

above = other.decision_function(X[new]) > certificate.threshold
print(f"new mail: {(above & ~spam[new]).sum()} of {(~spam[new]).sum()} good messages above the threshold")
