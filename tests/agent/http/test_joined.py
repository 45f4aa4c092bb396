import asyncio
import socket

from edgeopt_agent.http.joined import JoinedTransport

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n"


class Recorder:
    """What reaches the wire, one entry a packet."""

    def __init__(self):
        self.packets = []

    def write(self, data):
        self.packets.append(bytes(data))

    def writelines(self, parts):
        self.packets.append(b"".join(parts))

    def close(self):
        self.packets.append("closed")

    def is_closing(self):
        return "closed" in self.packets


def written(use):
    async def run():
        recorder = Recorder()
        use(JoinedTransport(recorder, asyncio.get_running_loop()))
        at_once = list(recorder.packets)
        await asyncio.sleep(0)
        return at_once, recorder.packets

    return asyncio.run(run())


def test_head_and_body_are_one_packet_and_nothing_follows_later():
    def use(transport):
        transport.write(HEAD)
        transport.write(b"body")
        transport.write(HEAD)
        transport.write(memoryview(b"HTTP"))
        transport.write(b"more")

    at_once, later = written(use)
    assert at_once == later == [HEAD + b"body", HEAD + b"HTTP", b"more"]


def test_a_head_without_a_body_goes_on_its_own():
    at_once, later = written(lambda transport: transport.write(HEAD))
    assert (at_once, later) == ([], [HEAD])


def test_closing_loses_nothing():
    def use(transport):
        transport.write(HEAD)
        transport.close()
        assert transport.is_closing()

    assert written(use)[1] == [HEAD, "closed"]


def test_a_real_answer_is_one_packet(serving):
    with socket.create_connection(("127.0.0.1", serving().port)) as client:
        client.sendall(b"GET /v2 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        head, _, body = client.recv(65536).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert body.endswith(b"}")
