"""Mail into folders: 99% of each folder right, the rest into the inbox.

Every class has its own promise: of the messages called invoices at least 99% are invoices, with confidence 95%.
Messages above no threshold are `unsure` and stay in the inbox for a person to decide, and the filter learns from the
decision. The mail is synthetic: bills, itineraries and mailing lists, a tenth of them ambiguous.
"""

import random
import tempfile
from collections import Counter
from pathlib import Path

import surebayes as sb

WORDS = {
    "invoices": "amount due account paid total tax invoice bank",
    "travel": "flight hotel train gate boarding check-in seat departure",
    "lists": "patch list reply merge branch review thread commit",
}
COMMON = ["hello", "regards", "thanks", "please", "monday", "today", "attached", "see", "best", "we", "the", "you"]
dice = random.Random(7)


def mail(folder: str) -> bytes:
    """Invent a message of a folder."""
    own = [] if dice.random() < 0.1 else dice.choices(WORDS[folder].split(), k=6)
    text = " ".join(dice.sample(own + dice.choices(COMMON, k=10), len(own) + 10))
    return f"From: sender{dice.randrange(10**6)}@example.org\nSubject: {dice.choice(COMMON)}\n\n{text}\n".encode()


def stream(n: int) -> list[tuple[bytes, str]]:
    """Invent mail with the folders it belongs into."""
    folders = dice.choices(list(WORDS), [2, 3, 5], k=n)
    return [(mail(folder), folder) for folder in folders]


with tempfile.TemporaryDirectory() as place:
    inbox = Path(place, "Maildir")
    with sb.Filter.create(Path(place, "filter"), list(WORDS), model="words") as desk:
        desk.train(stream(12_000), reserve=0.4)  # four in ten are set aside for the promises
        for folder, certificate in desk.calibrate(min_precision=0.99).items():
            print(f"{folder}: {certificate.promises[0]}; {certificate.recall:.0%} of them above the threshold")
        filed: Counter[str] = Counter()
        right: Counter[str] = Counter()
        for number, (document, truth) in enumerate(stream(3000)):
            label = desk.judge(document).label
            folder = inbox if label == "unsure" else inbox / f".{label}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{number}.eml").write_bytes(document)
            filed[label] += 1
            right[label] += label == truth
        for label, n in sorted(filed.items()):
            print(f"{label}: {n} messages" + ("" if label == "unsure" else f", {right[label] / n:.2%} right"))
        assert all(right[folder] / filed[folder] > 0.985 for folder in WORDS)
        assert 0 < filed["unsure"] < 0.3 * 3000
        unsure = next(document for document in inbox.glob("*.eml"))
        print(desk.teach(unsure.read_bytes(), "travel"), "what its owner moved from the inbox into travel")
