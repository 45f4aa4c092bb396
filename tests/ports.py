"""Ports for servers that a test starts."""

import random
import socket

# Below the ports that systems give to connections and to listeners without one, which other tests open at any
# time: a server that starts later, or starts again, finds its port as free as it was. A client that connects to
# such a port while nothing listens cannot be given the same one either, and so be connected to itself.
_PORTS = range(20_000, 32_000)
_random = random.SystemRandom()


def free_port():
    while True:
        port = _random.choice(_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
