"""Visibility of HTML text, from colours, font sizes and style attributes, like `kernels/mail/html_style.c`."""

import re

from surebayes.mail.html_references import reference_at
from surebayes.mail.html_tables import COLOURS

Look = tuple[bool, bool, bool, int, int]
"""Display, visibility, zero font size, text colour and background colour."""
UNKNOWN, UNSEEN, PAGE = -1, -2, -3
"""Special colours; the last is the page's background, white unless a style sheet may change it."""
WHITE = b" \t\n\r\f"
"""White space of HTML."""

_STYLE = 1024  # bytes of a style attribute that are parsed
_COLOURS = {name.encode(): value for name, value in COLOURS.items()}
_length = re.compile(rb"([0-9]*)(?:\.([0-9]*))?([a-zA-Z%]*)")
_rgb = re.compile(
    rb"rgba?\([ \t\n\r\f]*([0-9]+)[ \t\n\r\f]*,[ \t\n\r\f]*([0-9]+)[ \t\n\r\f]*,[ \t\n\r\f]*([0-9]+)[ \t\n\r\f]*[,)]"
)
_hex = re.compile(rb"#(?:([0-9a-f]{6})(?:..)?|([0-9a-f]{3}).?)$|([0-9a-f]{6})$", re.DOTALL)


def apply_tag(look: Look, name: bytes, attributes: dict[bytes, bytes], hidden: bool, sheet: bool) -> Look:
    """Compute an element's style from its parent's style and its attributes."""
    gone, unseen, zero, letters, paper = look
    displayed = False
    if name == b"head":
        return look  # void elements have no text
    if sheet and (b"class" in attributes or b"id" in attributes):
        paper = UNKNOWN  # a style sheet may set it
    if b"bgcolor" in attributes:
        paper = _attribute_colour(attributes[b"bgcolor"])
    if b"background" in attributes:
        paper = UNKNOWN
    if b"text" in attributes and name == b"body":
        letters = _attribute_colour(attributes[b"text"])
    if b"color" in attributes and name == b"font":
        letters = _attribute_colour(attributes[b"color"])
    if b"size" in attributes and name == b"font":
        zero = False
    if b"href" in attributes and name == b"a":
        letters = UNKNOWN  # links have their own default colour
    look = (gone, unseen, zero, letters, paper)
    if b"style" in attributes:
        look, displayed = _apply_style(look, attributes[b"style"])
    if (b"hidden" in attributes and not displayed) or hidden:
        look = (True, *look[1:])
    return look


def _apply_style(look: Look, style: bytes) -> tuple[Look, bool]:
    gone, unseen, zero, letters, paper = look
    clipped = flat = clear = image = False
    display = -1
    for declaration in _plain_style(style).split(b";"):
        name, colon, value = declaration.partition(b":")
        if not colon:
            continue
        name = name.strip(WHITE)
        value = value.strip(WHITE).partition(b"!")[0].strip(WHITE)
        if name == b"display":
            display = value == b"none"
        elif name == b"visibility":
            if value in (b"hidden", b"collapse"):
                unseen = True
            elif value == b"visible":
                unseen = False
        elif name == b"font-size":
            zero = _font_size(zero, value)
        elif name == b"font":
            number = re.search(rb"[0-9.]", value)
            if number:
                zero = _font_size(zero, value[number.start() :])
        elif name == b"color":
            letters = _colour(value)
        elif name in (b"background-color", b"background"):
            first = re.match(rb"(?:\([^)]*(?:\)|$)|[^ \t\n\r\f(])*", value).group()  # type: ignore[union-attr]
            if first not in (b"none", b"transparent", b"inherit"):
                paper = UNKNOWN if len(first) < len(value) else _colour(first)
        elif name == b"background-image":
            image = value not in (b"none", b"inherit", b"initial")
        elif name == b"opacity":
            clear = _size(value) == 1
        elif name == b"overflow":
            clipped = value == b"hidden"
        elif name in (b"max-height", b"height", b"max-width", b"width"):
            flat = flat or _size(value) == 1
    if image:
        paper = UNKNOWN
    if display == 1 or clear or (clipped and flat):
        gone = True
    return (gone, unseen, zero, letters, paper), display == 0


def _plain_style(style: bytes) -> bytes:
    """Normalize a style: lower case, references resolved, comments removed."""
    style = style[:_STYLE]
    if b"&" in style:
        plain, at = bytearray(), 0
        while at < len(style):
            letters, stop = reference_at(style, at, len(style), True) if style[at] == 38 else ("", at)
            if letters:
                plain += letters.encode("ascii", "replace")
                at = stop
            else:
                plain.append(style[at])
                at += 1
        style = bytes(plain)
    style = bytes(byte if byte < 128 else 63 for byte in style).lower()
    return re.sub(rb"/\*.*?(?:\*/|\Z)", b"", style, flags=re.DOTALL) if b"/*" in style else style


def _font_size(zero: bool, value: bytes) -> bool:
    size = _size(value)
    if size == 1:
        return True
    return False if size == 2 or (size == 0 and value != b"inherit") else zero


def _size(value: bytes) -> int:
    """Classify a size: 1 is zero, 2 positive, 3 relative to the parent's, and 0 not a number."""
    match = _length.match(value)
    assert match  # the pattern also matches the empty string
    whole, part, unit = match.group(1), match.group(2) or b"", match.group(3)
    if not whole and not part:
        return 0
    if not whole.strip(b"0") and not part.strip(b"0"):
        return 1
    if unit in (b"em", b"%", b"ex"):
        return 3
    return 2 if whole.strip(b"0") or unit not in (b"px", b"pt", b"") else 1


def _attribute_colour(value: bytes) -> int:
    return _colour(value.strip(WHITE)[:32].lower())


def _colour(value: bytes) -> int:
    """Parse a lower-case colour: #rgb, #rrggbb, rrggbb, rgb(r,g,b) or a name."""
    value = value.strip(WHITE)
    if value == b"transparent":
        return UNSEEN
    if value.startswith((b"rgb(", b"rgba(")):
        rgb = _rgb.match(value)
        if not rgb:
            return UNKNOWN
        red, green, blue = (min(int(n[:4]) if len(n) <= 4 else 255, 255) for n in rgb.groups())
        return red << 16 | green << 8 | blue
    match = _hex.match(value)
    if match:
        six, three = match.group(1) or match.group(3), match.group(2)
        return int(six, 16) if six else int(bytes(byte for byte in three for _ in (0, 1)), 16)
    return _COLOURS.get(value, UNKNOWN)
