"""Conversion of HTML to visible text in Python: the kernel's fallback and test reference.

It works on UTF-8 and applies the kernel's rules in the same order; the kernel's comments explain them.
"""

import re

from surebayes.mail.html_references import reference_at
from surebayes.mail.html_style import PAGE, UNKNOWN, UNSEEN, WHITE, Look, apply_tag
from surebayes.mail.html_tables import KINDS

KEEP_HIDDEN, ALT_TEXT, LINK_TARGETS = 1, 2, 4
_DEPTH = 128  # open elements tracked
_NAME = 15  # significant bytes of a tag name
_SPACE, _BREAK_LINE = 1, 2  # pending before the next visible character


def _encoded(names: "frozenset[str]") -> "frozenset[bytes]":
    return frozenset(name.encode() for name in names)


_BLOCK, _CELL, _VOID, _RAW, _SHOWN_RAW, _RCDATA, _HIDDEN, _TABLE, _PAGE, _BREAK, _LIST, _FORMAT = map(
    _encoded, list(KINDS.values())[:12]
)
_BREAKOUT, _INTEGRATION, _UNDRAWN = map(_encoded, list(KINDS.values())[12:])

_BLANKS = frozenset(" \t\n\r\f")
_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_run = re.compile(rb"[^\x00-\x20&\xc2]+|[ \t\n\r\f]+|[\x00-\xff]")
_tag_name = re.compile(rb"[^ \t\n\r\f/>]*")
_gap = re.compile(rb"[ \t\n\r\f/]*")
_attribute = re.compile(rb"([^ \t\n\r\f/>][^ \t\n\r\f/>=]*)[ \t\n\r\f]*(?:(=)[ \t\n\r\f]*)?")
_unquoted = re.compile(rb"[^ \t\n\r\f>]*")
_FONT = frozenset((b"color", b"face", b"size"))
_script_end = re.compile(rb"<!--|-->|<(/?)script(?=[ \t\n\r\f/>]|\Z)", re.IGNORECASE)
_USED_ATTRIBUTES = frozenset(b"style size src color bgcolor background text alt href hidden class id face rel".split())


def html_text(html: str, flags: int = 0) -> str:
    """Return the visible text of an HTML document.

    Parameters
    ----------
    html : str
        A document or fragment, valid or not.
    flags : int
        Sum of 1 to keep hidden text, 2 to add alt texts, and 4 to add link targets.

    Returns
    -------
    str
        Text with collapsed white space, and block elements on separate lines.

    Examples
    --------
    >>> html_text("<p>Fish &amp; <b>chi</b>ps<td>$9<script>x()</script><div hidden>no</div>")
    'Fish & chips $9'
    """
    scan = _Scan(html.encode("utf-8"), flags)
    scan.run()
    return b"".join(scan.out).decode("utf-8", "replace")


class _Scan:
    """A single pass over one document."""

    def __init__(self, data: bytes, flags: int) -> None:
        self.data, self.at, self.flags = data, 0, flags
        self.out: list[bytes] = []
        self.due = 0
        self.shown = True
        self.closed = False  # whether the last tag ended in "/>"
        # display, visibility, zero font size, text colour, background colour
        self.look: Look = (False, False, False, UNKNOWN, PAGE)
        # name, whether it is SVG or MathML, whether its content is HTML, the parent's style
        self.open: list[tuple[bytes, bool, bool, Look]] = []
        self.sheet = False  # whether a style sheet may set the background

    # -- output

    def put(self, data: bytes) -> None:
        if self.due:
            if self.out:
                self.out.append(b"\n" if self.due == _BREAK_LINE else b" ")
            self.due = 0
        self.out.append(data)

    def ask(self, due: int) -> None:
        self.due = max(self.due, due)

    def write(self, start: int, end: int, raw: bool = False, in_attribute: bool = False) -> None:
        """Write text with collapsed white space and, unless raw, resolved references."""
        data, at = self.data, start
        while at < end:
            run = _run.match(data, at, end)
            assert run  # the pattern's last alternative matches any byte
            piece, first = run.group(), data[at]
            at = run.end()
            if first > 32 and first != 38 and first != 0xC2:
                self.put(piece)
            elif first in WHITE:
                self.ask(_SPACE)
            elif first == 38 and not raw:
                letters, stop = reference_at(data, at - 1, end, in_attribute)
                if not letters:
                    self.put(b"&")
                    continue
                at = stop
                if letters == "\xa0" or letters in _BLANKS:
                    self.ask(_SPACE)
                else:
                    self.put(letters.encode("utf-8"))
            elif first == 0xC2 and at < end and data[at] == 0xA0:
                self.ask(_SPACE)
                at += 1
            elif first:
                self.put(piece)

    # -- open elements

    def judge(self) -> None:
        gone, unseen, zero, letters, paper = self.look
        same = letters == UNSEEN
        if paper == PAGE and not self.sheet:
            paper = 0xFFFFFF
        if letters >= 0 and paper >= 0:
            same = all(abs((letters >> shift & 255) - (paper >> shift & 255)) <= 15 for shift in (0, 8, 16))
        self.shown = bool(self.flags & KEEP_HIDDEN) or not (gone or unseen or zero or same)

    def close(self, name: bytes, walls: frozenset[bytes] = frozenset()) -> None:
        """Close the innermost open element of that name, unless a table, a template or a barrier is in between."""
        for depth in range(len(self.open) - 1, -1, -1):
            other, foreign, integration, _ = self.open[depth]
            if other == name:
                self.close_from(depth)
                return
            if name == b"template":  # the end tag closes all unclosed descendants
                continue
            if other in (b"table", b"template") or integration or (other in walls and not foreign):
                return

    def close_from(self, depth: int) -> None:
        """Close the open elements from a depth on."""
        self.look = self.open[depth][-1]
        del self.open[depth:]
        self.judge()

    def inside_foreign(self) -> bool:
        """Whether the current element is in SVG or MathML."""
        return bool(self.open) and self.open[-1][1] and not self.open[-1][2]

    def break_out(self) -> None:
        """Leave SVG and MathML at an HTML-only tag."""
        while self.inside_foreign():
            self.close_from(len(self.open) - 1)

    def end_foreign(self, name: bytes) -> bool:
        """Close an element of SVG or MathML; return whether one of that name was open."""
        for depth in range(len(self.open) - 1, -1, -1):
            if not self.open[depth][1]:
                break
            if self.open[depth][0] == name:
                self.close_from(depth)
                return True
        return False

    def close_implied(self, name: bytes) -> None:
        """Close unclosed elements that a start tag ends implicitly."""
        section = name in (b"tbody", b"thead", b"tfoot", b"caption")
        if name in _BLOCK:
            self.close(b"p", _TABLE)
        if name == b"li":
            self.close(b"li", _TABLE | _LIST)
        elif name in (b"dt", b"dd"):
            self.close(b"dt", _TABLE | _LIST)
            self.close(b"dd", _TABLE | _LIST)
        elif name == b"option":
            self.close(b"option", _TABLE | _BLOCK)
        if section:
            for other in (b"caption", b"tbody", b"thead", b"tfoot"):
                self.close(other)
        if section or name == b"tr":
            self.close(b"tr")
        if section or name in (b"tr", b"td", b"th"):
            self.close(b"td")
            self.close(b"th")

    def start(self, name: bytes, attributes: dict[bytes, bytes], foreign: bool, void: bool) -> None:
        """Open an element and compute its style."""
        before = self.look
        hidden = name in (_UNDRAWN if foreign else _HIDDEN)
        if attributes or hidden:
            self.look = apply_tag(before, name, attributes, hidden, self.sheet)
        if foreign or name not in _PAGE:
            if void:
                pass
            elif len(self.open) < _DEPTH:
                self.open.append((name, foreign, foreign and name in _INTEGRATION, before))
            else:
                self.look = before  # too deep: its end tag can't be matched
        self.judge()

    def boundary(self, name: bytes) -> None:
        if name in _BLOCK or name in _BREAK:
            self.ask(_BREAK_LINE)
        elif name in _CELL:
            self.ask(_SPACE)

    def end(self, name: bytes) -> None:
        if self.open and self.open[-1][1]:
            if self.end_foreign(name):
                return
            if name in (b"p", b"br"):
                self.break_out()
        self.boundary(name)
        if name in _TABLE:
            self.close(name)
        else:
            self.close(name, _TABLE if name in _BLOCK or name in _FORMAT else _TABLE | _BLOCK)

    # -- markup

    def attributes(self, at: int) -> dict[bytes, bytes] | None:
        """Parse attributes up to the end of the tag; None if it doesn't end."""
        data = self.data
        attributes: dict[bytes, bytes] = {}
        self.spans: dict[bytes, tuple[int, int]] = {}
        while True:
            gap = _gap.match(data, at)
            at = gap.end()  # type: ignore[union-attr]
            if at >= len(data):
                break
            if data[at] == 62:
                self.at = at + 1
                self.closed = gap.group().endswith(b"/")  # type: ignore[union-attr]
                return attributes
            match = _attribute.match(data, at)
            assert match  # the first byte can start a name
            name, at = match.group(1), match.end()
            start = stop = at
            if match.group(2):
                quote = data[at : at + 1]
                if quote in (b'"', b"'"):
                    start, stop = at + 1, data.find(quote, at + 1)
                    if stop < 0:
                        break
                    at = stop + 1
                else:
                    at = stop = _unquoted.match(data, at).end()  # type: ignore[union-attr]
            if 2 <= len(name) <= 10:
                name = name.lower()
                if name in _USED_ATTRIBUTES and name not in attributes:
                    attributes[name] = data[start:stop]
                    self.spans[name] = (start, stop)
        self.at = len(data)
        return None

    def write_attribute(self, name: bytes) -> None:
        if name in self.spans and self.shown:
            self.ask(_SPACE)
            self.write(*self.spans[name], in_attribute=True)
            self.ask(_SPACE)

    def find_end_tag(self, name: bytes) -> int:
        end_tag = re.compile(rb"</" + re.escape(name) + rb"(?=[ \t\n\r\f/>]|\Z)", re.IGNORECASE).search(
            self.data, self.at
        )
        return end_tag.start() if end_tag else len(self.data)

    def tag(self) -> None:
        data = self.data
        closing = data[self.at + 1] == 47
        full = _tag_name.match(data, self.at + 1 + closing)
        assert full  # the pattern matches an empty name too
        name = full.group()[:_NAME].lower().rstrip(b"\0")
        attributes = self.attributes(full.end())
        if attributes is None:
            return
        if closing:
            self.end(name)
            return
        inside = self.inside_foreign()
        if inside and (name in _BREAKOUT or (name == b"font" and _FONT & attributes.keys())):
            self.break_out()
            inside = False
        foreign = inside or name in (b"svg", b"math")
        if not foreign:
            self.boundary(name)
            self.close_implied(name)
        void = self.closed if foreign else name in _VOID
        before = self.look
        self.start(name, attributes, foreign, void)
        if self.flags & ALT_TEXT:
            self.write_attribute(b"alt")
        if self.flags & LINK_TARGETS:
            self.write_attribute(b"href")
            self.write_attribute(b"src")
        if void:  # its style ends with it
            self.look = before
            if name == b"link" and not foreign and b"stylesheet" in attributes.get(b"rel", b"").lower():
                self.sheet = True
            self.judge()
        if not foreign and (name in _RAW or name in _SHOWN_RAW or name in _RCDATA):
            self.raw(name, full.group())

    def raw(self, name: bytes, full_name: bytes) -> None:
        """Skip or write the content of an element that contains no tags."""
        start, stop = self.at, len(self.data)
        if name == b"script":
            stop = self.find_script_end()
        elif name != b"plaintext":
            stop = self.find_end_tag(full_name)
        self.at = stop
        if name not in _RAW and self.shown:
            self.write(start, stop, raw=name in _SHOWN_RAW)
        if name == b"style" and not self.sheet and b"background" in self.data[start:stop].lower():
            self.sheet = True
            self.judge()

    def find_script_end(self) -> int:
        """Find the end of a script; within <!--, a nested <script> hides the next </script>."""
        state, size, at = 0, len(self.data), self.at  # plain, escaped, double-escaped
        while mark := _script_end.search(self.data, at):
            word, at = mark.group(), mark.end()
            if word == b"<!--":
                state = state or 1
                at -= 2  # these hyphens may close the comment
            elif word == b"-->":
                state = 0
            elif mark.group(1):
                if state < 2:
                    return mark.start()
                state = 1 if at < size else 2
            elif state == 1 and at < size:
                state = 2
        return size

    def comment(self) -> None:
        data, at = self.data, self.at + 4
        if data.startswith(b">", at):
            self.at = at + 1
        elif data.startswith(b"->", at):
            self.at = at + 2
        else:
            plain, other = data.find(b"-->", at), -1
            other = data.find(b"--!>", at, len(data) if plain < 0 else plain)
            if other >= 0:
                self.at = other + 4
            else:
                self.at = plain + 3 if plain >= 0 else len(data)

    def run(self) -> None:
        data, size = self.data, len(self.data)
        while self.at < size:
            at = data.find(b"<", self.at)
            if at < 0:
                at = size
            if self.shown and at > self.at:
                self.write(self.at, at)
            self.at = at
            second, third = data[at + 1 : at + 2], data[at + 2 : at + 3]
            if at == size:
                break
            if (second and second in _LETTERS) or (second == b"/" and third and third in _LETTERS):
                self.tag()
            elif data.startswith(b"<!--", at):
                self.comment()
            elif data.startswith(b"<![CDATA[", at) and self.open and self.open[-1][1]:
                stop = data.find(b"]]>", at + 9)
                self.at = size if stop < 0 else stop + 3
                if self.shown:
                    self.write(at + 9, size if stop < 0 else stop, raw=True)
            elif second in (b"!", b"?") or (second == b"/" and third):
                bracket = data.find(b">", at)
                self.at = bracket + 1 if bracket >= 0 else size
            else:
                if self.shown:
                    self.put(b"<")
                self.at = at + 1
