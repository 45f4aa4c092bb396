import http.client
import json
import socket
import subprocess
import sys

import pytest


def test_what_no_route_knows_gets_an_error_of_the_control_api(serving):
    connection = http.client.HTTPConnection(serving().place)
    for method, path, status, code in (
        ("GET", "/api/v1/nothing", 404, "not-found"),
        ("PUT", "/metrics", 405, "not-allowed"),
    ):
        connection.request(method, path)
        answer = connection.getresponse()
        error = json.loads(answer.read())["error"]
        assert (answer.status, error["code"]) == (status, code)
        assert error["message"].endswith("on this agent.")
        assert error["hint"]
    connection.close()


def test_the_agent_routes_bytes_and_never_loads_what_computes():
    heavy = ("numpy", "onnx", "onnxruntime", "openvino", "scipy", "rich")
    program = f"import sys, edgeopt_agent.service; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.fixture(scope="module")
def server(serving_all):
    return serving_all()


def talk(server, head):
    """The status, the headers and the document that bytes on the wire are answered with."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(head)
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        return answer.status, answer, json.loads(answer.read())


PATHS = ("/v2", "/v2/models/null/infer", "/metrics", "/api/v1/status")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("headers", "status", "words"),
    [
        ("Host: localhost\r\nOrigin: http://evil.example", 403, "from web pages"),
        ("Host: localhost\r\nSec-Fetch-Site: cross-site", 403, "from web pages"),
        ("Host: evil.example:8080", 403, "addressed as 'evil.example:8080'"),
        ("Host: localhost\r\nHost: evil.example", 400, "has 2 Host headers"),
        ("X-Nothing: 1", 400, "has no Host header"),
        ("Host: localhost\r\nTransfer-Encoding: gzip, chunked", 501, "'gzip, chunked' is not supported"),
        ("Host: localhost\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked", 501, "not supported"),
    ],
)
def test_what_a_web_page_or_a_smuggler_sends_is_refused_on_every_route(server, path, headers, status, words):
    found, answer, document = talk(server, f"POST {path} HTTP/1.1\r\n{headers}\r\n\r\n".encode())
    error = document["error"]
    assert (found, answer.getheader("connection")) == (status, "close")
    assert words in (error if path.startswith("/v2") else error["message"])


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "[::1]:8080"])
def test_the_names_of_the_device_itself_are_answered(server, host):
    assert talk(server, f"GET /v2 HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())[0] == 200


def test_nothing_is_redirected_to_where_a_host_header_says(server):
    status, answer, document = talk(server, b"GET /metrics/ HTTP/1.1\r\nHost: localhost:1\r\n\r\n")
    assert (status, answer.getheader("location")) == (404, None)
    assert "trailing slash" in document["error"]["hint"]


@pytest.mark.parametrize("path", ["/", "/v2/models"])
def test_a_path_that_leads_nowhere_says_where_the_routes_are(server, path):
    status, _answer, document = talk(server, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    assert status == 404
    assert "docs/agent.md lists the routes." in str(document)
