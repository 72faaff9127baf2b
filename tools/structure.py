"""Figures of the source's structure: import cycles, modules with one importer, the modules that a request enters.

`python tools/structure.py` prints them; `--check` fails where one exceeds its limit in `LIMITS`, or where two packages
import each other. The figures are signs, not targets: split and merge by meaning, and lower a limit once it is met.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import contextlib
import importlib
import io
import os
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

SOURCE = Path(__file__).resolve().parent.parent / "src"
PUBLIC = ("cluster", "corpora", "metrics", "papers", "streams", "synthetic")
"""The modules and packages of the public interface, besides the package itself."""
LIMITS = {
    "modules with one importer": 45,
    "classes that make up Filter": 1,
    "modules entered by filter": 18,
    "modules entered by learn": 31,
    "modules entered by train": 59,
    "modules entered by Filter.judge": 16,
    "modules entered by HTTP classify": 36,
    "siblings that import each other": 0,
}


def modules() -> dict[str, Path]:
    """Return the path of each module by its dotted name; a package has the name of its folder."""
    found = {}
    for path in sorted((SOURCE / "surebayes").rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path, known: dict[str, Path]) -> set[str]:
    """Return the modules of this project that a file imports when it runs, in functions too."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = {id(node) for block in _type_checking(tree) for part in block.body for node in ast.walk(part)}
    names = set()
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in known else node.module for name in whole}
    return names & known.keys()


def _type_checking(tree: ast.AST) -> Iterator[ast.If]:
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            yield node


def loaded_by_name(path: Path, known: dict[str, Path]) -> set[str]:
    """Return the modules that a file names in texts, to load them when they are used: names, commands, kernels."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= {node.value, f"surebayes.{node.value}"}
        elif isinstance(node, ast.keyword) and node.arg:
            found |= {f"surebayes.cli.{node.arg}"}
    return found & known.keys()


def single_importers(graph: dict[str, set[str]], known: dict[str, Path]) -> list[str]:
    """Return the modules that exactly one other module imports; packages and the generated version don't count.

    Modules that are loaded by name, modules that a public module passes on, and the console command's have users
    outside of the graph.
    """
    importers: dict[str, set[str]] = defaultdict(set)
    for name in ("surebayes._entry", "surebayes._version"):
        importers[name].add("users")
    for package in ("surebayes", "surebayes.cli", "surebayes.kernels"):
        for name in loaded_by_name(known[package], known):
            importers[name] |= {package, "users"}
    for name in [name for public in PUBLIC for name in graph[f"surebayes.{public}"]]:
        importers[name].add("users")
    for module, imported in graph.items():
        for name in imported - {module}:
            importers[name].add(module)
    return [name for name in known if len(importers[name]) == 1 and known[name].name != "__init__.py"]


def mutual_imports(graph: dict[str, set[str]]) -> list[tuple[str, str]]:
    """Return the pairs of siblings, packages or modules of one package, that import each other."""
    edges = set()
    for module, imported in graph.items():
        for name in imported:
            a, b = module.split("."), name.split(".")
            shared = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), None)
            if shared is not None:
                edges.add((".".join(a[: shared + 1]), ".".join(b[: shared + 1])))
    return sorted((a, b) for a, b in edges if a < b and (b, a) in edges)


# ---------------------------------------------------------------------- modules that a request enters


class Recorder:
    """The modules in which functions are called, on all threads that start after it is installed."""

    def __init__(self) -> None:
        self.names: set[str] | None = None

    def install(self) -> None:
        """Watch this thread and those to come."""
        threading.setprofile(self._record)
        sys.setprofile(self._record)

    def _record(self, frame: FrameType, event: str, _: Any) -> None:
        if self.names is not None and event == "call" and frame.f_code.co_name != "<module>":
            self.names.add(frame.f_globals.get("__name__", ""))

    def entered(self, request: Callable[[], Any]) -> set[str]:
        """Run a request and return the modules of this project that it enters."""
        self.names = set()
        request()
        return self.stopped()

    def stopped(self) -> set[str]:
        """Stop recording and return the modules of this project that were entered."""
        names, self.names = self.names or set(), None
        return {name for name in names if name.partition(".")[0] == "surebayes"}


def command(*arguments: str, stdin: bytes = b"") -> Callable[[], Any]:
    """Return a call of the console command, its output dropped."""
    from surebayes._entry import main

    def run() -> int:
        streams = sys.stdin, sys.stdout, sys.stderr
        sys.stdin, sys.stdout, sys.stderr = (io.TextIOWrapper(io.BytesIO(given)) for given in (stdin, b"", b""))
        try:
            with contextlib.suppress(SystemExit):
                return main(list(arguments))
            return 0
        finally:
            sys.stdin, sys.stdout, sys.stderr = streams

    return run


def requests(folder: str) -> dict[str, set[str]]:
    """Run one request of each kind on a small filter, twice where a first one loads modules.

    Single messages are such that the kernel reads alone, as it does nineteen in twenty.
    """
    from surebayes import Filter, synthetic
    from surebayes.mail.plain import read_messages

    recorder = Recorder()
    recorder.install()
    mails, labels = synthetic.as_lists(600, seed=1)
    for i, (mail, label) in enumerate(zip(mails, labels)):
        path = Path(folder, label, f"{i}.eml")
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(mail)
    sides = ["--ham", f"{folder}/ham", "--spam", f"{folder}/spam"]
    model, found = f"{folder}/filter", {}
    command("train", "-m", f"{folder}/first", *sides)()
    found["train"] = recorder.entered(command("train", "-m", model, *sides))
    mails = [mail for mail, read in zip(mails, read_messages(mails, 0, 0, False, False)) if read is not None]
    more = [mail + f"\n{i} more".encode() for i, mail in enumerate(mails[:4])]
    paths = [Path(folder, f"{i}.eml") for i in range(2)]
    for path, mail in zip(paths, more):
        path.write_bytes(mail)
    command("filter", "-m", model, stdin=mails[0])()
    found["filter"] = recorder.entered(command("filter", "-m", model, stdin=mails[1]))
    command("learn", "-m", model, "--as", "spam", str(paths[0]))()
    found["learn"] = recorder.entered(command("learn", "-m", model, "--as", "spam", str(paths[1])))
    with Filter.open(model) as opened:
        opened.judge(more[2])
        found["Filter.judge"] = recorder.entered(lambda: opened.judge(more[3]))
    found["HTTP classify"] = _classify(recorder, model, mails[2:4])
    return found


def _classify(recorder: Recorder, model: str, mails: list[bytes]) -> set[str]:
    httpx = importlib.import_module("httpx")
    http = importlib.import_module(_home("application", "surebayes.server"))
    service = importlib.import_module("surebayes.server.service")
    options = importlib.import_module(_home("Options", "surebayes.server"))
    serving = service.Service(options.Options(model, log_level="error"))

    transport = httpx.ASGITransport(http.application(serving), client=("127.0.0.1", 1))

    async def ask(mail: bytes) -> None:
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            answer = await client.post("/v1/classify", content=mail, headers={"Content-Type": "message/rfc822"})
            assert answer.status_code == 200, answer.text

    async def ask_twice() -> set[str]:  # the service keeps the event loop of its first request
        await ask(mails[0])
        recorder.names = set()
        await ask(mails[1])
        return recorder.stopped()

    try:
        return asyncio.run(ask_twice())
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
        serving.close()


def _home(name: str, package: str) -> str:
    """Return the module of a package that defines a function or class at its top."""
    for module, path in modules().items():
        if module.startswith(package + "."):
            for statement in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(statement, ast.ClassDef | ast.FunctionDef) and statement.name == name:
                    return module
    raise LookupError(f"{package} defines no {name}")


def figures() -> tuple[dict[str, int], dict[str, list[str]]]:
    """Return the figures, each with its items."""
    known = modules()
    graph = {name: imports(path, known) for name, path in known.items()}
    from surebayes import Filter

    with tempfile.TemporaryDirectory() as folder:
        found = {f"modules entered by {name}": sorted(names) for name, names in requests(folder).items()}
    found["modules with one importer"] = single_importers(graph, known)
    found["siblings that import each other"] = [f"{a} - {b}" for a, b in mutual_imports(graph)]
    found["classes that make up Filter"] = [kind.__name__ for kind in Filter.__mro__ if kind is not object]
    return {name: len(found[name]) for name in LIMITS}, found


def main() -> int:
    """Print the figures; with --check return 1 where one exceeds its limit."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="fail where a figure exceeds its limit")
    parser.add_argument("--list", metavar="FIGURE", help="also print the items of this figure")
    arguments = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    numbers, counted = figures()
    for name, number in numbers.items():
        over = number > LIMITS[name]
        print(f"{number:5}  {name}" + (f" (limit {LIMITS[name]})" if over or not arguments.check else ""))
        if over or arguments.list == name:
            print("\n".join(f"         {one}" for one in counted[name]))
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in modules().values())
    print(f"{len(modules()):5}  modules, {lines:,} lines")
    return int(arguments.check and any(number > LIMITS[name] for name, number in numbers.items()))


if __name__ == "__main__":
    sys.exit(main())
