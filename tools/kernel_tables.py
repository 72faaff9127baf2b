"""Write the tables of the mail kernel in C: elements, character references and colours of HTML, header fields.

    python tools/kernel_tables.py            write html_tables.c, html_tables.h and header_tables.h in kernels/mail
    python tools/kernel_tables.py --check    exit status 1 if they are out of date

Elements, colours and fields come from `surebayes.mail.html_tables` and `.header_tables`, which the readers in
Python use; references come from `html.entities`.
"""

import argparse
import sys
import textwrap
from html.entities import html5
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "src"))

from surebayes.mail import header_tables  # noqa: E402
from surebayes.mail import html_tables as tables  # noqa: E402

FOLDER = ROOT / "src" / "surebayes" / "kernels" / "mail"
NAME = 16  # bytes of an element's name that count, and the NUL

HEADER = """/* Names of HTML elements, attributes and references.
 * Written by tools/kernel_tables.py: change that, or mail/html_tables.py. */
#ifndef SUREBAYES_MAIL_HTML_TABLES_H
#define SUREBAYES_MAIL_HTML_TABLES_H

/* clang-format off */
enum {{ HTML_NAME = {name}, HTML_ELEMENTS = {elements}, HTML_REFERENCES = {references}, HTML_COLOURS = {colours} }};
enum {{ LONGEST_REFERENCE = {longest}, LONGEST_BARE_REFERENCE = {longest_bare} }};

/* kinds of elements, by their effect on text */
enum {{
{kinds}
}};

/* elements with an ID; the remaining ones have 100 + their place in the table, or 1000 + a hash of the name */
enum {{
{ids}
}};

/* of an element in SVG or MathML, not in the table */
enum {{ EL_FOREIGN = {foreign} }};

typedef struct {{ char name[HTML_NAME]; int what, id; }} Element;
typedef struct {{ const char *name; int code, second, bare; }} Reference; /* bare: also without a semicolon */
typedef struct {{ const char *name; int value; }} Colour;

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif
/* each sorted by name */
extern const Element html_elements[HTML_ELEMENTS];
extern const Reference html_references[HTML_REFERENCES];
extern const unsigned short html_reference_starts[129]; /* the first name for each initial letter */
extern const Colour html_colours[HTML_COLOURS];

/* numeric references 0x80 to 0x9F: Windows-1252 */
extern const unsigned short html_c1[32];
#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
/* clang-format on */

#endif
"""

FIELDS = """/* Header fields. Written by tools/kernel_tables.py: change that, or mail/header_tables.py. */
#ifndef SUREBAYES_MAIL_HEADER_TABLES_H
#define SUREBAYES_MAIL_HEADER_TABLES_H

#include "../common.h"

/* clang-format off */
enum {{ MOST_TOKENS = {tokens}, MOST_NAMES = {names}, MOST_ATTACHMENTS = {attachments}, MOST_VALUES = {values} }};

/* the fields read, in this order */
enum {{
{ids}
}};

/* `most`: maximum fields of a name; `common`: in nearly every message, so its presence is no evidence */
static const struct {{ const char *name; uint8_t size, most; bool common; }} token_fields[] = {{
{fields}
}};

/* prefixes of field names without tokens: the first FILTER_FIELDS are added by filters, the rest in transit */
enum {{ FILTER_FIELDS = {filters} }};
static const struct {{ const char *name; uint8_t size; }} silent_fields[] = {{
{silent}
}};
/* clang-format on */

#endif
"""


def header_fields() -> str:
    """Work out the header of the header fields."""
    fields = [*header_tables.READ, *(name for name in header_tables.COMMON if name not in header_tables.READ)]
    silent = [*header_tables.FILTERS, *header_tables.TRANSPORT]
    assert all(name == name.lower() for name in (*fields, *silent))
    assert all(name.startswith("x-") and len(name) < 64 for name in silent)  # the scanner recognises only such names
    return FIELDS.format(
        tokens=header_tables.MOST_TOKENS,
        names=header_tables.MOST_NAMES,
        attachments=header_tables.MOST_ATTACHMENTS,
        values=max(header_tables.READ.values()),
        ids=rows([*(name.replace("-", "_").upper() for name in header_tables.READ), "READ_FIELDS"]),
        fields=rows(
            [
                f'{{"{name}", {len(name)}, {header_tables.READ.get(name, 0)}, '
                f"{str(name in header_tables.COMMON).lower()}}}"
                for name in fields
            ]
        ),
        filters=len(header_tables.FILTERS),
        silent=rows([f'{{"{name}", {len(name)}}}' for name in silent]),
    )


def rows(items: list[str]) -> str:
    """Join initialisers into lines of 120 columns."""
    lines = textwrap.wrap(" ".join(item.replace(" ", "\x01") + "," for item in items), 116, break_on_hyphens=False)
    return "\n".join("    " + line.replace("\x01", " ") for line in lines)


def elements() -> list[str]:
    """Return the initialisers of the elements."""
    names = sorted(frozenset().union(*tables.KINDS.values(), tables.NAMED))
    assert len(names) < 256  # places are stored in a byte
    assert max(map(len, names)) < NAME
    rows = []
    for name in names:
        kinds = " | ".join(f"EL_{kind}" for kind, members in tables.KINDS.items() if name in members) or "0"
        rows.append(f'{{"{name}", {kinds}, {f"ID_{name.upper()}" if name in tables.NAMED else 0}}}')
    return rows


def references() -> dict[str, tuple[int, int, int]]:
    """Return the references: two codes (the second may be 0), and whether the semicolon may be missing."""
    names = sorted({name.rstrip(";") for name in html5})
    table = {}
    for name in names:
        text = html5.get(name + ";", html5.get(name, ""))
        assert 1 <= len(text) <= 2
        # the scanner's output has room for six bytes where five were read
        assert 5 * len(text.encode()) <= 6 * (len(name) + (name not in html5) + 1)
        table[name] = (ord(text[0]), ord(text[1]) if len(text) > 1 else 0, int(name in html5))
    return table


def files() -> dict[str, str]:
    """Work out the contents of all files."""
    named, coloured = references(), sorted(tables.COLOURS)
    listed = elements()
    c1 = [bytes([byte]).decode("cp1252", "ignore") or chr(byte) for byte in range(128, 160)]
    header = HEADER.format(
        name=NAME,
        elements=len(listed),
        references=len(named),
        colours=len(coloured),
        longest=max(map(len, named)),
        longest_bare=max(len(name) for name, (_, _, bare) in named.items() if bare),
        kinds=rows([f"EL_{kind} = {1 << i}" for i, kind in enumerate(tables.KINDS)]),
        foreign=1 << len(tables.KINDS),
        ids=rows([f"ID_{name.upper()} = {i}" for i, name in enumerate(tables.NAMED, 1)]),
    )
    parts = [
        "/* Written by tools/kernel_tables.py: change that, or mail/html_tables.py. */",
        '#include "html_tables.h"\n',
        "/* clang-format off */",
        f"const Element html_elements[HTML_ELEMENTS] = {{\n{rows(listed)}\n}};\n",
        "const Reference html_references[HTML_REFERENCES] = {\n"
        + rows([f'{{"{name}", {code}, {second}, {bare}}}' for name, (code, second, bare) in named.items()])
        + "\n};\n",
        "const unsigned short html_reference_starts[129] = {\n"
        + rows([str(sum(ord(name[0]) < letter for name in named)) for letter in range(129)])
        + "\n};\n",
        "const Colour html_colours[HTML_COLOURS] = {\n"
        + rows([f'{{"{name}", 0x{tables.COLOURS[name]:06X}}}' for name in coloured])
        + "\n};\n",
        "const unsigned short html_c1[32] = {\n" + rows([f"0x{ord(letter):X}" for letter in c1]) + "\n};",
        "/* clang-format on */\n",
    ]
    return {"html_tables.h": header, "html_tables.c": "\n".join(parts), "header_tables.h": header_fields()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="only compare")
    check = parser.parse_args().check
    for file, text in files().items():
        path = FOLDER / file
        if not check:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            sys.exit(f"{path.relative_to(ROOT)} is out of date: run python tools/kernel_tables.py")
