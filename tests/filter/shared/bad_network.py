"""A network between hosts and a server that delays, holds back and cuts connections."""

import contextlib
import random
import socket
import threading
import time


class BadNetwork:
    """Forwards connections at a port of the loopback to a server's socket, with delays and cuts at random.

    Each direction of each connection is delayed on its own, so commits of different hosts change places, and a
    connection may break after a commit has arrived and before its answer has.
    """

    def __init__(self, path, seed):
        self.path, self.dice = path, random.Random(seed)
        self.delays = self.cuts = 0
        self.is_bad = True
        self._flows = threading.Event()
        self._flows.set()
        self._open = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            try:
                far.connect(self.path)
            except OSError:
                near.close()
                far.close()
                continue
            with self._lock:
                self._open.add((near, far))
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self._forward, args=(source, target, (near, far)), daemon=True).start()

    def _forward(self, source, target, pair):
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                with self._lock:
                    chance, seconds = self.dice.random(), self.dice.uniform(0.02, 0.4)
                if self.is_bad and chance < 0.02:
                    self.delays += 1
                    time.sleep(seconds)
                self._flows.wait()
                if self.is_bad and chance > 0.9995:
                    self.cuts += 1
                    break
                target.sendall(piece)
        self._end(pair)

    def _end(self, pair):
        with self._lock:
            self._open.discard(pair)
        for each in pair:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def cut(self):
        """Break some of the connections."""
        with self._lock:
            chosen = [pair for pair in self._open if self.dice.random() < 0.5]
        for pair in chosen:
            self.cuts += 1
            self._end(pair)

    @contextlib.contextmanager
    def held(self):
        """Hold all bytes back for a block."""
        self._flows.clear()
        try:
            yield
        finally:
            self._flows.set()

    def close(self):
        """Accept no connection any more, and break the rest."""
        self._listener.close()
        self._flows.set()
        for pair in list(self._open):
            self._end(pair)
