"""At most 0.1% false alarms, through a year of drift.

A certificate covers mail like the held-out mail. A budget of alarms covers any mail: each false alarm costs one, each
good message pays a little back, and the threshold rises with the debt. The synthetic mail drifts all year; the
correct labels of a day arrive the day after.
"""

import numpy as np

import surebayes as sb
from surebayes import synthetic

RATE, BURST, FIRST, DAYS, DAILY = 0.001, 3, 800, 365, 6
stream = list(synthetic.mail_stream(FIRST + DAYS * DAILY, seed=5, drift=1.0, season=400, hard=0.9))
mails, spam = [mail.raw for mail in stream], np.array([mail.truth == "spam" for mail in stream])

budgeted = sb.BudgetedThreshold(sb.ViewPool(), rate=RATE, burst=BURST, pos_label=True)
budgeted.fit(mails[:FIRST], spam[:FIRST])
alarms = caught = in_flight = 0
for start in range(FIRST, len(mails), DAILY):
    today, truth = mails[start : start + DAILY], spam[start : start + DAILY]
    flagged = np.asarray(budgeted.predict(today), bool)
    budgeted.partial_fit(today, truth, flagged=flagged)
    alarms += int((flagged & ~truth).sum())
    caught += int((flagged & truth).sum())
    in_flight = max(in_flight, int(flagged.sum()))

good = int((~spam[FIRST:]).sum())
print(
    f"{alarms} false alarms among {good} good messages; the bound is {BURST} + {RATE:.1%} of them, and those in flight"
)
print(f"spam caught: {caught / spam[FIRST:].sum():.1%}; debt left: {budgeted.budget_.debt:.2f} of {BURST}")
assert alarms <= BURST + RATE * good + in_flight
