import http.client
import json
import subprocess
import sys


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
