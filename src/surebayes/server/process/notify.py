"""What systemd is told: ready, stopping (sd_notify over a datagram socket, without a library)."""

from __future__ import annotations

import contextlib
import os
import socket


def notify(state: str) -> bool:
    """Send a state such as ``READY=1`` to systemd; return whether somebody listens.

    Examples
    --------
    >>> notify("READY=1")  # not started by systemd
    False
    """
    where = os.environ.get("NOTIFY_SOCKET", "")
    if not where:
        return False
    address = "\0" + where[1:] if where.startswith("@") else where
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.sendto(state.encode(), address)
        return True
    return False
