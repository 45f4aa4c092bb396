import socket
import threading

import pytest

from edgeopt import errors
from edgeopt.fleet.client import Agent

STATUS = "GET /api/v1/status"


@pytest.fixture
def listener():
    """A port that takes connections and then does as it is told."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def test_nobody_listens():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(errors.MissingError, match=f"No agent listens at http://127.0.0.1:{port}") as caught:
        Agent(f"127.0.0.1:{port}").status()
    assert "edgeopt-agent run" in caught.value.hint


def test_no_such_host():
    with pytest.raises(errors.MissingError, match=r"no host named 'nowhere\.invalid'"):
        Agent("nowhere.invalid").status()


def test_an_agent_that_does_not_answer(listener):
    with pytest.raises(errors.MissingError, match=r"does not answer \(waited 0.1 s\)"):
        Agent(f"127.0.0.1:{listener.getsockname()[1]}", timeout_s=0.1).status()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (b"", "ended the connection"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", "ended the connection"),
        (b"SSH-2.0-OpenSSH_9\r\n", "not an edgeopt agent"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "not an edgeopt agent"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 6\r\n\r\n<html>", "not an edgeopt agent"),
        (b'HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{"state": 5', "not an edgeopt agent"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n\xff\xfe", "not an edgeopt agent"),
    ],
)
def test_what_is_no_agent_or_goes_away(listener, words, says):
    def answer():
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(words)

    thread = threading.Thread(target=answer)
    thread.start()
    with pytest.raises(errors.MissingError, match=says) as caught:
        Agent(f"127.0.0.1:{listener.getsockname()[1]}").status()
    thread.join()
    assert caught.value.hint


@pytest.mark.parametrize(
    ("status", "kind", "exit_code"),
    [
        (400, errors.BundleError, 3),
        (401, errors.InputError, 3),
        (403, errors.VerificationError, 6),
        (409, errors.ConstraintError, 4),
        (413, errors.ConstraintError, 4),
        (507, errors.DiskFullError, 3),
        (404, errors.MissingError, 5),
        (500, errors.MissingError, 5),
    ],
)
def test_what_an_agent_refuses_keeps_its_words(scripted, status, kind, exit_code):
    document = {"error": {"code": "so-and-so", "message": "No.", "hint": "Try otherwise.", "new": 1}}
    server = scripted({STATUS: (status, document)})
    with pytest.raises(kind) as caught:
        Agent(server.url).status()
    error = caught.value
    assert (error.message, error.hint, error.code, error.exit_code) == (
        "No.",
        "Try otherwise.",
        "so-and-so",
        exit_code,
    )


def test_a_refusal_in_the_words_of_the_inference_protocol(scripted):
    server = scripted({STATUS: (400, {"error": "No."})})
    with pytest.raises(errors.BundleError, match=r"^No\.$"):
        Agent(server.url).status()
