"""Calls of every entry point of the kernels, recorded and then altered: a kernel may refuse them, not crash.

    python fuzz/recorded_calls.py [--seconds 60] [--seed 0] [--only pool.load]

A small workload (pools and filters of mail and text, layers, vectorizers, mailboxes) runs with every function of the
compiled kernels wrapped, so that each leaves a few of its calls. An altered call has one to three of its values
exchanged: numbers beyond their range, arrays that are cut, lengthened, misaligned, read-only or full of garbage,
attributes that are missing, lists for tuples. Outputs are full of garbage before each call. What is wrong is a crash,
a SystemError and, in a build with sanitizers (`make fuzz-kernels`), whatever these object to.

The number and the name of a call are in the file that SUREBAYES_LAST_CALL names before it is made: `--seed`, `--first`
and `--calls 1` repeat it.
"""

import argparse
import faulthandler
import gc
import mmap
import os
import random
import sys
import tempfile
import time
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from surebayes.kernels import _mail, _pool, _text

MODULES = {"text": _text, "mail": _mail, "pool": _pool}
LEFT_OUT = {"pool.end_on_bus_error"}
"""It changes what a signal of the process does, and takes nothing."""
KEPT = 12
"""Calls kept of each function, of different kinds: by their arguments' types and sizes."""
REFUSALS = (
    ValueError, TypeError, OverflowError, MemoryError, BufferError, AttributeError, IndexError, RuntimeError, KeyError
)  # fmt: skip
WHOLE = (-1, 0, 1, 2, 3, 7, 255, 65535, 2**16, 2**20, 2**31 - 1, 2**31, 2**32 - 1, 2**32, -(2**31), 2**62, 2**63 - 1)
BEYOND = (2**63, 2**64, -(2**63) - 1)
REAL = (float("nan"), float("inf"), float("-inf"), 0.0, -0.0, -1.0, 1e308, 5e-324, 1e30)
ODD = (None, (), [], {}, b"", "", "x", b"\xff" * 9, 1.5, object(), True)


class Stand:
    """An object with the attributes of another one."""


# ---------------------------------------------------------------------- recording


class Recorder:
    """Functions wrapped so that they leave copies of what they are called with."""

    def __init__(self) -> None:
        self.calls: dict[str, dict[Any, tuple[tuple, dict]]] = {}
        self.wrapped: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> "Recorder":
        for short, module in MODULES.items():
            for name in entry_points(module):
                function = getattr(module, name)
                if not isinstance(function, type):
                    self.wrapped.append((module, name, function))
                    setattr(module, name, self.recording(f"{short}.{name}", function))
        return self

    def __exit__(self, *_: object) -> None:
        for module, name, function in self.wrapped:
            setattr(module, name, function)

    def recording(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that notes its arguments before it calls another."""

        def called(*args: Any, **kwargs: Any) -> Any:
            self.note(name, args, kwargs)
            return function(*args, **kwargs)

        return called

    def note(self, name: str, args: tuple, kwargs: dict) -> None:
        """Keep a call, unless one of its kind is kept."""
        kept = self.calls.setdefault(name, {})
        kind = str(shape_of((args, kwargs)))
        if len(kept) < KEPT and kind not in kept:
            kept[kind] = cloned((args, kwargs))


def entry_points(module: Any) -> list[str]:
    """Return the names of what can be called."""
    return [name for name in vars(module) if not name.startswith("_") and callable(getattr(module, name))]


def shape_of(value: Any, depth: int = 0) -> Any:
    """Return what kind of value it is: what calls that are alike have in common."""
    if isinstance(value, (tuple, list)) and depth < 3:
        return type(value).__name__, [shape_of(item, depth + 1) for item in value[:3]], min(len(value), 3)
    if isinstance(value, dict):
        return sorted(value)
    if is_buffer(value):
        return type(value).__name__, min(len(value), 1)
    if isinstance(value, (int, float, str)) or value is None:
        return type(value).__name__
    return type(value).__name__, [shape_of(getattr(value, name, None), depth + 1) for name in attributes(value)]


def is_buffer(value: Any) -> bool:
    """Whether a value is memory that kernels read or write."""
    memory = (bytes, bytearray, memoryview, array, mmap.mmap)
    return isinstance(value, memory) or type(value).__name__ in ("ndarray", "Block")


def attributes(value: Any) -> list[str]:
    """Return the names of an object's fields."""
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    return [*slots, *vars(value)] if hasattr(value, "__dict__") else slots


def is_object(value: Any) -> bool:
    """Whether a value is one of the library's, which kernels read by its attributes."""
    known = isinstance(value, Stand) or type(value).__module__.startswith("surebayes.")
    return (
        known and not isinstance(value, type) and type(value).__module__ not in (m.__name__ for m in MODULES.values())
    )


def cloned(value: Any) -> Any:
    """Copy a value all through; arrays become bytearrays, or bytes where they are read-only."""
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(cloned(item) for item in value)
    if isinstance(value, list):
        return [cloned(item) for item in value]
    if isinstance(value, dict):
        return {key: cloned(item) for key, item in value.items()}
    if isinstance(value, bytes):
        return value
    if is_buffer(value):
        view = memoryview(value)
        if not view.c_contiguous:
            return value
        return bytes(view) if view.readonly else bytearray(view.cast("B") if view.nbytes else b"")
    if is_object(value):
        stand = object.__new__(type(value) if isinstance(value, Stand) else Stand)
        for name in attributes(value):
            if hasattr(value, name):
                setattr(stand, name, cloned(getattr(value, name)))
        for name in ("second_stage", "name"):
            if not hasattr(stand, name) and hasattr(type(value), name):
                setattr(stand, name, getattr(value, name))
        return stand
    return value


# ---------------------------------------------------------------------- altering


class Alter:
    """Changes of values, drawn from a generator of random numbers."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def places(self, value: Any, path: tuple = ()) -> Iterator[tuple]:
        """Yield the way to every value within a call."""
        yield path
        if isinstance(value, (list, tuple)):
            for i, item in enumerate(value[:20]):
                yield from self.places(item, (*path, i))
        elif isinstance(value, (dict, Stand)):
            for name, item in (value if isinstance(value, dict) else vars(value)).items():
                yield from self.places(item, (*path, name))

    def put(self, value: Any, path: tuple, change: Callable[[Any], Any]) -> Any:
        """Return the value with what is at a place changed."""
        if not path:
            return change(value)
        if isinstance(value, (list, tuple)):
            items = list(value)
            items[path[0]] = self.put(items[path[0]], path[1:], change)
            return type(value)(items)
        if isinstance(value, dict):
            return {**value, path[0]: self.put(value[path[0]], path[1:], change)}
        setattr(value, path[0], self.put(getattr(value, path[0]), path[1:], change))
        return value

    def change(self, value: Any) -> Any:
        """Return something else in place of a value."""
        if self.rng.random() < 0.05:
            return self.rng.choice(ODD)
        if isinstance(value, bool):
            return self.rng.choice((not value, 2, -1))
        if isinstance(value, int):
            near = value + self.rng.choice((-2, -1, 1, 2))
            return self.rng.choice(
                (near, near, self.rng.choice(WHOLE), self.rng.choice(WHOLE), self.rng.choice(BEYOND))
            )
        if isinstance(value, float):
            return self.rng.choice(REAL)
        if is_buffer(value):
            return self.buffer(value)
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, (list, tuple)):
            return self.sequence(value)
        if isinstance(value, Stand) and vars(value):
            if not isinstance(value, Made):
                delattr(value, self.rng.choice(list(vars(value))))
            return value
        if value is None:
            zeros = bytearray(8 * self.rng.randrange(5))
            return self.rng.choice((zeros, b"\1", 3, 0.5, "abc", [None]))
        return self.rng.choice(ODD)

    def buffer(self, value: Any) -> Any:
        """Return a buffer that is cut, longer, elsewhere, or has other numbers."""
        data = bytearray(bytes(value))
        item = self.rng.choice((1, 4, 8))
        how = self.rng.randrange(10)
        if how < 4 and len(data) >= item:  # one number, more often than anything else
            for _ in range(self.rng.choice((1, 1, 1, 5))):
                at = self.rng.randrange(len(data) // item) * item
                wild = self.rng.choice(
                    (*WHOLE, self.rng.getrandbits(8 * item), int.from_bytes(data[at : at + item], "little") + 1)
                )
                data[at : at + item] = (wild % 2 ** (8 * item)).to_bytes(item, "little")
            return data
        if how == 4:
            return data[: -item * self.rng.choice((1, 2, 5))]
        if how == 5:
            return data + bytes(self.rng.getrandbits(8) for _ in range(item * self.rng.choice((1, 2, 64))))
        if how == 6:
            return self.rng.choice((bytearray(), b""))
        if how == 7:
            return bytearray(self.rng.getrandbits(8) for _ in range(len(data)))
        if how == 8 and len(data) > 8:
            return (
                memoryview(b"\0" + bytes(data))[1:]
                if self.rng.random() < 0.5
                else memoryview(data)[:: self.rng.choice((2, -1))]
            )
        return bytes(data)

    def text(self, value: str) -> str:
        """Return a text with something in it that takes care, or cut short."""
        more = self.rng.choice(("", "\0", "\ud800", "é", "\U0010ffff", "a" * 300, "\x1d", "İ", "=?utf-8?q?=ff?="))
        at = self.rng.randrange(len(value) + 1)
        return value[:at] + more + (value[at:] if self.rng.random() < 0.7 else "")

    def sequence(self, value: Any) -> Any:
        """Return a list or tuple with an item more or less, or a tuple for a list."""
        items = list(value)
        how = self.rng.randrange(5)
        if how == 0:
            items = []
        elif how == 1 and items:
            del items[self.rng.randrange(len(items))]
        elif how == 2 and items:
            items.insert(self.rng.randrange(len(items)), cloned(self.rng.choice(items)))
        elif how == 3:
            items.append(self.rng.choice(ODD))
        else:
            return tuple(items) if isinstance(value, list) else items
        return type(value)(items)

    def garbage(self, value: Any) -> Any:
        """Fill what may be written to with garbage, sometimes: outputs say nothing beforehand."""
        for path in list(self.places(value)):

            def fill(found: Any) -> Any:
                if isinstance(found, bytearray):
                    return bytearray(
                        self.rng.choice(b"\xff\x7f\xa5\x01\0") for _ in range(min(len(found), 4096))
                    ).ljust(len(found), b"\xa5")
                return found

            if self.rng.random() < 0.5:
                value = self.put(value, path, fill)
        return value


# ---------------------------------------------------------------------- what is recorded


def workload(folder: Path) -> None:
    """Use the library so that every function of the kernels is called."""
    import numpy as np

    from surebayes import CountVectorizer, Filter, HashingVectorizer, ViewPool, read_message, synthetic
    from surebayes.datasets.sources import Source
    from surebayes.filter.store.contents import pack_rows, unpack_rows
    from surebayes.kernels import ints, kernel
    from surebayes.mail.header_tokens import header_columns, header_tokens
    from surebayes.pool.document import Document, Rows, rows_of
    from surebayes.pool.specs import views_of
    from surebayes.pool.table import Sums, Table, lesson_entries

    stream = list(synthetic.mail_stream(60, seed=1))
    mails, labels = [mail.raw for mail in stream], [mail.label for mail in stream]
    texts, three = [f"{read_message(raw).text[:400]} é {i}" for i, raw in enumerate(mails)], np.arange(60) % 3
    for views, documents, y in (("mail", mails, labels), ("text", texts, labels), ("text", texts, three)):
        pool = ViewPool(views, n_features=512).fit(documents, y)
        pool.partial_fit(documents[:2], y[:2]).forget(documents[:1], y[:1]).decision_function(documents[:3])
        pool.explain(documents[:1])
    for reader, documents in (("mail", mails), ("text", texts)):
        with Filter.create(folder / reader, reader=reader, width=512) as site:
            site.train(zip(documents, labels), reserve=0)
            site.teach(documents[0], labels[1])
            site.compact()
        with Filter.open(folder / reader) as site:
            site.judge(documents[1])
            site.forget(documents[1])
        with Filter.create(folder / f"{reader} of one", base=folder / reader, width=512) as own:
            own.teach("Subject: lunch\n\nAt nine?", labels[0])
            own.judge(documents[2])
    with Filter.create(folder / "columns", content=False, width=512) as site:
        site.train(zip(mails, labels), reserve=0)
        site.teach(mails[0], labels[1])
    rows = rows_of(views_of("pool", "mail", 2, 4096), [Document(mails[0], "mail")])
    unpack_rows(pack_rows([row.columns for row in rows]))
    for classes, batch in ((2, [(rows[0], ints([1]), None)]), (3, [(rows[1], ints([2]), ints([0]))])):
        first, _ = Sums.counted(batch, batch, 4096, classes)
        Sums.of_table(Table.of_stack([first.stack[0][0]], 4096, classes))
        _pool.guide(first.stack[0][0].file, classes)
    tiny = Table.of_entries(lesson_entries(Rows(ints([0, 2]), array("i", [3, 9])), 2, 1, False), 16, 2)
    Sums.of_table(tiny).learn(Rows(ints([0, 2]), array("i", [3, 12])), ints([0]))
    for message in map(read_message, mails[:5]):
        header_tokens(message), header_columns(message, 64), message.fingerprint
    mail = kernel("mail")
    box = b"".join(b"From a@b Thu Jan  1 00:00:00 2004\n" + raw + b"\n>From here\n\n" for raw in mails[:3])
    (folder / "box.mbox").write_bytes(box)
    list(Source(folder / "box.mbox", "ham"))
    mail.mail_head(mails[0], 0, len(mails[0]))
    mail.html_text("<p>Fish &amp; chips <b style=color:#fff>x</b>", 0)
    mail.unquote_from(b">From a\n>>From b\n")
    for kind, grams in (("word", (1, 2)), ("char_wb", (2, 4)), ("char", (1, 3))):
        CountVectorizer(analyzer=kind, ngram_range=grams, n_jobs=1).fit(texts).transform(texts[:3])
        HashingVectorizer(analyzer=kind, ngram_range=grams, n_features=64).transform(texts[:3])


def of_types() -> dict[str, list[tuple[tuple, dict]]]:
    """Return calls of the text kernel's types: made here, because methods can't be wrapped."""
    ends, text = array("Q", [1, 3, 6]).tobytes(), b"abbccc"
    reals = array("d", [0.5, -1.0, 2.0, 0.25, 1.0, 3.0]).tobytes()
    ids, lengths = array("I", [0, 2, 1]).tobytes(), array("I", [2, 1]).tobytes()
    counts = array("i", [1, 3, 2]).tobytes()
    made = Made("Vocabulary", (ends, text), {})
    words = Made("Analyzer", ("word", 1, 2), {"shortest": 1, "stop_words": ["a"]})
    scorer = {"tf": "log", "weighted": True, "columns": counts, "top": 2, "norm": "l2", "pad": 1.0}
    shared = (words, made, 0, reals, array("d", [0.1]).tobytes())
    hashed = (words, None, 6, reals, array("d", [0.1]).tobytes())
    documents = ["a bb ccc", "", "é bb" * 5]
    return {
        "text.Analyzer": [(("char_wb", 2, 4, True, 1, 100, ["x"]), {}), (("bytes", 3, 5), {"max_bytes": 9})],
        "text.Vocabulary": [((ends, text), {})],
        "text.Vocabulary.add": [((made, ["bb", b"dd", "é"]), {})],
        "text.Vocabulary.find": [((made, "bb"), {}), ((made, b"zz"), {})],
        "text.Vocabulary.merge": [((made, Made("Vocabulary", (array("Q", [2]).tobytes(), b"zz"), {})), {})],
        "text.Vocabulary.order": [((made, 1), {})],
        "text.Vocabulary.terms": [((made, ids, True), {})],
        "text.Vocabulary.select": [((made, ids), {})],
        "text.Vocabulary.dump": [((made,), {})],
        "text.Scorer": [(shared, {**scorer, "top": 0}), (hashed, {"steepness": 2.0, "binary": True, "length": 0.5})],
        "text.Scorer.score": [((Made("Scorer", *of), documents), {}) for of in ((hashed, {}), (shared, scorer))],
        "text.Scorer.score_rows": [((Made("Scorer", hashed, {}), lengths, ids, counts), {})],
    }  # fmt: skip


class Made(Stand):
    """One of the text kernel's objects, by what it is made of."""

    def __init__(self, kind: str, args: tuple, kwargs: dict) -> None:
        self.kind, self.args, self.kwargs = kind, args, kwargs


def recorded() -> dict[str, list[tuple[tuple, dict]]]:
    """Return calls of every entry point."""
    with tempfile.TemporaryDirectory() as folder, Recorder() as recorder:
        workload(Path(folder))
    calls = {name: list(kept.values()) for name, kept in recorder.calls.items()}
    return {**calls, **of_types()}


# ---------------------------------------------------------------------- calling


def made_of(value: Any) -> Any:
    """Return a value with the objects that stand for the kernel's made, and the recorded types' own."""
    if isinstance(value, Made):
        args, kwargs = made_of((value.args, value.kwargs))
        return getattr(_text, value.kind)(*args, **kwargs)
    if type(value) in (list, tuple):
        return type(value)(made_of(item) for item in value)
    if type(value) is dict:
        return {key: made_of(item) for key, item in value.items()}
    return value


def call(name: str, args: tuple, kwargs: dict) -> str:
    """Make a call; return what came of it."""
    module, _, function = name.partition(".")
    try:
        args, kwargs = made_of((args, kwargs))
        target, (*_, last) = MODULES[module], function.split(".")
        (getattr(args[0], last)(*args[1:], **kwargs) if "." in function else getattr(target, function)(*args, **kwargs))
    except REFUSALS as error:
        return type(error).__name__
    return "answered"


def attack(
    calls: dict[str, list], seed: int, first: int, most: int, seconds: float, tell: Callable[[str], object]
) -> dict:
    """Make altered calls until the time or their number is up; return how often each function refused and answered."""
    outcome: dict[str, dict[str, int]] = {}
    names, started, number = sorted(calls), time.monotonic(), first
    while number < first + most and time.monotonic() - started < seconds:
        rng = random.Random(f"{seed} {number}")
        alter = Alter(rng)
        name = names[number % len(names)]
        given = cloned(rng.choice(calls[name]))
        if rng.random() < 0.7:
            given = alter.garbage(given)
        for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
            given = alter.put(given, rng.choice(list(alter.places(given))), alter.change) if given else given
        tell(f"{number} {name}")
        if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], tuple) and isinstance(given[1], dict):
            came = call(name, *given)
            outcome.setdefault(name, {}).setdefault(came, 0)
            outcome[name][came] += 1
        number += 1
    return outcome


def main() -> int:
    """Record, alter, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--calls", type=int, default=10**9, help="altered calls at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first altered call")
    parser.add_argument("--only", help="the entry points whose name begins so")
    given = parser.parse_args()
    faulthandler.enable()
    calls = recorded()
    expected = {f"{short}.{name}" for short, module in MODULES.items() for name in entry_points(module)}
    missing = expected - LEFT_OUT - {"text.Block"} - calls.keys()
    if missing:
        print(f"never called: {', '.join(sorted(missing))}")
        return 1
    calls = {name: kept for name, kept in calls.items() if name.startswith(given.only or "")}
    gc.collect()
    line = os.open(os.environ.get("SUREBAYES_LAST_CALL", os.devnull), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    outcome = attack(
        calls,
        given.seed,
        given.first,
        given.calls,
        given.seconds,
        lambda told: os.pwrite(line, told.ljust(60).encode(), 0),
    )
    for name, counts in sorted(outcome.items()):
        print(f"{name}: {', '.join(f'{kind} {n}' for kind, n in sorted(counts.items()))}")
    silent = [
        name for name, counts in outcome.items() if len(calls) < sum(counts.values()) and "answered" not in counts
    ]
    print(
        f"{sum(sum(counts.values()) for counts in outcome.values())} altered calls, no crash; never answered: {silent}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
