"""Mail made to hurt a reader: one generator a trick, each of the size that breaks common parsers.

`HOSTILE` maps a name to (function that makes the mail, whether the default limits cut it). Run as a program it writes
them into a folder: ``python tests/hostile_mail.py FOLDER``.
"""

import base64
import sys
from pathlib import Path

HEAD = b"From: a@example.org\nTo: b@example.org\nSubject: hello\nMessage-ID: <1@example.org>\nMIME-Version: 1.0\n"
HTML = HEAD + b"Content-Type: text/html; charset=utf-8\n\n"
PLAIN = HEAD + b"Content-Type: text/plain; charset=utf-8\n\n"


def ordinary(size: int) -> bytes:
    """A harmless mail of about that many bytes: plain text and HTML alternatives, quoted-printable."""
    line = b"The quick brown fox jumps over the lazy dog, and =E2=82=AC5 is the price of it =\ntoday.\n"
    row = b'<tr><td class=3D"x">The quick brown fox</td><td><b>jumps</b> over the lazy dog &amp; more=\n</td></tr>\n'
    repeat = max(1, (size - 500) // 2)
    part = b"--sep\nContent-Type: text/%s; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\n"
    return b"".join(
        (
            HEAD,
            b'Content-Type: multipart/alternative; boundary="sep"\n\n',
            part % b"plain",
            line * (repeat // len(line) + 1),
            part % b"html",
            b"<html><body><table>\n",
            row * (repeat // len(row) + 1),
            b"</table></body></html>\n--sep--\n",
        )
    )


def many_parts() -> bytes:
    part = b"--b\nContent-Type: text/plain\n\nx\n"
    return HEAD + b"Content-Type: multipart/mixed; boundary=b\n\n" + part * 150_000 + b"--b--\n"


def many_empty_parts() -> bytes:
    return HEAD + b"Content-Type: multipart/mixed; boundary=b\n\n" + b"--b\n" * 500_000


def deep_multiparts() -> bytes:
    parts = [HEAD]
    for depth in range(1000):
        parts.append(b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (depth, depth))
    return b"".join(parts) + b"Content-Type: text/plain\n\ndeep inside\n"


def deep_messages() -> bytes:
    return HEAD + b"Content-Type: message/rfc822\n\n" * 1000 + b"Subject: x\n\ndeep inside\n"


def deep_and_large() -> bytes:
    heads = b"".join(b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (n, n) for n in range(14))
    return HEAD + heads + b"Content-Type: text/plain\n\n" + b"word and word\n" * 500_000


def quoted_from() -> bytes:
    return b'From: "' + b"\\" * 400_000 + b"a" * 400_000 + b'" <a@example.org>\nSubject: x\n\nbody\n'


def quoted_pairs_from() -> bytes:
    return b'From: "' + b'\\"' * 400_000 + b"\nSubject: x\n\nbody\n"


def many_addresses() -> bytes:
    return b"To: " + b",\n ".join(b"user%d@example.org" % n for n in range(60_000)) + b"\nSubject: x\n\nbody\n"


def comment_address() -> bytes:
    return b"From: " + b"(" * 300_000 + b"\nSubject: x\n\nbody\n"


def nested_divs() -> bytes:
    return HTML + b"<div>" * 100_000 + b"deep" + b"</div>" * 100_000


def nested_fonts() -> bytes:
    return HTML + b"<font color=white><p>" * 40_000 + b"deep"


def stray_end_tags() -> bytes:
    return HTML + b"<div><table><tr><td>" + b"<span>" * 120 + b"</div>" * 150_000


def stray_cells() -> bytes:
    return HTML + b"<table><tr><td><th><table>" + b"<span>" * 120 + b"<td></td><th></th>" * 50_000


def many_attributes() -> bytes:
    return HTML + b"<p " + b"".join(b"a%d=v " % n for n in range(100_000)) + b">text"


def many_styles() -> bytes:
    return HTML + b'<p style="color:red;display:block;font-size:0.0001em">x' * 18_000


def long_style() -> bytes:
    return HTML + b'<p style="' + b"a:b;" * 200_000 + b'display:none">x'


def open_comments() -> bytes:
    return HTML + b"<!--" * 250_000


def almost_closed_comments() -> bytes:
    return HTML + b"<!-- -- --! " * 80_000


def open_brackets() -> bytes:
    return HTML + b"<" * 1_000_000


def open_tags() -> bytes:
    return HTML + b"<a " * 330_000


def open_quotes() -> bytes:
    return HTML + b'<a href="' * 110_000


def open_scripts() -> bytes:
    return HTML + b"<script></scrip" * 65_000


def open_references() -> bytes:
    return HTML + b"&" * 1_000_000


def long_references() -> bytes:
    return HTML + b"&#" + b"9" * 500_000 + b"&" + b"a" * 500_000 + b";"


def open_declarations() -> bytes:
    return HTML + b"<!x" * 330_000


def endless_base64() -> bytes:
    return HEAD + b"Content-Type: text/plain\nContent-Transfer-Encoding: base64\n\n" + b"QUJD" * 1_500_000 + b"Q"


def dirty_base64() -> bytes:
    return HEAD + b"Content-Type: text/plain\nContent-Transfer-Encoding: base64\n\n" + b"Q!\n=" * 250_000 + b"A"


def quoted_printable_bomb() -> bytes:
    return HEAD + b"Content-Type: text/plain\nContent-Transfer-Encoding: quoted-printable\n\n" + b"=\n" * 1_000_000


def uuencoded() -> bytes:
    return HEAD + b"Content-Type: text/plain\nContent-Transfer-Encoding: x-uuencode\n\nbegin 644 x\n" + b"!\n" * 500_000


def unknown_charset() -> bytes:
    return HEAD + b"Content-Type: text/plain; charset=klingon\n\n" + bytes(range(128, 256)) * 4000


def lying_charset() -> bytes:
    return HEAD + b"Content-Type: text/plain; charset=utf-8\n\n" + b"\xff\xfe\xc3\x28" * 200_000


def lying_multibyte() -> bytes:
    return HEAD + b"Content-Type: text/plain; charset=gb2312\n\n" + b"\xff\x80\xa1" * 250_000


def punycode_charset() -> bytes:
    return HEAD + b"Content-Type: text/plain; charset=punycode\n\n" + b"a-" + b"b" * 800_000


def idna_charset() -> bytes:
    return HEAD + b"Content-Type: text/plain; charset=idna\n\n" + b"xn--a." * 100_000


def escape_charset() -> bytes:
    return HEAD + b"Content-Type: text/plain; charset=unicode_escape\n\n" + b"\\N{LATIN SMALL LETTER A}" * 30_000


def utf7_charset() -> bytes:
    return HEAD + b"Content-Type: text/html; charset=utf-7\n\n" + b"+2AA-+3gA-x" * 80_000


def undefined_bytes() -> bytes:
    return HEAD + b"Content-Type: text/plain; charset=windows-1255\n\n" + b"+\xff" * 500_000


def broken_utf7() -> bytes:
    return HEAD + b"Content-Type: text/plain; charset=utf-7\n\n" + b"\xff\x80" * 500_000


def broken_utf16() -> bytes:
    return HEAD + b"Content-Type: text/plain; charset=utf-16-le\n\n" + b"\x00\xd8" * 500_000


def odd_charset_name() -> bytes:
    return HEAD + b'Content-Type: text/plain; charset="..\\\x00/' + b"x" * 10_000 + b'"\n\ntext\n'


def nul_bytes() -> bytes:
    return HEAD + b"Content-Type: text/html\n\n" + b"a\0<b\0>" * 150_000


def nul_header() -> bytes:
    return b"Subject: a\0b\nContent-Type: text/plain; charset=\0\n\n\0\0text"


def one_line() -> bytes:
    return PLAIN + b"x" * 20_000_000


def one_line_html() -> bytes:
    return HTML + b"<b>x</b>" * 2_500_000


def encoded_words() -> bytes:
    return b"Subject: " + b"=?utf-8?q?a?= " * 100_000 + b"\n\nbody\n"


def open_encoded_words() -> bytes:
    return b"Subject: " + b"=?utf-8?q?" * 100_000 + b"\n\nbody\n"


def encoded_charsets() -> bytes:
    return b"Subject: " + b" ".join(b"=?x-%d?b?QQ?=" % n for n in range(900)) + b"\n\nbody\n"


def fields_of_encoded_words() -> bytes:
    names = (b"Received", b"From", b"To", b"X-Mailer", b"Content-Type", b"Date", b"X-Other")
    word = b"=?gb2312?b?/////w==?= "
    return b"".join(names[n % 7] + b": " + word * 700 + b"\n" for n in range(1000)) + b"\nbody\n"


def header_flood() -> bytes:
    return b"".join(b"X-%d: y\n" % n for n in range(300_000)) + b"Subject: x\n\nbody\n"


def folded_flood() -> bytes:
    return b"Subject: a\n" + b" b\n" * 500_000 + b"\nbody\n"


def nameless_headers() -> bytes:
    return b":\n" * 500_000 + b"\nbody\n"


def no_blank_line() -> bytes:
    return b"Subject: x\n" + b"this is text without a colon\n" * 100_000


def boundary_prefixes() -> bytes:
    return (
        HEAD
        + b"Content-Type: multipart/mixed; boundary=a\n\n--a\nContent-Type: multipart/mixed; boundary=aa\n\n--aa\n\n"
        + b"--aaa\n--aab\n" * 200_000
    )


def periodic_boundary() -> bytes:
    boundary = b"-" * 68
    return HEAD + b'Content-Type: multipart/mixed; boundary="' + boundary + b'x"\n\n' + (b"\n" + b"-" * 69) * 40_000


def long_boundary() -> bytes:
    return HEAD + b'Content-Type: multipart/mixed; boundary="' + b"b" * 500_000 + b'"\n\n--' + b"b" * 500_000 + b"\n\nx"


def quoted_semicolons() -> bytes:
    return HEAD + b'Content-Type: multipart/mixed; x="' + b";" * 15_000 + b"; boundary*0=a; boundary*1=b\n\n--ab\n\nx\n"


def continued_parameters() -> bytes:
    names = b"".join(b"; boundary*%d=a" % n for n in range(900))
    return HEAD + b"Content-Type: multipart/mixed" + names + b"\n\n--a\n\nx\n"


def many_filenames() -> bytes:
    part = b"--b\nContent-Type: application/zip; name*0*=utf-8''%41; name*1=b\n\nx\n"
    return HEAD + b"Content-Type: multipart/mixed; boundary=b\n\n" + part * 10_000


def many_html_parts() -> bytes:
    part = b"--b\nContent-Type: text/html\n\n<p>x\n"
    return HEAD + b"Content-Type: multipart/mixed; boundary=b\n\n" + part * 30_000


def carriage_returns() -> bytes:
    return PLAIN.replace(b"\n", b"\r") + b"text\r" * 200_000


def base64_html() -> bytes:
    data = base64.encodebytes(b"<p>x<!-- " * 600_000)
    return HEAD + b"Content-Type: text/html\nContent-Transfer-Encoding: base64\n\n" + data


# name -> (maker, is it cut by the default limits?)
HOSTILE = {
    "150,000 parts": (many_parts, True),
    "500,000 empty parts": (many_empty_parts, True),
    "1,000 nested multiparts": (deep_multiparts, True),
    "1,000 nested messages": (deep_messages, True),
    "14 levels, 7 MB inside": (deep_and_large, True),
    "0.8 MB quoted From": (quoted_from, True),
    "400,000 quoted pairs in From": (quoted_pairs_from, True),
    "60,000 addresses": (many_addresses, True),
    "300,000 open comments in From": (comment_address, True),
    "100,000 nested divs": (nested_divs, True),
    "40,000 nested fonts": (nested_fonts, False),
    "stray end tags": (stray_end_tags, False),
    "stray cells": (stray_cells, False),
    "100,000 attributes": (many_attributes, False),
    "18,000 styles": (many_styles, False),
    "style of 0.8 MB": (long_style, False),
    "<!-- bomb": (open_comments, False),
    "almost closed comments": (almost_closed_comments, False),
    "a million <": (open_brackets, False),
    "open tags": (open_tags, False),
    "open quotes": (open_quotes, False),
    "open scripts": (open_scripts, False),
    "a million &": (open_references, False),
    "references of 0.5 MB": (long_references, False),
    "open declarations": (open_declarations, False),
    "base64 without end": (endless_base64, True),
    "dirty base64": (dirty_base64, False),
    "soft line breaks": (quoted_printable_bomb, False),
    "uuencoded": (uuencoded, True),
    "unknown charset": (unknown_charset, False),
    "lying charset": (lying_charset, False),
    "lying multi-byte charset": (lying_multibyte, False),
    "charset punycode": (punycode_charset, False),
    "charset idna": (idna_charset, False),
    "charset unicode_escape": (escape_charset, False),
    "charset utf-7 with surrogates": (utf7_charset, False),
    "bytes that windows-1255 lacks": (undefined_bytes, False),
    "broken utf-7": (broken_utf7, False),
    "broken utf-16": (broken_utf16, False),
    "odd charset name": (odd_charset_name, False),
    "NUL bytes": (nul_bytes, False),
    "NUL in the header": (nul_header, False),
    "20 MB in one line": (one_line, True),
    "20 MB of HTML in one line": (one_line_html, True),
    "100,000 encoded words": (encoded_words, True),
    "100,000 open encoded words": (open_encoded_words, True),
    "900 charsets in the subject": (encoded_charsets, True),
    "1,000 fields of encoded words": (fields_of_encoded_words, False),
    "300,000 header fields": (header_flood, True),
    "500,000 continuation lines": (folded_flood, True),
    "500,000 nameless fields": (nameless_headers, False),
    "no blank line": (no_blank_line, True),
    "boundaries that start alike": (boundary_prefixes, True),
    "periodic boundary": (periodic_boundary, True),
    "boundary of 0.5 MB": (long_boundary, True),
    "quoted semicolons": (quoted_semicolons, False),
    "900 continued parameters": (continued_parameters, False),
    "10,000 encoded file names": (many_filenames, True),
    "30,000 HTML parts": (many_html_parts, True),
    "bare carriage returns": (carriage_returns, False),
    "base64 HTML with open comments": (base64_html, True),
}

HOSTILE_HEADS = {
    "1,000 fields with long names": lambda: b"".join(b"X-" + b"a" * 16000 + b"%d: b\n" % n for n in range(1000)),
    "a content type of 8 MB": lambda: b"Content-Type: " + b"c" * 8_000_000,
    "1,300,000 parameters": lambda: b"Content-Type: x/y" + b";chars" * 1_300_000,
    "2,000,000 addresses": lambda: b"To: " + b"a@b," * 2_000_000,
    "4,000,000 folds": lambda: b"From: " + b"\n " * 4_000_000,
    "a Received of 8 MB, then colons": lambda: b"Received: " + b"." * 8_000_000 + b"\n" + b":" * 8_000_000,
}
"""Blocks of header fields that cost a reader dearly whose time is not linear in their length."""


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, (make, _) in HOSTILE.items():
        (folder / (name.replace("/", "_").replace(" ", "_") + ".eml")).write_bytes(make())
