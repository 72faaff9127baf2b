"""What fuzzing asks of the mail reader: any bytes give a message, and HTML the same text in C and in Python."""

from surebayes import _text as kernel
from surebayes._html_python import html_text
from surebayes.message import read_message

MAIL = b"From: a@b.c\r\nSubject: =?utf-8?q?caf=C3=A9?=\r\nContent-Type: %s\r\n\r\n%s"


def seeds():
    """Give mails to start from."""
    yield MAIL % (b"text/plain; charset=latin-1", b"plain \xe9 text")
    yield MAIL % (b"text/html", b"<p>one<br>two<script>x</script>&eacute;&#233;<!-- c --><a href='x' alt=y>link</a>")
    parts = b"--b\r\nContent-Type: text/html\r\nContent-Transfer-Encoding: base64\r\n\r\nPHA+aGk8L3A+\r\n--b--\r\n"
    yield MAIL % (b"multipart/mixed; boundary=b", parts)
    yield MAIL % (b"text/plain\r\nContent-Transfer-Encoding: quoted-printable", b"soft=\r\nline =E9 =XX")


def check(data):
    """Read the bytes as a message, and as HTML in both kernels."""
    message = read_message(data)
    assert isinstance(message.text, str)
    assert isinstance(message.subject, str)
    html = data[:20000].decode("utf-8", "replace")
    for flags in (0, 7):
        assert kernel.html_text(html, flags) == html_text(html, flags), (html, flags)
