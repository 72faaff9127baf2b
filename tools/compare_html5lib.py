"""Compare the visible text of HTML with html5lib's tree-construction cases.

    python tools/compare_html5lib.py FOLDER [--show N]

FOLDER has the files *.dat of html5lib-tests (they come with html5lib's source archive). Of every case that is a whole
document parsed without scripts, the letters of the text nodes that a reader sees must be the letters that the scanner
finds, in C and in Python. The tree's order is kept where markup moves text (out of a table), so such cases
are compared as sorted letters.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

from surebayes.kernels import kernel
from surebayes.mail import readers

UNSEEN = {"script", "style", "title", "iframe", "noembed", "noframes", "template", "datalist", "head"}
UNSEEN |= {f"{space} {name}" for space in ("svg", "math") for name in ("script", "style", "title", "desc")}


def cases(path: Path):
    """Yield (html, expected tree) of whole documents."""
    for block in path.read_bytes().decode().split("#data\n")[1:]:
        html, _, rest = ("\n" + block).partition("\n#errors")
        if "#document-fragment" in rest or "#script-on" in rest:
            continue
        yield html[1:], rest.partition("#document\n")[2]


def seen(tree: str) -> str:
    """Collect the letters of a dumped tree that a reader sees."""
    open_elements: list[str] = []
    letters, lines = [], tree.split("\n| ")
    for line in lines:
        line = line.removeprefix("| ")
        depth = (len(line) - len(line.lstrip(" "))) // 2
        node = line.lstrip(" ")
        if node.startswith("<") and not node.startswith(("<!", "<?")):
            open_elements[depth:] = [node.rstrip("\n")[1:-1]]
        elif node.startswith('"') and not UNSEEN & set(open_elements[:depth]):
            letters.append(node.rstrip("\n")[1:-1])
    return "".join("".join(letters).split())


REASONS = {
    "NUL characters, which browsers show as a sign, are left out: they would cut words": lambda html: "\0" in html,
    "text of a page of frames, which browsers don't show, is read": lambda html: "<frameset" in html,
    "plaintext within select, which browsers leave out, is taken for plaintext": lambda html: "<select><plain" in html,
}
"""Why a case differs on purpose: in doubt more is read than a browser shows."""


def reason(html: str) -> str | None:
    """Return why the text of a case differs from the tree; None where there is no reason."""
    return next((text for text, holds in REASONS.items() if holds(html)), None)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--show", type=int, default=0, help="how many cases that differ are shown")
    arguments = parser.parse_args()
    compiled, compared = kernel("mail"), 0
    different: Counter[str | None] = Counter()
    for file in sorted(arguments.folder.rglob("*.dat")):
        for html, tree in cases(file):
            try:
                html.encode()
            except UnicodeEncodeError:
                continue
            compared += 1
            expected = seen(tree)
            ours = compiled.html_text(html)
            assert ours == readers.html_text(html), html
            if sorted("".join(ours.split())) != sorted(expected.replace("\xa0", "")):
                different[reason(html)] += 1
                if different.total() <= arguments.show:
                    print(f"{file.name}: {html!r}\n    expected {expected!r}\n    ours     {ours!r}")
    print(f"{compared} cases, {different.total()} differ")
    for why, count in different.items():
        print(f"{count:4} {why or 'without a reason'}")
    sys.exit(1 if different[None] or not compared else 0)
