"""A host of the test of disasters: teaches, forgets, corrects and erases at random, and logs what was acknowledged.

`python one_host.py FOLDER LOG HOST SEED OPERATIONS`. A line of the log has the teacher of an operation, a name of its
own, the person whose layer it was for (`-` for the site) and the outcome, flushed when it is acknowledged. After a kill
it continues after the last operation of its log.
"""

import os
import random
import sys

import surebayes as sb
from surebayes.errors import Busy
from surebayes.filter.site_persons import persons_of
from surebayes.server.layers import OpenLayers
from surebayes.synthetic import mail_stream

PEOPLE = ("ann", "bob", "cid", "dan", "eve")
GONE = "gil"
"""A person who is forgotten now and then, with all lessons."""


def main(folder, log, host, seed, operations):
    """Do the operations that the log doesn't have yet."""
    mails = [mail.raw for mail in mail_stream(60, seed=9)]
    with open(log, "a+") as file:
        file.seek(0)
        done = sum(1 for line in file if line.endswith("\n"))
        dice = random.Random(f"{seed} {host} {done}")
        with sb.Filter.open(folder) as mine:
            layers = OpenLayers(persons_of(f"{folder}-users", folder), mine, 3)
            mine.follow(layers.followed())
            for i in range(done, int(operations)):
                raw, who = dice.choice(mails), f"{host}-{i}-{os.getpid()}"
                person = dice.choice([*PEOPLE, GONE]) if dice.random() < 0.4 else "-"
                try:
                    if person == "-":
                        outcome = at_site(mine, raw, who, dice)
                    else:
                        outcome = in_layer(layers, person, raw, who, dice)
                except Busy:
                    outcome = "refused"
                file.write(f"{who} {person} {outcome}\n")
                file.flush()
            mine.stop_following()
            layers.close()


def at_site(mine, raw, who, dice):
    """Do an operation on the site; return its outcome."""
    what = dice.random()
    if what < 0.6:
        return mine.teach(raw, dice.choice(["ham", "spam"]), who)
    if what < 0.75:
        return mine.forget(raw, who)
    if what < 0.77:
        return f"erased {mine.erase(documents=[raw], who=who)['rows']}"
    if what < 0.97:
        mine.judge(f"Subject: {who}\n\nonce", person=who)  # a message that nobody erases
        return "judged"
    mine.judge(raw)
    return f"rescued {mine.rescue(raw, f'rescue of {who}').outcome}"


def in_layer(layers, person, raw, who, dice):
    """Do an operation on a person's layer; return its outcome."""
    what = dice.random()
    label = dice.choice(["ham", "spam"])
    if person == GONE and what > 0.9:
        return f"forgotten person {layers.forget(person)}"
    if what < 0.7:
        return layers.do(person, lambda layer: layer.teach(raw, label, who), make=True)
    if what < 0.9:
        return layers.do(person, lambda layer: layer.forget(raw, who), make=True)
    if what < 0.93:
        return layers.do(person, lambda layer: f"erased {layer.erase(documents=[raw], who=who)['rows']}", make=True)
    return f"judged {layers.do(person, lambda layer: layer.judge(raw).label)}"


if __name__ == "__main__":
    main(*sys.argv[1:])
