"""What fuzzing asks of a model on disk: whatever a sealed folder says, it is judged with or refused, never worse.

The bytes choose what is changed in the manifest of a small filter, and which entries of its tables; then both are
sealed again, so that no checksum stands between them and what reads them.
"""

import copy
import json
import os
import shutil
from math import isfinite
from pathlib import Path

from surebayes.errors import BadModel, NewerModel
from surebayes.filter.lean.judge import MappedModel
from surebayes.kernels import kernel
from surebayes.persist.manifest import seal, unseal

ROOT = Path(__file__).parent.parent / ".fuzz"
BASE, CHANGED = ROOT / "model_base", ROOT / f"model_changed_{os.getpid()}"
MAIL = b"From: ann@example.org\nSubject: At nine?\nContent-Type: text/plain\n\nThe usual place, then. Bring the book.\n"
VALUES = (
    None, True, False, 0, 1, -1, 2, 3, 255, 256, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64, -(2**63), 10**30,
    0.0, -0.0, 0.5, -1.0, 1e-320, 1e308, -1e308, 1e400, "", "x", "bytes", "word", "raw", "text", "mail", [], {}, [[]],
    [0], [1.0],
)  # fmt: skip


def seeds():
    """Train the small filter where there is none, and yield inputs to start from."""
    if not BASE.exists():
        import surebayes as sb
        from surebayes.synthetic import mail_stream

        with sb.Filter.create(BASE) as made:
            made.train([(mail.raw, mail.label) for mail in mail_stream(12, seed=1)])
    yield b""
    for number in range(0, 256, 16):
        yield bytes([number, 7 * number % 256, number % len(VALUES), 255, 3, number])
        yield bytes([number, 5 * number % 256, (number + 9) % len(VALUES)])


def places(value, found):
    """Collect (container, key) of everything in a JSON object."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        found.append((value, key))
        places(inner, found)
    return found


def change(manifest, tables, data):
    """Change a manifest and its tables, as the bytes say."""
    views = [dict(view["table"]) for view in manifest["scoring"]["views"]]
    for a, b, c in zip(data[0:24:3], data[1:24:3], data[2:24:3]):
        if a == 255:  # an entry of a table, and the checksum of its block
            table = views[b % len(views)]
            at = table["entries"] + (c * 997) % (8 * table["n"])
            tables[at] ^= 1 << (b & 7)
            block = (at - table["entries"]) // 512
            start = table["entries"] + 512 * block
            crc = kernel("pool").block_checksums(
                bytes(tables[start : min(start + 512, table["entries"] + 8 * table["n"])])
            )
            tables[table["entry_crcs"] + 4 * block : table["entry_crcs"] + 4 * block + 4] = crc
            continue
        found = places(
            manifest["scoring"] if isinstance(manifest.get("scoring"), (dict, list)) and a < 240 else manifest, []
        )
        container, key = found[(a << 8 | b) % len(found)] if found else (manifest, "scoring")
        if c == 254:
            del container[key]
        elif c == 253 and isinstance(container, list):
            container.insert(key, copy.deepcopy(container[key]))
        else:
            container[key] = copy.deepcopy(VALUES[c % len(VALUES)])


def check(data):
    """Judge a mail with the changed model: scores that are numbers, or BadModel."""
    manifest = unseal((BASE / "manifest.json").read_bytes())
    del manifest["crc32"]
    name = manifest["files"]["tables"]["file"]
    tables = bytearray((BASE / name).read_bytes())
    change(manifest, tables, data)
    shutil.rmtree(CHANGED, ignore_errors=True)
    CHANGED.mkdir(parents=True)
    (CHANGED / name).write_bytes(tables)
    (CHANGED / "manifest.json").write_bytes(seal(json.dumps(manifest, indent=1).encode()))
    try:
        scores = list(MappedModel(str(CHANGED)).scores(MAIL))
    except (BadModel, NewerModel):
        return
    assert all(isinstance(score, float) and isfinite(score) for score in scores), scores
