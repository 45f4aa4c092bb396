"""The OpenAPI document against the code of the routes, a validator, and the answers of an agent."""

import ast
import json
import re
from contextlib import closing

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from openapi_spec_validator.validation.exceptions import OpenAPIValidationError
from websockets.sync.client import connect

from edgeopt.fleet.transport import connect as connection_to
from edgeopt_agent import tokens
from edgeopt_agent.http import completions, control, inference, metrics, openapi, telemetry, trials
from edgeopt_agent.http.access import needed_role
from edgeopt_agent.http.table import PREFIX, ROUTES
from edgeopt_agent.main import run

X = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}
# Asked of an agent with one model, in this order: how, and the status that comes.
REQUESTS = (
    ("GET", "/api/v1/device", None, 200),
    ("GET", "/api/v1/status", None, 200),
    ("GET", "/api/v1/status?model=none", None, 404),
    ("GET", "/api/v1/releases", None, 200),
    ("GET", "/api/v1/deployments/1", None, 200),
    ("GET", "/api/v1/deployments/99", None, 404),
    ("GET", "/api/v1/events?after=0", None, 200),
    ("GET", "/api/v1/events?afer=0", None, 400),
    ("GET", "/api/v1/openapi.json", None, 200),
    ("POST", "/api/v1/deploy", b"no bundle", 202),
    ("POST", "/api/v1/desired", {"bundle": "https://host/model.edgeopt", "digest": "none"}, 400),
    ("POST", "/api/v1/gc?dry_run=1", b"", 200),
    ("POST", "/api/v1/cancel", b"", 409),
    ("POST", "/api/v1/remove?model=none", b"", 404),
    ("POST", "/api/v1/pair", {"nonce": "", "proof": ""}, 409),
    ("GET", "/v2", None, 200),
    ("GET", "/v2/models/null", None, 200),
    ("GET", "/v2/models/none", None, 404),
    ("GET", "/v2/models/null/config", None, 200),
    ("GET", "/v2/models/null/stats", None, 200),
    ("GET", "/v2/models/stats", None, 200),
    ("POST", "/v2/repository/index", b"", 200),
    ("POST", "/v2/models/null/infer", {"inputs": [X]}, 200),
    ("POST", "/v2/models/null/infer", {"inputs": []}, 400),
    ("POST", "/api/v1/rollback", b"", 409),
    ("GET", "/v1/models", None, 200),
    ("POST", "/v1/completions", {"model": "null", "prompt": "a"}, 400),
    ("POST", "/v1/chat/completions", {"model": "none", "messages": [{"role": "user", "content": "a"}]}, 404),
    ("POST", "/v1/audio/transcriptions", b"", 415),
    ("POST", "/v1/audio/translations", b"", 415),
)


@pytest.fixture(scope="module")
def document():
    return json.loads(openapi.text())


@pytest.fixture(scope="module")
def agent(tmp_path_factory, old_bundle):
    from tests.agent.conftest import Running

    running = Running(tmp_path_factory.mktemp("described") / "agent", soak_s=0.0, soak_requests=1)
    running.deploy(old_bundle)
    yield running
    running.close()


def operation(document, method, path):
    """That of a request, whose names are filled in."""
    path = path.partition("?")[0]
    for template, operations in sorted(document["paths"].items(), key=lambda pair: pair[0].count("{")):
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path) and method.lower() in operations:
            return operations[method.lower()]
    raise AssertionError(f"{method} {path} is not in the document")


def problems(document, schema, value):
    """What the schema says against a value."""
    whole = {**schema, "components": document["components"]}
    return [f"{each.json_path}: {each.message}" for each in Draft202012Validator(whole).iter_errors(value)]


def undescribed(document, schema, value, place):
    """The keys of an answer that no schema names."""
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if not schema:
        return  # anything, such as the values of a tensor
    for part in schema.get("anyOf", []):
        if not problems(document, part, value):
            yield from undescribed(document, part, value, place)
            return
    if isinstance(value, list):
        for each in value:
            yield from undescribed(document, schema["items"], each, f"{place}[]")
    elif isinstance(value, dict) and "additionalProperties" not in schema:
        known = {}
        for part in (schema, *schema.get("allOf", [])):
            while "$ref" in part:
                part = document["components"]["schemas"][part["$ref"].rpartition("/")[2]]  # noqa: PLW2901
            known |= part.get("properties", {})
        yield from (f"{place}.{key}" for key in value if key not in known)
        for key in value.keys() & known.keys():
            yield from undescribed(document, known[key], value[key], f"{place}.{key}")


def routes_in_code():
    """Read from the functions that answer: a route that is added there without the table is found here."""
    found = {openapi.PATH, telemetry.PATH, trials.PATH, f"{trials.PATH}/{{trial}}"}
    for node in ast.walk(ast.parse(_source(control))):
        if isinstance(node, ast.Dict):
            found |= {PREFIX + key.value for key in node.keys if isinstance(key, ast.Constant)
                      if str(key.value).startswith("/")}  # fmt: skip
    for node in ast.walk(ast.parse(_source(inference))):
        if isinstance(node, ast.Dict):
            found |= {key.value for key in node.keys if isinstance(key, ast.Constant) if "/v2" in str(key.value)}
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Name) and node.left.id == "last":
            found.add(f"/v2/models/{{name}}/{node.comparators[0].value}")
    found |= set(re.findall(r'Route\("(/[^"]*)"', _source(metrics)))
    found |= set(re.findall(r'"(/v1/[^"]*)"', _source(completions)))
    return found


def _source(module):
    with open(module.__file__, encoding="utf-8") as file:  # noqa: PTH123 - a path of another module
        return file.read()


def test_document_is_valid_openapi(document):
    assert document["openapi"].startswith("3.1")
    validate(document)


def test_validator_notices_a_parameter_that_is_not_described(document):
    broken = json.loads(json.dumps(document))
    broken["paths"]["/v2/models/{name}"]["get"]["parameters"] = []
    with pytest.raises(OpenAPIValidationError, match="name"):
        validate(broken)


def test_every_schema_is_a_schema(document):
    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


def test_table_and_code_have_the_same_routes():
    assert {entry.path for entry in ROUTES} == routes_in_code() | {"/v2/models/{name}"}


def test_document_has_every_route_and_no_other(document):
    described = {(method, path) for path, each in document["paths"].items() for method in each}
    expected = set()
    for entry in ROUTES:
        method = {"WS": "get"}.get(entry.method, entry.method.lower())
        expected.add((method, entry.path))
        if entry.versioned:
            expected.add((method, entry.path.replace("{name}", "{name}/versions/{version}")))
    assert described == expected
    identifiers = [each["operationId"] for path in document["paths"].values() for each in path.values()]
    assert len(set(identifiers)) == len(identifiers)


def test_every_described_route_exists_on_an_agent(document, agent):
    filled = {"{name}": "null", "{number}": "1", "{trial}": "x"}
    filled["{version}"] = agent.status()["serving"]["release"]
    for path, operations in document["paths"].items():
        for method, described in operations.items():
            # A wrong parameter: the route must know that it takes none of this name, and does nothing.
            asked = re.sub(r"\{\w+\}", lambda found: filled[found[0]], path)
            if method == "get" and "101" not in described["responses"]:
                with closing(connection_to(agent.address, 30)) as connection:
                    connection.request("GET", asked)
                    answer = connection.getresponse()
                    assert answer.status == 200, (asked, answer.read())
            elif method == "post":
                status, headers, _ = agent.ask("DELETE", asked)
                assert status == 405, asked
                assert headers["allow"] == "POST"


def test_roles_are_those_that_the_agent_requires(document):
    roles = {
        (method, path): each["security"][0]["bearer"][0] if each["security"] else ""
        for path, operations in document["paths"].items()
        for method, each in operations.items()
    }
    assert roles.pop(("post", "/api/v1/pair")) == ""
    assert all(roles.values())
    assert set(roles.values()) <= set(tokens.ROLES)
    assert roles["get", "/api/v1/status"] == "view"
    assert roles["post", "/v2/models/{name}/infer"] == "infer"
    assert roles["post", "/v2/models/{name}/versions/{version}/infer"] == "infer"
    assert roles["post", "/v1/completions"] == roles["post", "/v1/chat/completions"] == "infer"
    assert roles["post", "/api/v1/deploy"] == "deploy"
    scope = {"type": "http", "method": "POST", "path": "/v2/repository/index"}
    assert roles["post", "/v2/repository/index"] == needed_role(scope) == "view"


def test_answers_of_an_agent_are_as_described(document, agent):
    for method, path, sent, expected in REQUESTS:
        body = json.dumps(sent) if isinstance(sent, dict) else sent
        status, _, answer = agent.ask(method, path, body)
        assert status == expected, (path, answer)
        described = operation(document, method, path)
        response = described["responses"][str(status)]
        schema = response["content"]["application/json"]["schema"]
        assert problems(document, schema, answer) == [], path
        if path != openapi.PATH:
            assert set(undescribed(document, schema, answer, path)) == set()
        if isinstance(sent, dict) and status == 200:
            request = described["requestBody"]["content"]["application/json"]["schema"]
            assert problems(document, request, sent) == []
        if status == 202:
            agent.ended(answer["deployment"]["id"])


def test_requests_cover_every_route_with_a_record(document):
    asked = {id(operation(document, method, path)) for method, path, _, _ in REQUESTS}
    left = {
        path
        for path, operations in document["paths"].items()
        for each in operations.values()
        if id(each) not in asked and "versions" not in path
    }
    assert left == {
        "/api/v1/telemetry", "/api/v1/trials", "/api/v1/trials/{trial}", "/metrics",
        "/v2/health/live", "/v2/health/ready", "/v2/models/{name}/ready",
    }  # fmt: skip


def test_schema_refuses_another_answer(document, agent):
    schema = operation(document, "GET", "/api/v1/status")["responses"]["200"]["content"]["application/json"]
    answer = agent.status()
    assert problems(document, schema["schema"], answer) == []
    assert problems(document, schema["schema"], {**answer, "uptime_s": "long"})
    assert problems(document, schema["schema"], {key: answer[key] for key in answer if key != "trust"})


def test_telemetry_is_as_described(document, agent):
    message = document["paths"]["/api/v1/telemetry"]["get"]["x-websocket-message"]
    with connect(f"ws://127.0.0.1:{agent.port}/api/v1/telemetry") as socket:
        lines = [line for _ in range(3) for line in socket.recv(timeout=30).splitlines()]
    assert lines
    assert [problem for line in lines for problem in problems(document, message, json.loads(line))] == []
    assert problems(document, message, {"event": "none"})


def test_metrics_have_the_described_type(document, agent):
    (described,) = document["paths"]["/metrics"]["get"]["responses"]["200"]["content"]
    with closing(connection_to(agent.address, 30)) as connection:
        connection.request("GET", "/metrics")
        assert connection.getresponse().headers["content-type"] == described


def test_agent_serves_what_the_command_prints(document, agent, capsys):
    assert run(["openapi"]) == 0
    assert json.loads(capsys.readouterr().out) == document
    assert run(["openapi", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["data"]["openapi"] == document
    assert agent.ask("GET", "/api/v1/openapi.json")[2] == document
