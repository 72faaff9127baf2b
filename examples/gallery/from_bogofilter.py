"""Migrate from bogofilter, with its counts.

Bogofilter stores words with the numbers of good and spam messages that have them, which suffices for a start:
`bogoutil -d` writes its list, `surebayes import --from bogofilter` makes a filter of it. These counts can't be
forgotten. The threshold comes from mail that is set aside as it arrives; since bogofilter may have learnt some of it,
the rate is measured and not guaranteed, and the certificate says so. Without bogofilter, the example writes a list in
its format.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import surebayes as sb
from surebayes import synthetic

mails = list(synthetic.mail_stream(1400, seed=4))
known, new = mails[:400], mails[400:]


def wordlist(folder: Path) -> bytes:
    """Return bogofilter's list of words after it learnt the known messages, as `bogoutil -d` writes it."""
    if shutil.which("bogofilter") and shutil.which("bogoutil"):
        for label, flag in (("ham", "-n"), ("spam", "-s")):
            for mail in known:
                if mail.label == label:
                    subprocess.run(["bogofilter", "-d", folder, flag], input=mail.raw, check=False)
        return subprocess.run(["bogoutil", "-d", folder / "wordlist.db"], capture_output=True, check=True).stdout
    counts: Counter[tuple[str, str]] = Counter()
    for mail in known:
        for word in set(sb.read_message(mail.raw).text.split()):
            counts[word, mail.label] += 1
    number = Counter(mail.label for mail in known)
    lines = [f"{word} {counts[word, 'spam']} {counts[word, 'ham']} 20260101" for word in {word for word, _ in counts}]
    return "\n".join([f".MSG_COUNT {number['spam']} {number['ham']} 20260101", *lines, ""]).encode()


with tempfile.TemporaryDirectory() as folder:
    model = os.path.join(folder, "filter")
    command = [sys.executable, "-m", "surebayes", "import", "-m", model, "--from", "bogofilter", "-"]
    subprocess.run(command, input=wordlist(Path(folder)), check=True)  # surebayes import -m DIR --from bogofilter -
    with sb.Filter.open(model) as mine:
        right = [mine.judge(mail.raw).label == mail.truth for mail in new[:300]]
        print(f"before a lesson, {sum(right) / len(right):.0%} of new mail is judged right")
        # Mail that came since: a part is learnt, a part is set aside, and the threshold is found on what is set aside.
        done = mine.train([(mail.raw, mail.label) for mail in new[:800]], reserve=0.4)
        certificate = mine.calibrate(max_fpr=0.02)
        print(certificate)
        alarms = [mine.judge(mail.raw).label == "spam" for mail in new[800:] if mail.truth == "ham"]
        print(f"{done['learnt']} more messages: {sum(alarms)} of {len(alarms)} later good messages are called spam")
