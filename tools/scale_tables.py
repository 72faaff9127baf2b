"""The measured tables of docs/scale.md, and the plan for a billion documents that follows from them."""

# ruff: noqa: E501 -- rows of tables
from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

Out = Callable[[str], Any]
FOUND = json.loads((Path(__file__).resolve().parent.parent / "docs" / "scale" / "measured.json").read_text())
BILLION = 10**9


def measured(out: Out) -> None:
    """Print the curve, the overhead of engines, and the costs of commands."""
    out("| documents | terms | CPU µs per document | peak memory: driver | largest worker |")
    out("|---|---|---|---|---|")
    for p in FOUND["curve"]:
        out(
            f"| {p['documents']:,} | {p['terms']:,} | {1e6 * p['cpu'] / p['documents']:.0f} | {p['driver_mb']:.0f} MB | {p['worker_mb']:.0f} MB |"
        )
    peer, last = FOUND["peer"], FOUND["curve"][-1]
    ratio = (peer["cpu"] / peer["documents"]) / (last["cpu"] / last["documents"])
    out("")
    out(
        f"scikit-learn's CountVectorizer + MultinomialNB on {peer['documents']:,} of the same texts: {1e6 * peer['cpu'] / peer['documents']:.0f} µs a document, {ratio:.1f} times"
    )
    out("as much, for one pass and a simpler model.")
    over = FOUND["overhead"]
    base = over["processes"]
    for name in ("dask", "spark"):
        if name in over:
            out("")
            out(
                f"{name.capitalize()} took {over[name][0] / base[0] - 1:+.0%} of CPU time over plain processes, start-up excluded, on {over['documents']:,} documents:"
            )
            out(
                f"{base[0]:.0f} CPU s and {base[1]:.0f} s elapsed with plain processes, {over[name][0]:.0f} CPU s and {over[name][1]:.0f} s with {name.capitalize()}."
            )
    mail = FOUND.get("mail")
    if mail:
        peer = mail["peer"]
        out("")
        out(
            f"`surebayes train --views words --no-journal` on {mail['documents']:,} synthetic messages of 320 words ({mail['terms']:,} terms), end to end:"
        )
        out(
            f"{mail['cpu']:.0f} CPU s, {mail['wall']:.0f} s elapsed, {mail['mb']:,.0f} MB. scikit-learn's CountVectorizer + MultinomialNB on {peer['documents']:,} of the decoded texts, times ten:"
        )
        out(
            f"{10 * peer['cpu']:.0f} CPU s, {10 * peer['wall']:.0f} s elapsed ({10 * peer['cpu'] / mail['cpu']:.1f} and {10 * peer['wall'] / mail['wall']:.1f} times as much)."
        )
    judging = FOUND.get("judging")
    if judging:
        few, many = judging["documents"]
        out("")
        out(
            f"`surebayes classify --jobs {judging['jobs']}`: peak memory of all its processes together, on {few:,} and on {many:,} messages of 320 words:"
        )
        out("")
        out("| | mbox | Maildir | JSON lines | Parquet |")
        out("|---|---|---|---|---|")
        for k, count in enumerate(judging["documents"]):
            row = " | ".join(f"{judging[name][k]:.0f} MB" for name in ("mbox", "Maildir", "JSON lines", "Parquet"))
            out(f"| {count:,} | {row} |")
        out("")
        out("Parquet is read one row group at a time, here up to 10,000 messages.")
    pools = FOUND.get("pools")
    if pools:
        out("")
        out('`ViewPool("mail")` (seven views) on synthetic messages of 320 words, by two processes:')
        out("")
        out("| messages | CPU µs per message | peak memory: driver | largest worker | the model, pickled |")
        out("|---|---|---|---|---|")
        for p in pools:
            out(
                f"| {p['documents']:,} | {1e6 * p['cpu'] / p['documents']:.0f} | {p['driver_mb']:.0f} MB | {p['worker_mb']:.0f} MB | {p['model_mb']:.0f} MB |"
            )


def plan(out: Out) -> None:
    """Print the plan for texts."""
    points = FOUND["curve"]
    a, b = points[-2], points[-1]
    growth = math.log(b["terms"] / a["terms"]) / math.log(b["documents"] / a["documents"])
    n = BILLION
    terms = b["terms"] * (n / b["documents"]) ** growth
    each = b["cpu"] / b["documents"]
    width = 2**24
    rows = [
        ("passes", "2 (weights from sums), 3 with `top`"),
        ("CPU", f"{each * n / 3600:.0f} hours of one core: {each * n / 3600 / 64:.1f} hours on 64 cores"),
        (
            "exact vocabulary",
            f"grows with the power {growth:.2f} of the documents: {terms / 1e6:.0f} million terms, {terms * 60 / 2**30:.0f} GB in the driver. Too much: hash",
        ),
        (
            "hashed columns, 2^24",
            f"sums {3 * 8 * width / 2**20:.0f} MB, weights {8 * width / 2**20:.0f} MB: a driver of 4 GB, workers of 2 GB",
        ),
        (
            "bytes shuffled",
            f"10,000 parts of 100,000 documents, at most {3 * 8 * width / 2**20:.0f} MB each and pass, less where sparse: up to {10_000 * 3 * 8 * width / 2**40:.1f} TB a pass in tree order, most of it between neighbours",
        ),
        ("bytes read", f"{n * 900 / 2**40:.1f} TB of text a pass"),
        (
            "cost",
            f"{each * n / 3600:.0f} core-hours and two or three readings of that text; the readings probably cost more",
        ),
    ]
    out("| | |")
    out("|---|---|")
    for name, value in rows:
        out(f"| {name} | {value} |")


def plan_of_pools(out: Out) -> None:
    """Print the plan for a pool of mail."""
    pools, n = FOUND["pools"], BILLION
    p = pools[-1]
    q = pools[0] if len(pools) > 1 else {"cpu": 0, "documents": 0}
    each_less = (p["cpu"] - q["cpu"]) / (p["documents"] - q["documents"])
    most = 7 * 2**22 * 2 * 8
    rows = [
        ("passes", "2: counts and digests, then the rows of at most 50,000 messages"),
        (
            "CPU",
            f"{each_less * n / 3600:.0f} hours of one core (weighting the experts costs the first messages more, and is bounded): {each_less * n / 3600 / 64:.1f} hours on 64 cores",
        ),
        (
            "model",
            f"columns are hashed: at most 2^22 a view, so {most / 2**20:.0f} MB of counts for any number of messages",
        ),
        (
            "bytes shuffled",
            f"{p['answer_mb']:.0f} MB of counts from a part of {p['part']:,} messages, at most {most / 2**20:.0f} MB from a large one: 10,000 parts of 100,000 messages send up to {10_000 * most / 2**40:.1f} TB, once",
        ),
        (
            "memory",
            f"a worker: one part, its counts and the sum of two ({3 * most / 2**30:.1f} GB at worst); the driver: that, and the sampled rows, {p['driver_mb'] / 1024:.1f} GB here with {p['documents']:,} messages",
        ),
        (
            "first limit",
            "a pool counts up to 2^31 documents and then refuses more; before that the root of the tree is slow",
        ),
    ]
    out("| | |")
    out("|---|---|")
    for name, value in rows:
        out(f"| {name} | {value} |")
