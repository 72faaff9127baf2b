"""A rare class among many.

Reuters' 90 topics if the folder SUREBAYES_DATA has them, else synthetic texts of twelve topics. For a rare class,
precision at the top of the list matters most.
"""

import numpy as np

import surebayes as sb
from surebayes import corpora, metrics, synthetic

try:
    reuters = corpora.load("reuters21578")
    texts, topics = list(reuters.documents), [set(labels) for labels in reuters.labels]
    train = np.flatnonzero(np.asarray(reuters.split) == "train")
    test = np.flatnonzero(np.asarray(reuters.split) == "test")
    rare = "cocoa"
except corpora.CorpusMissing as missing:
    print(f"{missing}\nInvented texts instead.\n")
    rows = list(synthetic.text_stream(3000, seed=2, topics=12, skew=1.0))
    texts, topics = [row.text for row in rows], [set(row.truth) for row in rows]
    train, test = np.arange(2000), np.arange(2000, 3000)
    rare = min(set.union(*topics), key=lambda topic: sum(topic in labels for labels in topics))

y = np.array([rare in labels for labels in topics])
rows = sb.CountVectorizer()
X, T = rows.fit_transform([texts[i] for i in train]), rows.transform([texts[i] for i in test])
print(f"{rare}: {y[train].sum()} of {len(train)} training documents")
for model in (sb.MultinomialNB(), sb.ClassNormalizedNB(), sb.OpinionPoolNB()):
    scores = model.fit(X, y[train]).decision_function(T)
    print(f"{type(model).__name__:20} break-even of precision and recall {metrics.break_even(y[test], scores):.3f}")
