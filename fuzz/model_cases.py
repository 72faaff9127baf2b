"""What fuzzing asks of a model on disk: whatever a sealed folder says, it is judged with or refused, never worse.

The bytes choose a small filter (one with a single file of tables, one with a stack of them and a budget, a layer on
another filter, one of texts with second stages), what is changed in its manifest, and which entries of its tables; then
all is sealed again, so that no checksum stands between them and what reads them.
"""

import copy
import json
import os
import shutil
import zlib
from math import isfinite
from pathlib import Path

from surebayes.errors import BadModel, NewerModel
from surebayes.filter.model import Model
from surebayes.kernels import kernel
from surebayes.persist.manifest import seal, unseal

ROOT = Path(__file__).parent.parent / ".fuzz"
BASE, CHANGED = ROOT / "model_bases", ROOT / f"model_changed_{os.getpid()}"
KINDS = ("one", "stack", "layer", "text")
MAIL = b"From: ann@example.org\nSubject: At nine?\nContent-Type: text/plain\n\nThe usual place, then. Bring the book.\n"
VALUES = (
    None, True, False, 0, 1, -1, 2, 3, 255, 256, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64, -(2**63), 10**30,
    0.0, -0.0, 0.5, -1.0, 1e-320, 1e308, -1e308, 1e400, "", "x", "bytes", "word", "raw", "text", "mail", [], {}, [[]],
    [0], [1.0], float("nan"), -1e400, 10**6, 10**6 + 1, "a\0b", "..", ".",
)  # fmt: skip


def seeds():
    """Train the small filters where there are none, and yield inputs to start from."""
    if not BASE.exists():
        import surebayes as sb
        from surebayes.synthetic import mail_stream

        mails = [(mail.raw, mail.label) for mail in mail_stream(40, seed=1)]
        with sb.Filter.create(BASE / "one") as made:
            made.train(mails[:12])
        with sb.Filter.create(BASE / "stack") as made:
            made.train(mails)
            made.calibrate(budget=0.01)
        with sb.Filter.open(BASE / "stack") as made:
            made.teach(b"Subject: nine\n\nThe usual place", "ham")
        with sb.Filter.create(BASE / "layer", base=BASE / "one") as made:
            for raw, label in mails[12:15]:
                made.teach(raw, label)
        with sb.Filter.create(BASE / "text", reader="text", width=2**12) as made:
            made.train([(raw.decode("latin-1"), label) for raw, label in mails])
    yield b""
    for kind in range(len(KINDS)):
        for number in range(0, 256, 16):
            yield bytes([kind, number, 7 * number % 256, number % len(VALUES), 255, 3, number])
            yield bytes([kind, number, 5 * number % 256, (number + 9) % len(VALUES)])
        yield bytes([kind, 254, 1, 3, 254, 2, 10, 255, 0, 9])


def places(value, found):
    """Collect (container, key) of everything in a JSON object."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        found.append((value, key))
        places(inner, found)
    return found


def tables_of(manifest, which):
    """Return (entry of the file, n, where its entries, their checksums) of every table of a file."""
    name = "tables" if not which else f"stack.{which}"
    for view in manifest["scoring"]["views"]:
        if not which:
            stages = [stage["table"] for stage in view.get("stages") or () if stage]
            for table in (view["table"], *stages):
                yield name, table["n"], table["entries"], table["entry_crcs"]
        else:
            n, at = view["stack"][which - 1]
            yield name, n, at, at + 8 * n


def change(manifest, files, tables, data):
    """Change a manifest and its tables, as the bytes say."""
    for a, b, c in zip(data[0:24:3], data[1:24:3], data[2:24:3]):
        if a == 255:  # an entry of a table, and the checksum of its block
            name, n, entries, crcs = tables[b % len(tables)]
            at = entries + (c * 997) % (8 * n)
            files[name][at] ^= 1 << (b & 7)
            block = (at - entries) // 512
            start = entries + 512 * block
            crc = kernel("pool").block_checksums(bytes(files[name][start : min(start + 512, entries + 8 * n)]))
            files[name][crcs + 4 * block : crcs + 4 * block + 4] = crc
            continue
        part = manifest.get({254: "settings", 253: "settings", 252: "standing"}.get(a, "scoring" if a < 240 else ""))
        if a == 254 and isinstance(part, dict) and isinstance(part.get("base"), dict):
            part = part["base"]
        found = places(part if isinstance(part, (dict, list)) else manifest, [])
        container, key = found[(a << 8 | b) % len(found)] if found else (manifest, "scoring")
        if c == 254:
            del container[key]
        elif c == 253 and isinstance(container, list):
            container.insert(key, copy.deepcopy(container[key]))
        else:
            container[key] = copy.deepcopy(VALUES[c % len(VALUES)])


def check(data):
    """Judge a mail with the changed model: scores that are numbers and a verdict, or BadModel."""
    folder = BASE / KINDS[(data[0] if data else 0) % len(KINDS)]
    manifest = unseal((folder / "manifest.json").read_bytes())
    del manifest["crc32"]
    described = {name: dict(entry) for name, entry in manifest["files"].items()}
    files = {}
    for name, entry in described.items():
        raw = (folder / entry["file"]).read_bytes()
        files[name] = bytearray(zlib.decompress(raw) if "unpacked" in entry else raw)
    tables = [table for which in range(len(files)) for table in tables_of(manifest, which) if table[1]]
    change(manifest, files, tables, data[1:])
    shutil.rmtree(CHANGED, ignore_errors=True)
    CHANGED.mkdir(parents=True)
    for name, entry in described.items():
        raw = bytes(files[name])
        if "unpacked" in entry:
            raw = zlib.compress(raw, 6)
            if isinstance(manifest.get("files"), dict) and isinstance(manifest["files"].get(name), dict):
                manifest["files"][name]["size"] = len(raw)
        (CHANGED / entry["file"]).write_bytes(raw)
    text = json.dumps(manifest, indent=1).replace("Infinity", "1e999")  # a number that JSON allows
    (CHANGED / "manifest.json").write_bytes(seal(text.encode()))
    try:
        model = Model.open(str(CHANGED))
        scores = list(model.scores(MAIL))
    except (BadModel, NewerModel):
        return
    assert all(isinstance(score, float) and isfinite(score) for score in scores), scores
    label, score, threshold, probability = model.decide(scores)
    assert isinstance(label, str), label
    assert isfinite(score + threshold), (score, threshold)
    assert 0 <= probability <= 1, probability
