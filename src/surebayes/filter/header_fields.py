"""Header fields of a verdict, as `surebayes filter` and every protocol of the server write them."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    Field = tuple[bytes, bytes]

MOST = 900
"""Maximum bytes of a value: a header line has at most 998."""


def header_fields(
    decision: "tuple[str, float, float, float]",
    model: str,
    basis: str = "",
    budgets: "Mapping[str, Mapping[str, Any]] | None" = None,
    several: bool = False,
    before: "Sequence[tuple[str, str]]" = (),
) -> "list[Field]":
    """Return the header fields of a verdict.

    Parameters
    ----------
    decision : (str, float, float, float)
        Label, score, threshold and probability.
    model, basis, budgets
        As in `Verdict`.
    several : bool
        Whether there are more than two classes, so that budget fields name theirs.
    before : sequence of (str, str)
        SpamAssassin's fields, which come first.

    Examples
    --------
    >>> for name, value in header_fields(("spam", 1.5, 0.25, 0.8176), "7", "base")[:2]:
    ...     print(name.decode(), value.decode())
    X-Surebayes-Label spam
    X-Surebayes-Score 1.5
    """
    label, score, threshold, probability = decision
    fields = [
        *before,
        ("X-Surebayes-Label", label),
        ("X-Surebayes-Score", repr(score)),
        ("X-Surebayes-Threshold", repr(threshold)),
        ("X-Surebayes-Probability", f"{probability:.6f}"),
        ("X-Surebayes-Model", model),
    ]
    if basis:
        fields.append(("X-Surebayes-Basis", basis))
    for name, budget in (budgets or {}).items():
        state = "mute, so mail passes: " if budget["mute"] else ""
        spent = f"debt {budget['debt']:.3f}, lift {budget['lift']:.3f}, {budget['left']} left"
        fields.append(("X-Surebayes-Budget", f"{state}{spent}{f' ({name})' if several else ''}"))
    return [(name.encode(), ascii_line(value)) for name, value in fields]


def ascii_line(text: str) -> bytes:
    r"""Return text on one line of printable ASCII, so that different texts differ.

    A backslash is doubled; what isn't printable ASCII, and a blank at either end, is ``\uXXXX`` or ``\UXXXXXXXX``:
    Python's codec "unicode_escape" reads it back. What is cut off ends with ``\...`` and the number of its letters.

    Examples
    --------
    >>> print(ascii_line("b\u00fccher\n").decode(), ascii_line("\U0001f4da").decode(), ascii_line("a\\u00fc").decode())
    b\u00fccher\u000a \U0001f4da a\\u00fc
    """
    if text.isascii() and text.isprintable() and "\\" not in text and text == text.strip() and len(text) <= MOST:
        return text.encode()
    letters, last, size = [], len(text) - 1, 0
    for place, c in enumerate(text):
        if c == "\\":
            letter = "\\\\"
        elif "!" <= c <= "~" or (c == " " and 0 < place < last):
            letter = c
        else:
            letter = f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}"
        size += len(letter)
        if size > MOST - 20:
            letters.append(f"\\...{len(text)}")
            break
        letters.append(letter)
    return "".join(letters).encode("ascii")
