"""At most 1% false alarms, kept while the mail changes.

A certificate is about mail like the held-out mail. A budget of alarms holds whatever comes: each false alarm costs
one, each good mail pays a little back, and the threshold rises with the debt. Here the invented mail drifts fast.
"""

import numpy as np

import surebayes as sb
from surebayes import synthetic

RATE, BURST = 0.01, 5
stream = [(mail.raw, mail.truth == "spam") for mail in synthetic.mail_stream(2000, seed=5, drift=0.9)]
mails, spam = [raw for raw, _ in stream], np.array([truth for _, truth in stream])

budgeted = sb.BudgetedThreshold(sb.ViewPool(), rate=RATE, burst=BURST, pos_label=True).fit(mails[:800], spam[:800])
alarms = caught = 0
for start in range(800, 2000, 50):  # fifty mails arrive, are judged, and their truth becomes known
    batch, truth = mails[start : start + 50], spam[start : start + 50]
    flagged = np.asarray(budgeted.predict(batch), bool)
    budgeted.partial_fit(batch, truth, flagged=flagged)
    alarms += int((flagged & ~truth).sum())
    caught += int((flagged & truth).sum())

known = int((~spam[800:]).sum())
print(
    f"false alarms: {alarms} among {known} good mails; the bound is {BURST} + {RATE:.0%} of them, and those in flight"
)
print(f"spam caught: {caught / spam[800:].sum():.1%}; debt left: {budgeted.budget_.debt:.2f} of {BURST}")
assert alarms <= BURST + RATE * known + 50
