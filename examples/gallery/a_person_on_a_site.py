"""One filter for the site, one layer for each person.

The site's filter is less accurate on one person's mail, and a person's few lessons don't suffice alone. A layer
combines both. The inboxes are those of the ECML/PKDD 2006 challenge if the folder SUREBAYES_DATA has them, and
synthetic otherwise: three people with different senders and shares of spam.
"""

import tempfile
from pathlib import Path

import surebayes as sb
from surebayes import corpora, metrics, synthetic


def inboxes() -> tuple[str, list[list[tuple[str | bytes, str]]]]:
    """Return the kind of documents, and the (document, label) pairs of each person."""
    if "ecml2006_a" not in corpora.available():
        streams = [synthetic.mail_stream(1200, seed=60 + who, spam_share=0.2 + 0.2 * who) for who in range(3)]
        return "mail", [[(mail.raw, mail.label) for mail in stream] for stream in streams]
    rows = corpora.load("ecml2006_a")  # "7:2 9:1": the word 7 twice, the word 9 once
    persons: dict[str, list[tuple[str | bytes, str]]] = {}
    for text, label, person in zip(rows.documents, rows.labels, rows.extra["part"]):
        pairs = [pair.split(":") for pair in text.split()]
        words = " ".join(f"w{word}" for word, count in pairs for _ in range(int(count)))
        persons.setdefault(person, []).append((words, label))
    return "text", list(persons.values())


reader, (mine, *others) = inboxes()
lessons, new = mine[:40], mine[600:]
spam = [label == "spam" for _, label in new]


def auc(judge: sb.Filter) -> float:
    """Return the area under the ROC curve up to 10% false alarms, on my new mail."""
    return float(metrics.partial_auc(spam, [judge.judge(document).score for document, _ in new]))


with tempfile.TemporaryDirectory() as folder:
    site, person, alone = (Path(folder, name) for name in ("site", "person", "alone"))
    with sb.Filter.create(site, reader=reader, model="words") as everybody:
        everybody.train([pair for other in others for pair in other], reserve=0.0)
        of_others = auc(everybody)
    with sb.Filter.create(person, base=site) as layer, sb.Filter.create(alone, reader=reader, model="words") as own:
        for document, label in lessons:
            layer.teach(document, label)
            own.teach(document, label)
        print(f"AUC_0.1 on my new mail, {len(new):,} of them:")
        print(f"  the site's filter              {of_others:.3f}")
        print(f"  my {len(lessons)} lessons alone            {auc(own):.3f}")
        print(f"  my lessons on the site's       {(both := auc(layer)):.3f}")
        changed = layer.explain_layers(new[0][0], top=3)
        assert changed is not None
    with sb.Filter.open(site) as everybody:
        assert auc(everybody) == of_others  # no one else's filter has learnt my taste
    print(f"my first new mail: {changed.base:+.2f} by the site, {changed.score:+.2f} with my lessons, most of all by")
    print("  " + ", ".join(f"{term} {change:+.2f}" for term, change in changed.terms))
assert both >= of_others - 0.002
