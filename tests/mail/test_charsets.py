"""Character sets: labels and letters of the Encoding Standard."""

import pytest

from surebayes.mail.charsets import codec_name, decode_text, decode_undeclared
from surebayes.mail.message import read_message

webencodings = pytest.importorskip("webencodings")
REFUSED = {label for label, name in webencodings.LABELS.items() if name == "replacement"}


@pytest.mark.parametrize("label", sorted(set(webencodings.LABELS) - REFUSED))
def test_every_label_of_the_standard_means_what_its_encoding_means(label):
    codec = codec_name(label).replace(
        "utf-16-le", "utf-16"
    )  # a byte-order mark decides, and without one it is the same
    assert codec == codec_name(webencodings.LABELS[label]).replace("utf-16-le", "utf-16") != ""
    assert codec_name(f" {label.upper()}\n") == codec_name(label)


def test_encodings_differ():
    names = {name for name in webencodings.LABELS.values() if name != "replacement"}
    same = [{"gbk", "gb18030"}, {"iso-8859-8", "iso-8859-8-i"}]  # the same letters in the standard, too
    assert len({codec_name(name) for name in names}) == len(names) - len(same)


@pytest.mark.parametrize(
    ("label", "data", "text"),
    [
        ("iso-8859-1", b"\x80\x93x\x94\x81", "€“x”\x81"),
        ("us-ascii", b"caf\xe9", "café"),
        ("iso-8859-9", b"\x80\xfd", "€ı"),
        ("tis-620", b"\x80\xa1", "€ก"),
        ("windows-874", b"\x85\x81", "…\x81"),
        ("windows-949", "뷁".encode("cp949"), "뷁"),
        ("x-cp1251", "Привет".encode("cp1251"), "Привет"),
        ("cn-big5", "電郵".encode("big5"), "電郵"),
        ("gb_2312-80", "電子郵件".encode("gbk"), "電子郵件"),
        ("koi8-ru", b"\xae\xbe\xa4", "ўЎє"),
        ("shift_jis", "①".encode("cp932"), "①"),
        ("euc-jp", "①".encode("euc_jis_2004"), "①"),
        ("x-user-defined", b"a\x80\xff", "a\uf780\uf7ff"),
        ("unicodefffe", "é".encode("utf-16-be"), "é"),
        ("windows-1253", b"\xaa\x81", "\ufffd\x81"),
        ("hz-gb-2312", b"~{VPND~}", "中文"),
    ],
)
def test_letters(label, data, text):
    assert decode_text(data, codec_name(label)) == text
    raw = b"Subject: =?%b?b?%b?=\nContent-Type: text/plain; charset=%b\n\n%b"
    from base64 import b64encode

    mail = read_message(raw % (label.encode(), b64encode(data), label.encode(), data))
    assert mail.text == text
    assert mail.subject == text


def test_undeclared_subjects_and_bodies_agree():
    for data in (b"caf\xe9", b"caf\xc3\xa9", b"\x93x\x94", b"\xff\x81", b"\xc3"):
        mail = read_message(b"Subject: " + data + b"\n\n" + data)
        assert mail.subject == mail.text == decode_undeclared(data)


def test_the_fallback_is_for_what_no_letter_is():
    assert decode_text(b"\x81", "cp1252", "koi8-r") == "\x81"
    assert decode_text(b"\xaa", "cp1253", "koi8-r") == b"\xaa".decode("koi8-r")
    assert decode_text(b"\xe9", None, "koi8-r") == b"\xe9".decode("koi8-r")
    assert decode_text(b"\xe9", "", "koi8-r") == b"\xe9".decode("koi8-r")
    assert read_message(b"\n\xe9", fallback_charset="koi8-r").text == b"\xe9".decode("koi8-r")
