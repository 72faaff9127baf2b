"""One message to one score: without numpy, in milliseconds.

The same functions serve `surebayes.Filter`, so a score is the same to the last bit whichever way it is asked for.
What a model is here: the scoring part of a filter's manifest (views, experts, pool weights, thresholds), and for each
view's columns the counts of documents by class, from the mapped file of tables or from memory.
"""

import os
from math import exp

from surebayes.errors import BadModel
from surebayes.kernels import kernel
from surebayes.mail.header_tokens import header_columns, header_tokens
from surebayes.mail.message import MAX_BYTES, Message, fingerprint_of, read_message
from surebayes.persist.manifest import read_manifest

try:
    from surebayes.kernels._lookup import counts_at, opinions
except ImportError:
    from surebayes.kernels.lookup_twin import counts_at, opinions

KIND = "filter"
UNIT = 2.0**-40
"""Pool weights are whole numbers of this unit, so that what a message added can be taken back exactly."""

MAX_WORD_CHARACTERS = 20_000
"""Characters of a text that word views read: a longer one adds nothing but time."""


# ---------------------------------------------------------------------- the document


class Document:
    """What a filter sees of a document: `raw` bytes, `text`, header `tokens` and a `fingerprint`, each when asked for.

    Parameters
    ----------
    content : bytes or str
        A mail (str is taken as its source), or a text.
    reader : {"mail", "text"}
        Which of the two it is.
    """

    __slots__ = ("_content", "_raw", "message", "text")

    def __init__(self, content: "bytes | str", reader: str) -> None:
        if not isinstance(content, (bytes, str)):
            if not isinstance(content, (bytearray, memoryview)):
                raise TypeError(f"A document is bytes or str. Got {type(content).__name__} instead.")
            content = bytes(content)
        self._raw: bytes | None = None
        self.message: Message | None = None
        if reader == "mail":
            self._content = raw = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
            self.message = read_message(raw)
            self.text = self.message.subject + "\n" + self.message.text
            return
        if isinstance(content, str):
            self.text, self._raw = content, content[:MAX_BYTES].encode("utf-8", "surrogatepass")
        else:
            self._raw = content[:MAX_BYTES]
            self.text = self._raw.decode("utf-8", "replace")
        self._content = b""

    @property
    def raw(self) -> bytes:
        """The start of a mail as views of raw bytes read it, or the text's bytes."""
        if self._raw is None:
            self._raw = plain_head(self._content)
        return self._raw

    @property
    def tokens(self) -> "list[str]":
        """The header tokens of a mail; a text has none."""
        return [] if self.message is None else header_tokens(self.message)

    @property
    def fingerprint(self) -> str:
        """What names the content, whatever a mail server did to its envelope."""
        return fingerprint_of(self.text) if self.message is None else self.message.fingerprint


def plain_head(raw: bytes, size: int = 65536) -> bytes:
    r"""Return the start of a mail as views of bytes read it: line ends ``\n``, no verdicts of filters in its header.

    The copy that a user teaches has gone through a mail server: other line ends, and the header fields that this
    filter added when it judged the mail.

    Examples
    --------
    >>> plain_head(b"Subject: a\r\nX-Surebayes-Label: spam\r\n\r\nbody\r\n")
    b'Subject: a\n\nbody\n'
    """
    raw = raw[:size]
    mail = kernel("mail")
    return mail.without_fields(raw.replace(b"\r\n", b"\n") if b"\r" in raw else raw, mail.FILTER_FIELDS)


# ---------------------------------------------------------------------- columns, counts, opinions


_analyzers: dict = {}


def _analyzer(view: dict) -> "object":
    key = view["kind"], view["low"], view["high"], view["max_bytes"]
    found = _analyzers.get(key)
    if found is None:
        make = kernel().Analyzer
        if view["kind"] == "bytes":
            found = make("bytes", view["low"], view["high"], max_bytes=view["max_bytes"])
        else:
            found = make("word", view["low"], view["high"], shortest=1)
        _analyzers[key] = found
    return found


def _seen(view: dict, document: Document) -> "bytes | str":
    """Give what a view reads of a document."""
    if view["kind"] == "bytes":
        seen = document.raw if view["part"] == "raw" else document.text[: view["max_bytes"]]
        return seen if isinstance(seen, bytes) else seen.encode("utf-8", "surrogatepass")
    seen = document.text if view["part"] == "text" else document.raw.decode("utf-8", "replace")
    if len(seen) > MAX_WORD_CHARACTERS:
        seen = seen[:MAX_WORD_CHARACTERS]
    return seen if seen.isascii() else seen.encode("utf-8", "replace").decode()  # lone surrogates become "?"


def rows_of(view: dict, documents: "list[Document]") -> "list[bytes]":
    """Give the hashed columns of documents in one view: for each ascending uint32, each once."""
    width, tokens = view["width"], None
    if view["tokens"]:
        tokens = [header_columns(one.message, width) if one.message is not None else b"" for one in documents]
    seen = [_seen(view, document) for document in documents]
    lengths, columns = kernel().hash_rows(_analyzer(view), width, seen, tokens)
    flat, rows, start = bytes(columns), [], 0
    for length in memoryview(lengths).cast("B").cast("I"):
        rows.append(flat[start : start + 4 * length])
        start += 4 * length
    return rows


def columns_of(view: dict, document: Document) -> bytes:
    """Give the hashed columns of one document in one view."""
    width, tokens = view["width"], None
    if view["tokens"]:
        tokens = [header_columns(document.message, width) if document.message is not None else b""]
    return bytes(kernel().hash_rows(_analyzer(view), width, [_seen(view, document)], tokens)[1])


def contrasts_of(classes: "list[str]") -> "list[int]":
    """Give the classes that have a score of their own: the second of two, else each."""
    return [1] if len(classes) == 2 else list(range(len(classes)))


def experts_of(view: dict) -> "tuple[tuple, ...]":
    """Give the experts of a view as `opinions` takes them."""
    return tuple([(expert["smoothing"], expert["top"] or 0) for expert in view["experts"]])


def questions_of(
    scoring: dict, copies: "tuple[int, float] | None" = None, experts: "list[tuple] | None" = None
) -> "list[list[tuple]]":
    """Give for each contrast and view what `opinions` has to be told besides the counts, and how many experts answer.

    Parameters
    ----------
    scoring : dict
        The scoring part of a manifest.
    copies : (class, number), optional
        As if the document had been learnt so many times more as that class.
    experts : list, optional
        What `experts_of` says of each view, where it is known.
    """
    documents, classes = scoring["documents"], len(scoring["classes"])
    result = []
    experts = [experts_of(view) for view in scoring["views"]] if experts is None else experts
    for c in contrasts_of(scoring["classes"]):
        extra = (copies[1], 0.0) if copies and copies[0] == c else (0.0, copies[1] if copies else 0.0)
        silent = not copies and (documents[c] == 0 or sum(documents) == documents[c])
        own = []
        for view, of_view in zip(scoring["views"], experts):
            inside, all_ = view["totals"][c], sum(view["totals"])
            asked = (classes, c, float(inside), float(all_ - inside), float(view["alive"]), True, *extra, of_view)
            own.append((len(of_view), None if silent else asked))
        result.append(own)
    return result


def answers(questions: "list[list[tuple]]", counts: "list") -> "list[list[float]]":
    """Ask every expert of every view: a list of opinions for each contrast.

    Parameters
    ----------
    questions : list
        As `questions_of` gives them.
    counts : list of buffers
        For each view the counts of the document's columns.
    """
    result = []
    for own in questions:
        said: list[float] = []
        for (experts, asked), seen in zip(own, counts):
            # no opinion on a class before there is another to tell it from
            said += [0.0] * experts if asked is None else opinions(seen, *asked)
        result.append(said)
    return result


def opinions_of(scoring: dict, counts: "list", copies: "tuple[int, float] | None" = None) -> "list[list[float]]":
    """Ask every expert of every view about one document."""
    return answers(questions_of(scoring, copies), counts)


def pooled(scoring: dict, opinions: "list[list[float]]") -> "list[float]":
    """Weigh the opinions: one score for each contrast."""
    scores = []
    for weights, bias, said in zip(scoring["weights"], scoring["bias"], opinions):
        total = bias
        for units, value in zip(weights, said):
            if units > 0:
                total += units * UNIT * value
        scores.append(total)
    return scores


def logistic(score: float) -> float:
    """Give 1 / (1 + exp(-score)) without overflow.

    Examples
    --------
    >>> logistic(0.0), logistic(-1000.0), logistic(1000.0)
    (0.5, 0.0, 1.0)
    """
    if score >= 0:
        return 1.0 / (1.0 + exp(-score))
    power = exp(score) if score > -745 else 0.0
    return power / (1.0 + power)


def decide(scoring: dict, scores: "list[float]") -> "tuple[str, float, float, float]":
    """Give label, score, threshold and probability of the label's score.

    Two classes: the second where the score is above its threshold. More: the best of the classes that have documents
    and whose score is above their threshold (where they have one); the first class if there is none.
    """
    classes, thresholds = scoring["classes"], scoring["thresholds"]
    if len(classes) == 2:
        score, threshold = scores[0], thresholds.get(classes[1], 0.0)
        slope, shift, floor = scoring["probability"] or (1.0, 0.0, 0.0)
        chance = min(max(logistic(slope * score + shift), floor), 1.0 - floor)
        return classes[score > threshold], score, threshold, chance
    able = [
        c
        for c, name in enumerate(classes)
        if scoring["documents"][c] and (name not in thresholds or scores[c] > thresholds[name])
    ]
    best = max(able, key=lambda c: (scores[c], -c)) if able else 0
    known = [s for s, n in zip(scores, scoring["documents"]) if n] or [0.0]
    top = max(known)
    share = exp(scores[best] - top) / sum(exp(s - top) for s in known) if able else 0.0
    return classes[best], scores[best], thresholds.get(classes[best], 0.0), share


# ---------------------------------------------------------------------- a model from its files alone


class MappedModel:
    """A filter's model as `surebayes filter` uses it: the manifest, and the mapped file of tables.

    The manifest is checked whole, the tables block by block as a message touches them.
    """

    def __init__(self, folder: str) -> None:
        import mmap

        for attempt in range(5):
            manifest = read_manifest(folder, KIND)
            try:
                self.scoring, entry = manifest["scoring"], manifest["files"]["tables"]
                self.x_spam = bool(manifest.get("config", {}).get("x_spam"))
                name, size = entry["file"], entry["size"]
                if os.path.basename(name) != name or not name:
                    raise BadModel(f"The manifest names a file outside its folder: {name!r}.")
                with open(os.path.join(folder, name), "rb") as file:
                    if os.fstat(file.fileno()).st_size != size:
                        raise BadModel(f"{name} in {folder!r} is truncated or not the file that the manifest means.")
                    self.file = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
                return
            except FileNotFoundError:  # a writer replaced it since the manifest was read
                if attempt == 4:
                    raise BadModel(f"{name} in {folder!r} is missing. Restore it from a copy.") from None
            except (KeyError, TypeError):
                raise BadModel(f"The manifest in {folder!r} lacks what judging needs.") from None

    def counts(self, view: dict, columns: bytes) -> bytes:
        """Look the columns of a view up."""
        table, classes = view["table"], len(self.scoring["classes"])
        places = [table[name] for name in ("n", "entries", "entry_crcs", "fences", "fence_crcs")]
        try:
            return counts_at(self.file, columns, classes, (classes - 1).bit_length(), *places)
        except ValueError as error:
            raise BadModel(f"The tables of the model are damaged: {error}. Restore them from a copy.") from None

    def scores(self, content: "bytes | str") -> "list[float]":
        """Score a document: one number for each contrast."""
        document = Document(content, self.scoring["reader"])
        counts = [self.counts(view, columns_of(view, document)) for view in self.scoring["views"]]
        return pooled(self.scoring, opinions_of(self.scoring, counts))


__all__ = ["Document", "MappedModel", "columns_of", "decide", "opinions_of", "pooled"]
