"""Plain text as in the papers: articles without headers, web pages without tags, and count matrices."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import unescape
from typing import TYPE_CHECKING

from surebayes.research.corpora.formats import head_and_body, header

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


def newsgroup_text(raw: bytes, subject: bool = False) -> str:
    r"""Return the body of an article, optionally with its subject; further header fields would reveal the group.

    Examples
    --------
    >>> from surebayes.corpora import newsgroup_text
    >>> article = b"Newsgroups: sci.space\nSubject: Re: Moon\n\nIt is far.\n"
    >>> newsgroup_text(article), newsgroup_text(article, subject=True)
    ('It is far.\n', 'Re: Moon\nIt is far.\n')
    """
    head, body = head_and_body(raw)
    text = body.decode("latin-1")
    return f"{header(head, 'Subject') or ''}\n{text}" if subject else text


def strip_tags(html: str) -> str:
    """Return the text of a page without tags, comments, scripts and styles; entities become characters.

    The time is linear in the length for any page.

    Examples
    --------
    >>> from surebayes.corpora import strip_tags
    >>> strip_tags("<p>Caf&eacute;<!-- x --><b>open</b></p>").split()
    ['Café', 'open']
    """
    small, pieces, place = html.lower(), [], 0
    while (start := html.find("<", place)) >= 0:
        pieces.append(html[place:start])
        if html.startswith("<!--", start):
            end, skip = html.find("-->", start + 4), 3
        elif small.startswith(("<script", "<style"), start):
            end, skip = small.find("</script" if small[start + 2] == "c" else "</style", start), 0
        else:
            end, skip = html.find(">", start), 1
        if end < 0:
            return unescape(" ".join(pieces))
        # The next iteration drops the closing tag of a script like any other tag.
        place = end + skip
        pieces.append("")
    pieces.append(html[place:])
    return unescape(" ".join(pieces))


def web_text(raw: bytes) -> str:
    """Return the text of a WebKB page without its HTTP headers and tags."""
    head, body = head_and_body(raw)
    # A page without headers starts with its HTML.
    page = body if re.match(rb"[\w-]+:|HTTP/", head) else raw
    return strip_tags(page.decode("latin-1"))


def count_matrix(documents: Sequence[str], width: int | None = None) -> csr_matrix:
    """Return ``term:count`` documents (ECML/PKDD 2006) as a sparse matrix of counts; columns are term numbers.

    Parameters
    ----------
    documents : sequence of str
        For example ``load("ecml2006_a").documents``.
    width : int, optional
        The number of columns; by default the largest term number plus one. A larger term number is an error.

    Examples
    --------
    >>> from surebayes.corpora import count_matrix
    >>> count_matrix(["1:2 3:1", "", "0:5"]).toarray().tolist()
    [[0, 2, 0, 1], [0, 0, 0, 0], [5, 0, 0, 0]]
    """
    import numpy as np
    from scipy.sparse import csr_matrix

    rows = [document.replace(":", " ").split() for document in documents]
    flat = np.array([int(number) for row in rows for number in row], dtype=np.int64).reshape(-1, 2)
    ends = np.cumsum([0, *(len(row) // 2 for row in rows)])
    largest = int(flat[:, 0].max()) + 1 if len(flat) else 0
    if width is not None and largest > width:
        raise ValueError(
            f"The 'width' parameter must be at least {largest}, the largest term plus 1. Got {width} instead."
        )
    shape = (len(rows), largest if width is None else width)
    matrix = csr_matrix((flat[:, 1], flat[:, 0], ends), shape=shape)
    matrix.sum_duplicates()
    return matrix
