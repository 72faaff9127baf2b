"""A sliding window over a stream, by learning and forgetting.

Only the last 300 documents count: each new one is learnt and the oldest is forgotten. The model always equals one
trained on the window alone, to the last bit.
"""

from collections import deque

import surebayes as sb
from surebayes import synthetic

documents, labels = synthetic.as_lists(500, seed=3)
hashed = sb.HashingVectorizer(n_features=2**18, alternate_sign=False, norm=None)
X = hashed.transform([mail.decode("utf-8", "replace") for mail in documents])

nb = sb.OpinionPoolNB(weight="abs", weighting="scoring")  # nothing is frozen: one pass, exact online
window: deque[int] = deque()
for i in range(X.shape[0]):
    nb.partial_fit(X[i], [labels[i]], classes=["ham", "spam"])
    window.append(i)
    if len(window) > 300:
        oldest = window.popleft()
        nb.forget(X[oldest], [labels[oldest]])

again = sb.OpinionPoolNB(weight="abs", weighting="scoring").fit(X[list(window)], [labels[i] for i in window])
same = bool((nb.decision_function(X[:50]) == again.decision_function(X[:50])).all())
print(f"{len(window)} documents in the window; scores equal to a fresh fit, bit for bit: {same}")
assert same
