"""Documents with several labels.

An indicator matrix makes each label one class against the rest, with explanations for each.
"""

import numpy as np

import surebayes as sb

texts = ["wheat and corn prices", "oil prices rise", "corn harvest", "crude oil and wheat", "interest rates rise"] * 8
names = ["grain", "oil", "money"]
Y = np.array([[1, 0, 1], [0, 1, 1], [1, 0, 0], [1, 1, 0], [0, 0, 1]] * 8)

words = sb.CountVectorizer()
nb = sb.OpinionPoolNB().fit(words.fit_transform(texts), Y)
row = words.transform(["wheat prices and crude oil"])
print("labels:", [name for name, on in zip(names, nb.predict(row)[0]) if on])
for name, why in zip(names, nb.explain(row, terms=words.get_feature_names_out())[0]):
    strongest = ", ".join(f"{term} {share:+.2f}" for term, share in zip(why.terms[:2], why.contributions[:2]))
    print(f"{name:6} score {why.score:+.2f}: {strongest}")
