"""A host of the test of disasters: teaches, forgets and erases at random, and logs what was acknowledged.

`python one_host.py FOLDER LOG HOST SEED OPERATIONS`. A line of the log has the teacher of an operation, a name of its
own, and the outcome, flushed when it is acknowledged. After a kill it continues after the last operation of its log.
"""

import os
import random
import sys

import surebayes as sb
from surebayes.errors import Busy
from surebayes.synthetic import mail_stream


def main(folder, log, host, seed, operations):
    """Do the operations that the log doesn't have yet."""
    mails = [mail.raw for mail in mail_stream(60, seed=9)]
    with open(log, "a+") as file:
        file.seek(0)
        done = sum(1 for line in file if line.endswith("\n"))
        dice = random.Random(f"{seed} {host} {done}")
        with sb.Filter.open(folder) as mine:
            mine.follow()
            for i in range(done, int(operations)):
                raw, what, who = dice.choice(mails), dice.random(), f"{host}-{i}-{os.getpid()}"
                try:
                    if what < 0.6:
                        outcome = mine.teach(raw, dice.choice(["ham", "spam"]), who)
                    elif what < 0.75:
                        outcome = mine.forget(raw, who)
                    elif what < 0.77:
                        outcome = f"erased {mine.erase(documents=[raw], who=who)['rows']}"
                    elif what < 0.97:
                        mine.judge(f"Subject: {who}\n\nonce", person=who)  # a message that nobody erases
                        outcome = "judged"
                    else:
                        mine.judge(raw)
                        outcome = f"rescued {mine.rescue(raw, f'rescue of {who}').outcome}"
                except Busy:
                    outcome = "refused"
                file.write(f"{who} {outcome}\n")
                file.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
