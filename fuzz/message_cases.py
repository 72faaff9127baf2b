"""What fuzzing asks of the mail reader: any bytes give a message, and C and Python agree on all that it says."""

from surebayes import kernels
from surebayes.kernels import _mail as kernel
from surebayes.mail import readers
from surebayes.mail.header_tokens import header_columns, header_tokens, listed_tokens
from surebayes.mail.message import Limits, Message, read_message
from surebayes.mail.plain import read_messages

MAIL = b"From: a@b.c\r\nSubject: =?utf-8?q?caf=C3=A9?=\r\nContent-Type: %s\r\n\r\n%s"


def seeds():
    """Yield mails to start from."""
    yield MAIL % (b"text/plain; charset=latin-1", b"plain \xe9 text")
    yield MAIL % (b"text/html", b"<p>one<br>two<script>x</script>&eacute;&#233;<!-- c --><a href='x' alt=y>link</a>")
    parts = b"--b\r\nContent-Type: text/html\r\nContent-Transfer-Encoding: base64\r\n\r\nPHA+aGk8L3A+\r\n--b--\r\n"
    yield MAIL % (b"multipart/mixed; boundary=b", parts)
    yield MAIL % (b"text/plain\r\nContent-Transfer-Encoding: quoted-printable", b"soft=\r\nline =E9 =XX")
    yield (
        b"From: Ann Lee <Ann@Example.org>\r\nReply-To: x@y.z\r\nTo: a@b.c,\r\n d@e.f\r\n"
        b"Received: from a.b.c ([1.2.3.4])\r\n"
        b'\tby d.e.f; x\r\nMessage-ID: <1@b.c>\r\nContent-Type: text/plain; charset="utf-8"\r\nX-Mailer: Some 1.0\r\n'
        b"Date: Mon, 1 Jan 2024 10:00:00 +0100\r\nX-Other: 1"
    )


LIMITS = (Limits(), Limits(headers=4, header_length=30))


def both(function, *arguments):
    """Call a function with the kernel and without."""
    found = []
    for chosen in (readers, kernel):
        kernels._chosen["mail"] = chosen
        found.append(function(*arguments))
    return found


def everything(data, limits):
    """Return all that a mail says about itself."""
    mail = read_message(data, limits=limits)
    return mail.subject, mail.text, mail.attachments, mail.truncated, mail._head, mail.fingerprint


def check(data):
    """Read the bytes as a message, as a header block and as HTML, in both kernels."""
    for limits in (None, Limits(bytes=900, parts=4, depth=2, headers=5, header_length=60, decoded=80, encoded_words=2)):
        in_python, in_c = both(everything, data, limits)
        assert in_c == in_python, data
    message = read_message(data)
    assert isinstance(message.text, str)
    assert isinstance(message.subject, str)
    plain, after = read_messages([data, MAIL % (b"text/plain", b"")], 10**6, 1000, True, True)
    assert after is None  # an encoded subject: for Python
    if plain is not None:
        assert plain == {
            "text": f"{message.subject}\n{message.text}",
            "fingerprint": message.fingerprint,
            "message_id": message.plain_id,
            "listed_tokens": listed_tokens(message),
            "columns": header_columns(message, 1000),
        }, data
    for limits in LIMITS:
        block = Message(message.subject, attachments=message.attachments)
        block._head, block._limits = data, limits
        for function, *arguments in ((header_tokens,), (listed_tokens,), (header_columns, 1000)):
            in_python, in_c = both(function, block, *arguments)
            assert in_c == in_python, data
    names = kernel.FILTER_FIELDS
    assert kernel.without_fields(data, names) == readers.without_fields(data, names), data
    for last in (False, True):
        cut = data, 0, 0, False, 1000, last
        assert kernel.mailbox_messages(*cut) == readers.mailbox_messages(*cut), data
    assert kernel.is_from_line(data, 0) == readers.is_from_line(data, 0), data
    assert kernel.unquote_from(data) == readers.unquote_from(data), data
    html = data[:20000].decode("utf-8", "replace")
    for flags in (0, 7):
        assert kernel.html_text(html, flags) == readers.html_text(html, flags), (html, flags)
