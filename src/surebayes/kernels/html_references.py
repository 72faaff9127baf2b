"""Character references of HTML, as the kernel knows them: names, numbers and the rules for a missing semicolon."""

import re

# name:code, * for names that also count without a semicolon
_REFERENCES = """
AElig*:c6 AMP*:26 Aacute*:c1 Acirc*:c2 Agrave*:c0 Alpha:391 Aring*:c5 Atilde*:c3 Auml*:c4 Beta:392 COPY*:a9
Ccedil*:c7 Chi:3a7 Dagger:2021 Delta:394 ETH*:d0 Eacute*:c9 Ecirc*:ca Egrave*:c8 Epsilon:395 Eta:397 Euml*:cb GT*:3e
Gamma:393 Hat:5e Iacute*:cd Icirc*:ce Igrave*:cc Iota:399 Iuml*:cf Kappa:39a LT*:3c Lambda:39b Mu:39c NewLine:a
NonBreakingSpace:a0 Ntilde*:d1 Nu:39d OElig:152 Oacute*:d3 Ocirc*:d4 Ograve*:d2 Omega:3a9 Omicron:39f Oslash*:d8
Otilde*:d5 Ouml*:d6 Phi:3a6 Pi:3a0 Prime:2033 Psi:3a8 QUOT*:22 REG*:ae Rho:3a1 Scaron:160 Sigma:3a3 THORN*:de Tab:9
Tau:3a4 Theta:398 Uacute*:da Ucirc*:db Ugrave*:d9 UnderBar:5f Upsilon:3a5 Uuml*:dc Xi:39e Yacute*:dd Yuml:178
ZeroWidthSpace:200b Zeta:396 aacute*:e1 acirc*:e2 acute*:b4 aelig*:e6 agrave*:e0 alefsym:2135 alpha:3b1 amp*:26
and:2227 ang:2220 apos:27 aring*:e5 ast:2a asymp:2248 atilde*:e3 auml*:e4 bdquo:201e beta:3b2 brvbar*:a6 bsol:5c
bull:2022 cap:2229 ccedil*:e7 cedil*:b8 cent*:a2 check:2713 chi:3c7 circ:2c6 clubs:2663 colon:3a comma:2c commat:40
cong:2245 copy*:a9 crarr:21b5 cup:222a curren*:a4 dArr:21d3 dagger:2020 darr:2193 dash:2010 deg*:b0 delta:3b4
diams:2666 divide*:f7 dollar:24 eacute*:e9 ecirc*:ea egrave*:e8 empty:2205 emsp:2003 ensp:2002 epsilon:3b5 equals:3d
equiv:2261 eta:3b7 eth*:f0 euml*:eb euro:20ac excl:21 exist:2203 female:2640 fnof:192 forall:2200 frac12*:bd
frac14*:bc frac34*:be frasl:2044 gamma:3b3 ge:2265 grave:60 gt*:3e hArr:21d4 harr:2194 hearts:2665 hellip:2026
horbar:2015 hyphen:2010 iacute*:ed icirc*:ee iexcl*:a1 igrave*:ec image:2111 infin:221e int:222b iota:3b9 iquest*:bf
isin:2208 iuml*:ef kappa:3ba lArr:21d0 lambda:3bb lang:27e8 laquo*:ab larr:2190 lbrace:7b lbrack:5b lceil:2308
lcub:7b ldquo:201c le:2264 lfloor:230a lowast:2217 lowbar:5f loz:25ca lpar:28 lrm:200e lsaquo:2039 lsqb:5b lsquo:2018
lt*:3c macr*:af male:2642 mdash:2014 micro*:b5 middot*:b7 minus:2212 mu:3bc nabla:2207 nbsp*:a0 ndash:2013 ne:2260
ni:220b not*:ac notin:2209 nsub:2284 ntilde*:f1 nu:3bd num:23 oacute*:f3 ocirc*:f4 oelig:153 ograve*:f2 oline:203e
omega:3c9 omicron:3bf oplus:2295 or:2228 ordf*:aa ordm*:ba oslash*:f8 otilde*:f5 otimes:2297 ouml*:f6 para*:b6
part:2202 percnt:25 period:2e permil:2030 perp:22a5 phi:3c6 phone:260e pi:3c0 piv:3d6 plus:2b plusmn*:b1 pound*:a3
prime:2032 prod:220f prop:221d psi:3c8 quest:3f quot*:22 rArr:21d2 radic:221a rang:27e9 raquo*:bb rarr:2192 rbrace:7d
rbrack:5d rceil:2309 rcub:7d rdquo:201d real:211c reg*:ae rfloor:230b rho:3c1 rlm:200f rpar:29 rsaquo:203a rsqb:5d
rsquo:2019 sbquo:201a scaron:161 sdot:22c5 sect*:a7 semi:3b shy*:ad sigma:3c3 sigmaf:3c2 sim:223c sol:2f spades:2660
star:2606 starf:2605 sub:2282 sube:2286 sum:2211 sup:2283 sup1*:b9 sup2*:b2 sup3*:b3 supe:2287 szlig*:df tau:3c4
there4:2234 theta:3b8 thetasym:3d1 thinsp:2009 thorn*:fe tilde:2dc times*:d7 trade:2122 uArr:21d1 uacute*:fa
uarr:2191 ucirc*:fb ugrave*:f9 uml*:a8 upsih:3d2 upsilon:3c5 uuml*:fc verbar:7c vert:7c weierp:2118 xi:3be yacute*:fd
yen*:a5 yuml*:ff zeta:3b6 zwj:200d zwnj:200c
"""
_codes: dict[bytes, int] = {}
_bare: set[bytes] = set()
for _entry in _REFERENCES.encode().split():
    _key, _, _code = _entry.partition(b":")
    if _key.endswith(b"*"):
        _key = _key[:-1]
        _bare.add(_key)
    _codes[_key] = int(_code, 16)

# what the bytes 0x80 to 0x9F mean in numeric references: Windows-1252, where it has a meaning
_C1 = [ord(bytes([byte]).decode("cp1252")) if byte not in b"\x81\x8d\x8f\x90\x9d" else byte for byte in range(128, 160)]

_number = re.compile(rb"&#(?:[xX]([0-9a-fA-F]+)|([0-9]+));?")
_name = re.compile(rb"&([A-Za-z0-9]{0,32})(;?)")


def reference_at(data: bytes, at: int, end: int, in_attribute: bool) -> tuple[int, int]:
    """Read the character reference at a position: its code (-1: it is none) and where it ends."""
    if data[at + 1 : at + 2] == b"#":
        number = _number.match(data, at, end)
        if not number:
            return -1, at
        digits = number.group(1) or number.group(2)
        if len(digits) > 8:  # leading zeros are allowed, and long ones cost quadratic time
            digits = digits.lstrip(b"0")[:8] or b"0"
        code = int(digits, 16 if number.group(1) else 10)
        if code == 0 or code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            code = 0xFFFD
        elif 0x80 <= code < 0xA0:
            code = _C1[code - 0x80]
        return code, number.end()
    name = _name.match(data, at, end)
    assert name  # the pattern matches any ampersand
    word = name.group(1)
    if name.group(2) and word in _codes:
        return _codes[word], name.end()
    for size in range(min(len(word), 6), 1, -1):
        if word[:size] in _bare:
            stop = at + 1 + size
            after = data[stop : min(stop + 1, end)]
            if in_attribute and (after == b"=" or after.isalnum()):
                return -1, at
            return _codes[word[:size]], stop
    return -1, at
