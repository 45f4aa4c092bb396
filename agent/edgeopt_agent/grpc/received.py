"""Bytes received so far on each connection of this process, which gRPC's library does not report."""

import os
import socket
import struct
from pathlib import Path
from urllib.parse import unquote

_TCP_INFO = struct.Struct("=128xQ")
"""`tcpi_bytes_received` in `struct tcp_info` of linux/tcp.h."""
_MAPPED = "::ffff:"


class ReceivedBytes:
    """Remembers the descriptors of connections, because each search looks at all that the process has."""

    def __init__(self) -> None:
        self._descriptors: dict[str, int] = {}

    def __call__(self, peers: set[str]) -> dict[str, int]:
        """Returns the bytes by connection; those that are not found are left out."""
        peers_by_address = {address_and_port(peer): peer for peer in peers}
        found: dict[str, int] = {}
        known = {self._descriptors[peer] for peer in peers if peer in self._descriptors}
        self._descriptors = {}
        self._search(known, peers_by_address, found)
        if len(found) < len(peers):
            try:
                descriptors = {int(each.name) for each in Path("/proc/self/fd").iterdir()}
            except OSError:
                return found
            self._search(descriptors - known, peers_by_address, found)
        return found

    def _search(
        self, descriptors: set[int], peers_by_address: dict[tuple[str, str], str], found: dict[str, int]
    ) -> None:
        for descriptor in descriptors:
            if len(found) == len(peers_by_address):
                return
            try:
                with socket.socket(fileno=os.dup(descriptor)) as each:
                    name = each.getpeername()
                    if not isinstance(name, tuple):
                        continue
                    peer = peers_by_address.get((name[0].removeprefix(_MAPPED), str(name[1])))
                    if peer is not None:
                        info = each.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
                        found[peer] = _TCP_INFO.unpack(info)[0]
                        self._descriptors[peer] = descriptor
            except (OSError, struct.error):
                continue  # no connection, or one that has just ended


def address_and_port(peer: str) -> tuple[str, str]:
    """Returns both parts of `ipv4:ADDRESS:PORT` or `ipv6:[ADDRESS]:PORT`, whose brackets may be escaped."""
    address, _, port = unquote(peer).partition(":")[2].rpartition(":")
    return address.strip("[]"), port
