import asyncio
import logging
import socket

import pytest
from uvicorn.protocols.http.flow_control import FlowControl

from edgeopt_agent.http.cycle import Cycle

START = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]}
BODY = {"type": "http.response.body", "body": b"body"}
HEAD = b"HTTP/1.1 200 OK\r\nserver: edgeopt-agent\r\ncontent-length: 4\r\n\r\n"


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


def written(app, method="GET", keep_alive=True):
    async def run():
        recorder = Recorder()
        cycle = Cycle(
            scope={"type": "http", "method": method},
            transport=recorder,
            flow=FlowControl(recorder),
            logger=logging.getLogger(__name__),
            access_logger=logging.getLogger(__name__),
            access_log=False,
            default_headers=[(b"server", b"edgeopt-agent")],
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=keep_alive,
            on_response=lambda: None,
        )
        await cycle.run_asgi(app)
        return recorder.packets

    return asyncio.run(run())


def sending(*messages):
    async def app(_scope, _receive, send):
        for message in messages:
            await send(message)

    return app


def test_head_and_body_are_one_packet():
    assert written(sending(START, BODY)) == [HEAD + b"body"]


def test_an_answer_to_head_has_no_body():
    assert written(sending(START, BODY), method="HEAD") == [HEAD]


def test_a_length_is_added_where_none_is_stated():
    packets = written(sending({**START, "headers": []}, BODY))
    assert packets == [HEAD + b"body"]
    (packet,) = written(sending({**START, "status": 204, "headers": []}, {**BODY, "body": b""}))
    assert b"content-length" not in packet


@pytest.mark.parametrize("keep_alive", [True, False])
def test_a_connection_closes_where_either_side_wants_it(keep_alive):
    headers = [*START["headers"], (b"connection", b"close")] if keep_alive else START["headers"]
    packets = written(sending({**START, "headers": headers}, BODY), keep_alive=keep_alive)
    assert packets == [HEAD[:-2] + b"connection: close\r\n\r\nbody", "closed"]


def test_a_body_in_pieces_follows_its_head():
    packets = written(sending(START, {**BODY, "body": b"bo", "more_body": True}, {**BODY, "body": b"dy"}))
    assert b"".join(packets) == HEAD + b"body"


def test_a_large_body_is_not_copied_and_arrives_whole():
    large = b"x" * 100_000
    start = {**START, "headers": [(b"content-length", b"100000")]}
    (packet,) = written(sending(start, {**BODY, "body": memoryview(large)}))
    assert packet.endswith(b"\r\n\r\n" + large)


@pytest.mark.parametrize(
    "messages",
    [
        [START],
        [{**START, "headers": [(b"content-length", b"5")]}, BODY],
        [{**START, "headers": [(b"x", b"1\r\nevil: 1")]}, BODY],
    ],
)
def test_a_wrong_answer_becomes_an_error(messages):
    (packet, *_) = written(sending(*messages))
    assert packet.startswith(b"HTTP/1.1 500")
    assert b"evil" not in packet


def test_a_real_answer_is_one_packet(serving):
    with socket.create_connection(("127.0.0.1", serving().port)) as client:
        client.sendall(b"GET /v2 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        head, _, body = client.recv(65536).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert body.endswith(b"}")
