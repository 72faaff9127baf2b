"""Character sets: labels and decoders of the WHATWG Encoding Standard.

In practice, mail uses labels as the web does: ``iso-8859-1`` means Windows-1252, and ``gb2312`` means GBK. Two
extensions serve a filter, which should decode as much as possible and executes nothing: labels that browsers refuse for
security (HZ, ISO-2022-KR) are decoded, and so are Python's additional codecs, such as UTF-7 and the DOS code pages.
"""

import codecs
import encodings
from encodings.aliases import aliases

# codec: labels of the standard that Python doesn't know
_LABELS = """
utf-8: unicode-1-1-utf-8 unicode11utf8 unicode20utf8 x-unicode20utf8 utf8mb4
utf-16: csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff
utf-16-be: unicodefffe
utf-7: unicode-1-1-utf-7
cp866: 866 csibm866 ibm866
cp874: dos-874 iso885911 iso-8859-11 iso8859-11 tis-620 windows-874
cp1250: x-cp1250
cp1251: x-cp1251
cp1252: ansi ansi_x3.4-1968 ascii cp819 csisolatin1 ibm819 iso88591 iso-ir-100 l1 latin1 us-ascii x-cp1252
cp1253: x-cp1253
cp1254: csisolatin5 iso88599 iso-ir-148 l5 latin5 x-cp1254
cp1255: x-cp1255
cp1256: x-cp1256
cp1257: x-cp1257
cp1258: x-cp1258
iso8859-2: csisolatin2 iso88592 iso_8859-2:1987
iso8859-3: csisolatin3 iso88593 iso_8859-3:1988
iso8859-4: csisolatin4 iso88594 iso_8859-4:1988
iso8859-5: csisolatincyrillic cyrillic iso88595 iso_8859-5:1988
iso8859-6: arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 iso-8859-6-e iso-8859-6-i
iso8859-6: iso88596 iso_8859-6:1987
iso8859-7: csisolatingreek ecma-118 elot_928 greek greek8 iso88597 iso_8859-7:1987 sun_eu_greek
iso8859-8: csiso88598e csiso88598i csisolatinhebrew hebrew iso-8859-8-e iso-8859-8-i
iso8859-8: iso88598 iso_8859-8:1988 logical visual
iso8859-10: csisolatin6 iso885910
iso8859-13: iso885913
iso8859-14: iso885914
iso8859-15: csisolatin9 iso885915 l9
koi8-r: cskoi8r koi koi8
koi8-u: koi8-ru
mac-roman: csmacintosh mac macintosh x-mac-roman
mac-cyrillic: x-mac-cyrillic x-mac-ukrainian
gb18030: chinese cn-gb csgb2312 csiso58gb231280 gb2312_charset gb_2312 gb_2312-80 iso-ir-58 x-gbk
big5hkscs: big5-eten chinesebig5 cn-big5 csbig5 x-x-big5
cp932: csshiftjis ms932 ms_kanji sjis windows-31j x-sjis
euc_jp: cseucpkdfmtjapanese x-euc-jp
cp949: cseuckr csksc56011987 iso-ir-149 korean ks_c_5601 ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 windows-949
iso2022_jp: csiso2022jp
iso2022_kr: csiso2022kr
hz: hz-gb-2312
x-user-defined: x-user-defined
"""
# Python codec -> its superset in the standard, which senders mean by the same label.
_MEANT = {
    "ascii": "cp1252",
    "latin_1": "cp1252",
    "iso8859_1": "cp1252",
    "iso8859_9": "cp1254",
    "iso8859_11": "cp874",
    "tis_620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc_kr": "cp949",
    "shift_jis": "cp932",
    "big5": "big5hkscs",
}
_codecs = {
    label: codec
    for codec, _, labels in (line.partition(": ") for line in _LABELS.split("\n"))
    for label in labels.split()
}
# Python codecs that aren't character sets of mail: punycode and idna take quadratic time; the remaining ones interpret
# escapes or always fail.
_NO_CHARSETS = frozenset({"punycode", "idna", "undefined", "unicode_escape", "raw-unicode-escape", "unicode-escape"})
# The larger set to try for each declared set, if decoding fails.
_SIBLINGS = {"big5hkscs": "cp950", "euc_jp": "euc_jis_2004"}
# Only these labels are looked up, because Python caches failed lookups, and hostile labels would fill its memory.
_PYTHON_NAMES = frozenset(
    (
        *aliases, *aliases.values(), "cp720", "cp737", "cp856", "cp874", "cp875", "cp1006", "koi8_r", "koi8_t",
        "koi8_u", "mac_arabic", "mac_croatian", "mac_farsi", "mac_romanian", "utf_8_sig",
    )
)  # fmt: skip
# Codecs with special error handling. All remaining codecs except UTF-7, -16 and -32 have one byte per character.
_REPLACE_FAST = frozenset(
    (
        "utf-8", "utf-8-sig", "big5", "big5hkscs", "cp932", "cp949", "cp950", "euc_jis_2004", "euc_jisx0213", "euc_jp",
        "euc_kr", "gb18030", "gb2312", "gbk", "hz", "iso2022_jp", "iso2022_jp_1", "iso2022_jp_2", "iso2022_jp_2004",
        "iso2022_jp_3", "iso2022_jp_ext", "iso2022_kr", "johab", "shift_jis", "shift_jis_2004", "shift_jisx0213",
    )
)  # fmt: skip
_STANDARD = frozenset(("koi8-u", "x-user-defined"))  # the standard differs from Python, or Python has no codec
_tables: dict[str, str] = {}  # codec -> the characters of its 256 bytes; there are 75 such codecs
_known_charsets: dict[str, str] = {"utf-8": "utf-8", "us-ascii": "cp1252", "iso-8859-1": "cp1252"}
CACHE_SIZE = 256
"""Maximum number of entries in each cache of declared names; a full cache is cleared."""


def codec_name(label: str) -> str:
    """Return the codec of a declared character set; "" if it is unknown.

    Examples
    --------
    >>> codec_name("US-ASCII"), codec_name("x-sjis"), codec_name("klingon")
    ('cp1252', 'cp932', '')
    """
    name = _known_charsets.get(label)
    if name is None:
        plain = label.strip(" \t\r\n\f\"'").lower()
        name = _codecs.get(plain) or _python_codec(plain)
        if len(_known_charsets) >= CACHE_SIZE:
            _known_charsets.clear()
        _known_charsets[label] = name
    return name


def _python_codec(label: str) -> str:
    """Return Python's codec for a label, or the superset that senders mean by it."""
    name = encodings.normalize_encoding(label)
    if name not in _PYTHON_NAMES:
        return ""
    meant = _MEANT.get(aliases.get(name, name))
    if meant is not None:  # no need to load the subset's codec
        return meant
    try:
        info = codecs.lookup(name)
    except LookupError:  # mbcs and oem exist on Windows only
        return ""
    if not info._is_text_encoding or info.name in _NO_CHARSETS:
        return ""
    return info.name


def decode_text(data: bytes, charset: str | None, fallback: str | None = None) -> str:
    r"""Decode bytes by their declared character set; never fail.

    Parameters
    ----------
    data : bytes
        The encoded text.
    charset : str or None
        The codec of the declared set, "" for an unknown set, None if none was declared.
    fallback : str, optional
        The codec to retry with if bytes are invalid in the declared set; by default they become U+FFFD.

    Returns
    -------
    str
        Text without lone surrogates. If no known set was declared: UTF-8 if the bytes are valid UTF-8, else the
        fallback or Windows-1252.

    Examples
    --------
    >>> decode_text(b"caf\xe9", "utf-8", "cp1252"), decode_text(b"caf\xe9", ""), decode_text(b"\x80", "cp1252")
    ('café', 'café', '€')
    """
    if not charset:
        return decode_undeclared(data, fallback or "cp1252")
    if charset in _STANDARD:
        return codecs.charmap_decode(data, "strict", _letters(charset))[0]
    try:
        text = data.decode(charset)
    except UnicodeError:
        return _repaired(data, charset, fallback)
    return _without_surrogates(text) if charset == "utf-7" else text


def decode_undeclared(data: bytes, codec: str = "cp1252") -> str:
    r"""Decode bytes without a declared character set: as UTF-8 if valid, else by `codec`.

    Examples
    --------
    >>> decode_undeclared(b"caf\xc3\xa9"), decode_undeclared(b"caf\xe9 \x96")
    ('café', 'café –')
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return _replaced(data, codec)


def _repaired(data: bytes, charset: str, fallback: str | None) -> str:
    """Decode after a failure of Python's codec: bytes undefined in a Windows code page become control characters."""
    text = _replaced(data, charset)
    if charset in _SIBLINGS:
        text = min(text, _replaced(data, _SIBLINGS[charset]), key=lambda letters: letters.count("\ufffd"))
    return _replaced(data, fallback) if fallback and "\ufffd" in text else text


def _replaced(data: bytes, codec: str) -> str:
    """Decode with U+FFFD for invalid bytes, in linear time with a small constant.

    Python's errors="replace" takes 80 to 160 ns per byte in codecs without a fast path.
    """
    if codec in _REPLACE_FAST:
        return data.decode(codec, "replace")
    if codec.startswith("utf-"):  # the valid prefix, then ASCII
        try:
            return _without_surrogates(data.decode(codec))
        except UnicodeDecodeError as error:
            valid = data[: error.start].decode(codec, "replace")
            return _without_surrogates(valid) + data[error.start :].decode("ascii", "replace")
    return codecs.charmap_decode(data, "strict", _letters(codec))[0]


def _letters(codec: str) -> str:
    """Return the characters of a codec's 256 bytes."""
    letters = _tables.get(codec)
    if letters is None:
        if codec == "x-user-defined":
            letters = "".join([chr(byte if byte < 128 else 0xF700 + byte) for byte in range(256)])
        else:
            letters = "".join([bytes((byte,)).decode(codec, "replace") for byte in range(256)])
        if codec[:4] == "cp12" or codec == "cp874":
            letters = "".join([chr(i) if c == "\ufffd" and 128 <= i < 160 else c for i, c in enumerate(letters)])
        if codec == "koi8-u":  # two Belarusian letters, which Python has in KOI8-RU only
            letters = letters[:0xAE] + "\u045e" + letters[0xAF:0xBE] + "\u040e" + letters[0xBF:]
        _tables[codec] = letters
    return letters


def _without_surrogates(text: str) -> str:
    """Replace lone surrogates, which only UTF-7 produces, by question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
