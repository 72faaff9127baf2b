"""Signed receipts: proof that a message is, or is no longer, among the lessons of a filter.

A receipt names the message by its fingerprint and the filter's lessons by their digest, and has an Ed25519 signature by
the folder's key. Anyone can check the signature offline; an auditor with the journal computes the digest again.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from surebayes.errors import BadInput
from surebayes.filter.store.journal import Journal
from surebayes.filter.store.lesson_digest import Replayed, Scope, canonical, replayed
from surebayes.persist.folder import put

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from surebayes.filter.session import Session

KEY_NAME = "receipts.key"
"""The file with the private key of a folder: 32 bytes."""
VERSION = 1
_PURPOSE = b"surebayes receipt 1\n"
STATEMENTS = ("learnt", "set aside", "absent")
_FIELDS: dict[str, Any] = {
    "receipt": int, "statement": str, "fingerprint": str, "label": (str, type(None)), "content": bool, "time": str,
    "journal": str, "row": int, "model": str, "lessons": int, "digest": str, "reader": str, "classes": list,
    "views": str, "unjournaled": (str, type(None)), "key": str, "signature": str,
}  # fmt: skip
_HEX = {"fingerprint": 32, "digest": 64, "views": 64, "unjournaled": 64, "key": 64, "signature": 128}


def lesson_digest(session: Session) -> dict[str, Any]:
    """See `Filter.lesson_digest`."""
    with session.mutex:
        scope, uncovered = scope_of(session)
        lessons = replayed(session.reading(refresh=True))
    digest = None if uncovered else lessons.digest(scope)
    return {
        "digest": digest, "lessons": lessons.lessons, "row": lessons.row, **scope.to_json(), "uncovered": uncovered,
        "key": public_key(session.path),
    }  # fmt: skip


def receipts(session: Session, fingerprints: Sequence[str]) -> list[dict[str, Any]]:
    """See `Filter.receipts`."""
    with session.exclusive():
        state = session.ready_to_write()
        journal = session.open_journal()
        scope, uncovered = scope_of(session)
        if uncovered:
            raise ValueError(
                f"No receipt for {session.path}: {uncovered:,} of its documents were counted without a fingerprint "
                "(imported counts), so no digest covers its lessons. Train a new filter with a journal."
            )
        key = _private_key(session.path)
        lessons = replayed(journal, of_interest=fingerprints)
        facts = {
            "receipt": VERSION, "time": datetime.now(UTC).isoformat(timespec="seconds"), "journal": journal.id,
            "row": lessons.row, "model": state.model_version, "lessons": lessons.lessons,
            "digest": lessons.digest(scope), **scope.to_json(), "key": _public_hex(key),
        }  # fmt: skip
        listed: list[dict[str, Any]] = []
        for fingerprint in fingerprints:
            statement, label = _state_of(lessons, fingerprint)
            if statement == "absent" and state.learnt.class_of(fingerprint) is not None:
                raise ValueError(
                    f"No receipt for the message {fingerprint}: it was learnt without a journal, where neither its "
                    "presence nor its absence can be shown."
                )
            about = {"fingerprint": fingerprint, "label": label, "content": bool(journal.rows_of(fingerprint))}
            listed.append(signed({**facts, "statement": statement, **about}, key))
    return listed


def scope_of(session: Session) -> tuple[Scope, int]:
    """Return the scope of a filter's digest, and the number of documents without a fingerprint; `mutex` is held."""
    state = session.fresh_state()
    views = [view.to_json() for view in state.engine.views]
    fingerprinted = sum(state.known["learn"].values()) + len(state.learnt)
    uncovered = abs(sum(state.engine.documents) - fingerprinted)
    return Scope.of(state.engine.reader, state.names, views, state.learnt.to_bytes()), uncovered


def _state_of(lessons: Replayed, fingerprint: str) -> tuple[str, str | None]:
    return lessons.states.get(fingerprint, ("absent", None))


# ---------------------------------------------------------------------- keys and signatures


def public_key(folder: str) -> str | None:
    """Return a folder's public key in hexadecimal digits; None before its first receipt."""
    try:
        with open(os.path.join(folder, KEY_NAME), "rb") as file:
            seed = file.read(33)
    except OSError:
        return None
    return _public_hex(_key_of(seed, folder))


def _private_key(folder: str) -> Ed25519PrivateKey:
    """Return a folder's key, created if it is missing; the folder's lock is held."""
    path = os.path.join(folder, KEY_NAME)
    try:
        with open(path, "rb") as file:
            return _key_of(file.read(33), folder)
    except FileNotFoundError:
        seed = os.urandom(32)
        key = _key_of(seed, folder)
        put(folder, KEY_NAME, seed)
        return key


def _key_of(seed: bytes, folder: str) -> Ed25519PrivateKey:
    if len(seed) != 32:
        raise BadInput(f"{os.path.join(folder, KEY_NAME)} is not a key of 32 bytes. Restore it from a copy.")
    return _ed25519().Ed25519PrivateKey.from_private_bytes(seed)  # type: ignore[no-any-return]


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise ImportError("Receipts need cryptography: pip install 'surebayes[receipts]'") from error
    return ed25519


def check_extra() -> None:
    """Raise ImportError, with the command that installs it, if the extra `receipts` is missing."""
    _ed25519()


def _public_hex(key: Ed25519PrivateKey) -> str:
    return key.public_key().public_bytes_raw().hex()


def signed(facts: Mapping[str, Any], key: Ed25519PrivateKey) -> dict[str, Any]:
    """Return a receipt: the facts with a signature over all of them."""
    return {**facts, "signature": key.sign(_PURPOSE + canonical(dict(facts))).hex()}


# ---------------------------------------------------------------------- verifying


def parse_receipt(line: str | bytes) -> dict[str, Any]:
    """Return a receipt from its JSON; BadInput if it isn't one."""
    try:
        receipt = json.loads(line, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"Not a receipt: {error}.") from None
    if not isinstance(receipt, dict) or receipt.get("receipt") != VERSION or type(receipt["receipt"]) is not int:
        raise BadInput(f"Not a receipt of version {VERSION}. Upgrade surebayes if a later release wrote it.")
    if receipt.keys() != _FIELDS.keys():
        differing = sorted(str(name) for name in receipt.keys() ^ _FIELDS.keys())
        raise BadInput(f"Not a receipt: missing or unknown fields: {', '.join(differing)}.")
    for name, kind in _FIELDS.items():
        value = receipt[name]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise BadInput(f"Not a receipt: {name} has a value of the wrong type.")
        if name in _HEX and value is not None and not re.fullmatch(f"[0-9a-f]{{{_HEX[name]}}}", str(value)):
            raise BadInput(f"Not a receipt: {name} must be {_HEX[name]} hexadecimal digits.")
    if receipt["statement"] not in STATEMENTS or not all(isinstance(name, str) for name in receipt["classes"]):
        raise BadInput("Not a receipt: unknown statement, or classes that aren't names.")
    return receipt


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError("a name occurs twice")
    return dict(pairs)


def problem_of(receipt: Mapping[str, Any], key: str | None = None, fingerprint: str | None = None) -> str | None:
    """Return the reason that a receipt is invalid; None for a valid one.

    Parameters
    ----------
    receipt : mapping
        The result of `parse_receipt`.
    key : str, optional
        The signer's public key, from a trusted source. Without it, any signer is accepted.
    fingerprint : str, optional
        The message that the receipt must name.
    """
    facts = {name: value for name, value in receipt.items() if name != "signature"}
    ed25519 = _ed25519()
    from cryptography.exceptions import InvalidSignature

    try:
        public = ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(receipt["key"]))
        public.verify(bytes.fromhex(receipt["signature"]), _PURPOSE + canonical(facts))
    except (InvalidSignature, ValueError):
        return "the signature does not match: the receipt was forged or altered"
    if key is not None and receipt["key"] != key.strip().lower():
        return f"another key signed it: {receipt['key']}"
    if fingerprint is not None and receipt["fingerprint"] != fingerprint:
        return f"the receipt is for the message {receipt['fingerprint']}, not for {fingerprint}"
    return None


def contradiction(receipt: Mapping[str, Any], folder: str) -> str | None:
    """Return the contradiction between a journal and a receipt; None if the journal confirms the receipt.

    The digest is computed again from the rows up to the receipt's. Only `journal.sqlite` is read.
    """
    journal = Journal(folder, write=False)
    try:
        if journal.id != receipt["journal"]:
            return f"the receipt is for the journal {receipt['journal']}, not for {journal.id}"
        last = journal.last()
        if last < receipt["row"]:
            return f"the journal ends at row {last:,}, before the receipt's row {receipt['row']:,}"
        fingerprint = receipt["fingerprint"]
        lessons = replayed(journal, receipt["row"], [fingerprint])
        has_content = any(event.seq <= receipt["row"] for event in journal.rows_of(fingerprint))
    finally:
        journal.close()
    scope = Scope(receipt["reader"], tuple(receipt["classes"]), receipt["views"], receipt["unjournaled"])
    if _state_of(lessons, fingerprint) != (receipt["statement"], receipt["label"]):
        return f"at row {receipt['row']:,} of the journal the message is {_state_of(lessons, fingerprint)[0]}"
    if (lessons.lessons, lessons.digest(scope)) != (receipt["lessons"], receipt["digest"]):
        return "the journal's lessons have another digest than the receipt"
    if has_content and not receipt["content"] and receipt["statement"] == "absent":
        return "the journal still has the content of the message"
    return None


def read_receipts(lines: Iterable[str]) -> list[dict[str, Any]]:
    """Return the receipts of a file, one JSON object per line; BadInput names a line that isn't one."""
    found = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                found.append(parse_receipt(line))
            except BadInput as error:
                raise BadInput(f"Line {number}: {error}") from None
    return found
