"""HTML to visible text: what is shown, what is hidden, and the same in C and in Python."""

import html as standard_html
import re
from html.entities import html5

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surebayes.mail import html as reader
from surebayes.mail import html_references, html_tables

try:
    from surebayes.kernels import _mail as kernel
except ImportError:
    kernel = None
SCANNERS = [pytest.param(reader.html_text, id="python")]
if kernel is not None:
    SCANNERS.append(pytest.param(kernel.html_text, id="kernel"))
KEEP_HIDDEN, ALT_TEXT, LINK_TARGETS = 1, 2, 4

SHOWN = [
    ("plain text", "plain text"),
    ("", ""),
    ("<p>one<p>two", "one\ntwo"),
    ("one<br>two<br/>three", "one\ntwo\nthree"),
    ("V<b>ia</b>gr<i></i>a<foo>!", "Viagra!"),
    ("a <!-- x > y --> b<!--x-->c", "a bc"),
    ("<!-->a<!--->b<!--c--!>d", "abd"),
    ("a<!-- never closed", "a"),
    ("<table><tr><td>a<td>b<tr><td>c</table>d", "a b\nc\nd"),
    ("  a \t\n b&nbsp;&nbsp;c\xa0d  ", "a b c d"),
    ("<script>if (a<b) x('</p>')</script>a<style>p{}</style>b", "ab"),
    ("<SCRIPT>x</ScRiPt >a", "a"),
    ("<script>never closed <p>text", ""),
    ("<title>T</title>body", "body"),
    ("<textarea><b>x</textarea>y", "<b>xy"),
    ("<xmp><b>&amp;</xmp>c", "<b>&amp;\nc"),
    ("a<plaintext><b></plaintext>", "a\n<b></plaintext>"),
    ("a<![CDATA[b]]>c", "ac"),
    ("a<![if !mso]>b<![endif]>c<?xml x?>d<!DOCTYPE html>e", "abcde"),
    ("1 < 2 <3 a<", "1 < 2 <3 a<"),
    ("</ x>a</>b</3>c", "abc"),
    ("a<b", "a"),
    ("a<b x='>' y=\">\" z>c</b>", "ac"),
    ("a<b x='never closed>c</b>", "a"),
    ("a<img src=x alt='no'>b", "ab"),
    ("a\0b", "ab"),
    ("<noscript>a</noscript><iframe>b</iframe><noframes>c</noframes>", "a"),
    ("<ul><li>one<li>two</ul>", "one\ntwo"),
    ("<select><option>a<option>b</select>", "a\nb"),
    ("<template>x</template>y", "y"),
    ("<div><template></div>x</template>y", "y"),
    ("<template><table><td></template>y", "y"),
    ("<svg><title/></svg>y", "y"),
    ("<svg><style/><script/><path d='x'/></svg>y", "y"),
    ("<svg><title>x</svg>y", "y"),
    ("<svg>a<desc>x</desc><text>b</text></svg>c", "abc"),
    ("<svg><style>x<b>y", "y"),
    ("<svg><p>y", "y"),
    ("<svg><font size=1>y", "y"),
    ("<math><mi><p>a</p></mi><mo/>b</math>c", "a\nbc"),
    ("<svg><![CDATA[<b>&amp;]]]>c</svg>d<![CDATA[x]]>", "<b>&amp;]cd"),
    ("<svg><![CDATA[never closed", "never closed"),
    ("<svg><plaintext>a</plaintext>b</svg>c", "abc"),
    ("<script><!-- <script>x</script> --></script>y", "y"),
    ("<script><!-- <script>x</script> x</script>y", "y"),
    ("<script><!--></script>y", "y"),
    ("<script>x<!-- </script>y", "y"),
    ("<script><!-- <scripty>x</script>y", "y"),
    ("<head style='display:none'>y", "y"),
    ("&ccaron;&aogon;&acy;&nGt;&fjlig;", "čąа≫\u20d2fj"),
]
VOIDS = (
    "area", "base", "basefont", "bgsound", "br", "col", "embed", "frame", "hr", "image", "img", "input", "keygen",
    "link", "meta", "param", "source", "track", "wbr",
)  # fmt: skip

HIDDEN = [
    '<p style="display:none">x</p>',
    "<div STYLE='color:red; DISPLAY : none !important'>x</div>",
    '<div style="display:block;display:none">x</div>',
    '<div style="dis/**/play:n&#111;ne">x</div>',
    "<div hidden>x</div>",
    '<span style="visibility:hidden">x</span>',
    '<span style="font-size:0">x</span>',
    '<span style="font-size:0.0px">x</span>',
    '<span style="font:0/0 a">x</span>',
    '<span style="opacity:0">x</span>',
    '<div style="max-height:0;overflow:hidden">x</div>',
    "<font color=white>x</font>",
    "<font color='#FFFFFE'>x</font>",
    '<span style="color:#fff">x</span>',
    '<span style="color:rgb(250, 255, 255)">x</span>',
    '<span style="color:transparent">x</span>',
    "<body bgcolor=black text='#000000'>x",
    "<table bgcolor=red><tr><td><font color='#ff0000'>x</table>",
    '<p style="color:navy;background:#000080">x</p>',
    "<p style=display:none>x<b>x</b>x<div></div>",
    "<ul><li hidden>x<li></ul>",
    "<table><tr><td hidden>x<td></table>",
    "<table><tr hidden><td>x<td>x<tr></table>",
    "<div><span hidden>x</div>",
    '<div style="font-size:0"><b style="font-size:2em">x</b></div>',
    "<datalist><option>x</datalist>",
    "<style>p { color: red }</style><font color=white>x</font>",
    "<style>p { background: red }</style><p class=a style='background:#fff'><font color=white>x</font></p>",
]

NOT_HIDDEN = [
    '<p style="display:none;display:block">x',
    "<p hidden style=display:block>x",
    '<p style="font-size:0"><b style="font-size:12px">x',
    '<p style="font-size:0"><font size=2>x',
    '<p style="visibility:hidden"><b style="visibility:visible">x',
    '<p style="font-size:0.9em">x',
    '<p style="height:0">x',
    "<p hidden>-<p>x",
    "<div><span hidden>-</div>x",
    "<table><tr><td hidden>-<td>x",
    "<p hidden>-<div>x",
    "<body bgcolor=black><font color=white>x",
    "<td background=dark.gif><font color=white>x",
    '<p style="background:url(a b.gif)"><font color=white>x',
    "<font color=white><a href=y>x</a>",
    "<font color=white><font color=black>x",
    '<p title="display:none">x',
    "<b data-style=display:none>x",
    "<style>td { BACKGROUND: navy }</style><td><font color=white>x",
    "<style>.a { background: navy }</style><body bgcolor=white><p class=a><font color=white>x",
    "<style>#a { background: navy }</style><body bgcolor=white><p id=a><font color=white>x",
    "<link rel='StyleSheet' href=y><font color=white>x",
    '<p style="background:linear-gradient(#000, #111)"><font color=white>x',
    '<p style="background-image:linear-gradient(#000, #111);background-color:#fff"><font color=white>x',
    "<font color=white><p style='background:dodgerblue'>x",
]


@pytest.fixture(params=SCANNERS)
def scan(request):
    return request.param


@pytest.mark.parametrize(("html", "text"), SHOWN)
def test_what_is_shown(scan, html, text):
    assert scan(html, 0) == text


@pytest.mark.parametrize("html", HIDDEN)
def test_hidden_text_is_dropped_or_kept(scan, html):
    assert "x" not in scan(html + "end", 0)
    assert "x" in scan(html + "end", KEEP_HIDDEN)


@pytest.mark.parametrize("html", NOT_HIDDEN)
def test_what_only_looks_hidden_is_shown(scan, html):
    assert "x" in scan(html, 0)


@pytest.mark.parametrize(
    "html", [html for html in HIDDEN if html.rstrip().endswith(("</p>", "</div>", "</span>", "</font>"))]
)
def test_text_after_a_hidden_element_is_shown(scan, html):
    assert scan(html + "<p>after", 0).endswith("after")


@pytest.mark.parametrize("name", VOIDS)
def test_an_element_without_content_hides_nothing_but_itself(scan, name):
    for attribute in ("hidden", "style=display:none", 'style="font-size:0"', "style='color:#fff'", "style=opacity:0"):
        for slash in ("", " /"):
            html = f"<p>a<{name} {attribute} alt=x{slash}>b"
            assert "".join(scan(html, 0).split()) == "ab"
            assert "".join(scan(html, ALT_TEXT).split()) == "ab"


def test_colours_are_those_of_css():
    colours = pytest.importorskip("matplotlib.colors").CSS4_COLORS
    assert {name: f"#{value:06X}" for name, value in html_tables.COLOURS.items()} == colours


def test_alt_texts_and_link_targets_are_options(scan):
    html = "see<img alt='a &lt b' src=i.gif>and <a href='http://h/?a=1&copy=2&amp;b'>this</a><img hidden alt=no>"
    assert scan(html, 0) == "seeand this"
    assert scan(html, ALT_TEXT) == "see a < b and this"
    assert scan(html, LINK_TARGETS) == "see i.gif and http://h/?a=1&copy=2&b this"


def test_the_title_counts_as_hidden(scan):
    assert scan("<title>a &amp; b</title>c", KEEP_HIDDEN) == "a & b\nc"


def test_named_references_are_those_of_the_standard(scan):
    names = list(html5)
    assert len(names) > 400
    for name in names:
        expected = re.sub("[\xa0 \t\n]+", " ", standard_html.unescape(f"x&{name} y"))
        assert scan(f"x&{name} y", 0) == expected, name


@given(st.text(alphabet="&#xX;0123456789abfltgmpnoi 189", max_size=20))
def test_references_as_python_resolves_them(text):
    def fold(value):
        return " ".join(re.sub("[\0\xa0]", lambda m: " " if m.group() == "\xa0" else "", value).split(" "))

    known = all(name.encode() in html_references._named for name in re.findall("&([a-z]+);", text))
    python = standard_html.unescape(text)
    # the standard keeps control characters and non-characters that Python's function drops
    if known and python.isprintable():
        numbers = [int(n, 16 if x else 10) for x, n in re.findall("&#([xX]?)([0-9a-fA-F]+)", text) if x or n.isdigit()]
        if not any(n < 32 or 0x7F <= n <= 0x9F or n > 0xFDCF for n in numbers):
            for scanner in SCANNERS:
                assert scanner.values[0](text, 0) == " ".join(fold(python).split())


PIECES = (
    "< > </ /> <p> </p> <div> </div> <td> <tr> <table> </table> </td> <li> <ul> </ul> <font|color=white> </font> "
    "<font|color='#fefefe'|size=2> <span|style='display:none'> </span> <span|style=\"font-size:0\"> <title> </title> "
    "<b|style='font-size:12px'> </b> <p|style='color:#fff;background:#000'> <body|bgcolor=black|text=red> <!-- --> "
    "--!> <!--> <! <?x <script> </script> </script <style> </style> <textarea> </textarea> <xmp> </xmp> <plaintext> "
    "&amp; &amp &lt &notit; &#65; &#x &#x41 &#0; &#128; &#99999999999; &nbsp; \xa0 é 日 \0 a bc \" ' = & # x ; - ! / "
    "<img|alt='x|&amp|y'|src=a> <a|href=http://x/?a=1&copy=2> </a> <div|hidden> <div|hidden|style=display:block> "
    "<div|style='max-height:0;overflow:hidden'> <x|style=opacity:0> </x> <q|style=visibility:hidden> </q> "
    "<q|style=visibility:visible> <p|style='font:0/0|a'> <i|style='color:rgb(255,|250,255)'> </i> <tr|hidden> <dd> "
    "<i|style='color:transparent'> <i|style='dis/*x*/play:no&#110;e'> <option> <dt> <caption> <tbody> <th> <br> "
    "<svg> </svg> <svg/> <math> </math> <mi> <g/> <desc> </desc> <title/> <style/> <foreignObject> </foreignObject> "
    "<![CDATA[ ]]> <template> </template> <img|hidden> <link|rel=stylesheet> background <p|class=x> <p|id=y> <script "
    "<head|hidden> <font|face=x> </br> &nGt; &fjlig; <span> <q|style='background-image:url(x);background:#fff'> "
    "<i|style='background:url(a|b)|red'> <i|style='background:red|url(x)'> <hr/> <y> </y> <i|\0=x> <a\0b> <é> "
    "<aé|style=display:none> </aé> <averyveryverylongname|hidden> </averyveryverylongnamX> <DIV|STYLE='DISPLAY:NONE'>"
).replace("|", "\N{NO-BREAK SPACE}")
PIECES = [piece.replace("\N{NO-BREAK SPACE}", " ") for piece in PIECES.split(" ")] + [" ", "\n", "\t", "\xa0"]


@pytest.mark.skipif(kernel is None, reason="the kernel is not built")
@settings(max_examples=1000)
@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=3)), max_size=40).map("".join), st.integers(0, 7))
def test_kernel_and_reader_agree(html, flags):
    html = html.encode("utf-8", "replace").decode()
    assert kernel.html_text(html, flags) == reader.html_text(html, flags)


@pytest.mark.skipif(kernel is None, reason="the kernel is not built")
def test_kernel_and_reader_agree_when_deep():
    for piece in ("<div><span hidden>", "<table><td>", "<font color=white><p>", "<ul><li>", "<b>", "<x hidden><td>"):
        html = piece * 300 + "a" + "</div></table></font></ul></b>" * 300 + "b"
        assert kernel.html_text(html, 0) == reader.html_text(html, 0)


def test_what_is_no_text_is_refused(scan):
    with pytest.raises((TypeError, AttributeError)):
        scan(b"<p>", 0)


def visible_words(html: str) -> set[str]:
    """Words by selectolax: text nodes, with blanks only where our scanner puts some; what never shows left out."""
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(html)
    tree.strip_tags(["script", "style", "title", "noframes", "noembed", "iframe", "template"])
    breaks = {name.decode() for name in reader._BLOCK | reader._BREAK | reader._CELL}
    pieces = []
    for node in tree.root.traverse(include_text=True):
        pieces.append(node.text_content or "" if node.tag == "-text" else "\n" if node.tag in breaks else "")
    return set(re.findall(r"\w\w+", "".join(pieces).lower()))


@pytest.mark.corpus
@pytest.mark.skipif(kernel is None, reason="the kernel is not built")
def test_close_to_selectolax_on_real_mail(corpora_folder):
    pytest.importorskip("selectolax.lexbor")
    likeness, pairs = [], 0
    for number, html in enumerate(html_parts(corpora_folder)):
        text = kernel.html_text(html, 0)
        ours, theirs = set(re.findall(r"\w\w+", text.lower())), visible_words(html)
        likeness.append(len(ours & theirs) / len(ours | theirs) if ours | theirs else 1.0)
        if number % 10 == 0:
            assert text == reader.html_text(html, 0)
            pairs += 1
    mean, close = sum(likeness) / len(likeness), sum(share >= 0.95 for share in likeness) / len(likeness)
    print(f"{len(likeness)} HTML parts: mean Jaccard likeness to selectolax {mean:.4f}, {close:.1%} of them above .95")
    assert pairs > 100
    assert mean > 0.99
    assert close > 0.98


def html_parts(folder):
    import email

    import pyarrow.parquet

    for raw in pyarrow.parquet.read_table(folder / "spamassassin.parquet", columns=["raw"])["raw"].to_pylist():
        for part in email.message_from_bytes(raw).walk():
            if part.get_content_type() == "text/html":
                data = part.get_payload(decode=True)
                try:
                    yield data.decode(part.get_content_charset() or "utf-8", "replace")
                except LookupError:
                    yield data.decode("latin-1")
