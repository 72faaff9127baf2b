"""Character references of HTML: named, numeric, with or without a semicolon."""

import re
from html.entities import html5

_named = {name.rstrip(";").encode(): letters for name, letters in html5.items()}
_bare = {name.encode() for name in html5 if not name.endswith(";")}  # valid without a semicolon
_LONGEST_BARE = max(map(len, _bare))

# numeric references 0x80 to 0x9F mean Windows-1252, except for its undefined bytes
_C1 = [ord(bytes([byte]).decode("cp1252")) if byte not in b"\x81\x8d\x8f\x90\x9d" else byte for byte in range(128, 160)]

_number = re.compile(rb"&#(?:[xX]([0-9a-fA-F]+)|([0-9]+));?")
_name = re.compile(rb"&([A-Za-z0-9]{0,31})(;?)")  # the longest name has 31 letters


def reference_at(data: bytes, at: int, end: int, in_attribute: bool) -> tuple[str, int]:
    """Parse the character reference at a position; return its text ("" if it isn't one) and its end."""
    if data[at + 1 : at + 2] == b"#":
        number = _number.match(data, at, end)
        if not number:
            return "", at
        digits = number.group(1) or number.group(2)
        if len(digits) > 8:  # leading zeros are allowed; conversion of many digits takes quadratic time
            digits = digits.lstrip(b"0")[:8] or b"0"
        code = int(digits, 16 if number.group(1) else 10)
        if code == 0 or code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            code = 0xFFFD
        elif 0x80 <= code < 0xA0:
            code = _C1[code - 0x80]
        return chr(code), number.end()
    name = _name.match(data, at, end)
    assert name  # the pattern matches any ampersand
    word = name.group(1)
    if name.group(2) and word in _named:
        return _named[word], name.end()
    for size in range(min(len(word), _LONGEST_BARE), 1, -1):
        if word[:size] in _bare:
            stop = at + 1 + size
            after = data[stop : min(stop + 1, end)]
            if in_attribute and (after == b"=" or after.isalnum()):
                return "", at
            return _named[word[:size]], stop
    return "", at
