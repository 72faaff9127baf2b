"""A mail server that asks a milter about its mail."""

import struct

from surebayes.server.mail import milter
from surebayes.server.mail.milter import length_of, packet

OFFER = struct.pack("!III", 6, 0x1FF, 0x1FFFFF)


class MailServer:
    """The other side, as postfix speaks it."""

    def __init__(self, connection, offer=OFFER):
        self.connection = connection
        self.send(b"O", offer)
        letter, data = self.receive()
        assert letter == b"O"
        self.version, self.actions, self.steps = struct.unpack("!III", data)

    def send(self, letter, data=b""):
        self.connection.sendall(packet(letter, data))

    def receive(self):
        start = self.connection.recv(4, 256)
        assert len(start) == 4, "the filter has gone"
        body = self.connection.recv(length_of(start), 256)
        return body[:1], body[1:]

    def deliver(self, mail):
        """Send a message; return the packets at its end."""
        head, _, body = mail.replace(b"\r\n", b"\n").partition(b"\n\n")
        for field in head.replace(b"\n\t", b" ").replace(b"\n ", b" ").split(b"\n"):
            name, _, value = field.partition(b":")
            self.send(b"L", name + b"\0" + value.strip() + b"\0")
            if not self.steps & milter.NO_REPLY_TO_HEADER:
                assert self.receive() == (b"c", b"")
        self.send(b"N")
        if not self.steps & milter.NO_REPLY_TO_END_OF_HEADER:
            assert self.receive() == (b"c", b"")
        for start in range(0, len(body), 65535):
            self.send(b"B", body[start : start + 65535])
            letter, _ = self.receive()
            if letter == b"s":
                break
            assert letter == b"c"
        return self.end()

    def end(self, data=b""):
        self.send(b"E", data)
        packets = [self.receive()]
        while packets[-1][0] not in b"acdrty":
            packets.append(self.receive())
        return packets
