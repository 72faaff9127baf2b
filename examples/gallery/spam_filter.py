"""A spam filter in 20 lines.

Train on labelled mail, promise at most 2% false alarms, judge, correct. The mail is synthetic; replace it with two
lists of your own.
"""

import surebayes as sb
from surebayes import synthetic

mails, labels = synthetic.as_lists(3000, seed=1)

# A pool of views reads words, header fields and bytes; the threshold is chosen on mail that it did not learn.
guarded = sb.GuaranteedThreshold(sb.ViewPool(), max_fpr=0.02, pos_label="spam").fit(mails[:2000], labels[:2000])
print(guarded.certificate_)

verdicts = guarded.predict(mails[2000:])
good = [verdict for verdict, label in zip(verdicts, labels[2000:]) if label == "ham"]
spam = [verdict for verdict, label in zip(verdicts, labels[2000:]) if label == "spam"]
print(f"good mail taken for spam: {good.count('spam')} of {len(good)}")
print(f"spam caught: {spam.count('spam')} of {len(spam)}")
assert good.count("spam") <= 0.02 * len(good)
