import json
import urllib.error
import urllib.request

import numpy as np

import edgeopt

OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def post(reader, body):
    """Code and content of the answer."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{reader.port}/infer", body.encode(), {"content-type": "application/json"}
    )
    try:
        with OPENER.open(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_service_answers_as_the_bundle_and_refuses_bad_requests(reader, conv_bundle, pictures):
    reader.environment |= {"EDGEOPT_BUNDLE": str(conv_bundle)}
    reader.type("", "uvicorn --app-dir examples service:app")
    code, answer = post(reader, json.dumps({"inputs": {"x": pictures[0].tolist()}}))
    with edgeopt.load(conv_bundle) as session:
        expected = session.run({"x": pictures[0]})["y"]
    assert code == 200
    np.testing.assert_allclose(answer["outputs"]["y"], expected, rtol=1e-5)
    for inputs, said in (
        ({"z": [1]}, "unknown inputs: z"),
        ({"x": [[1, 2], [3]]}, "inhomogeneous"),
        ({"x": [["a"]]}, "could not convert"),
        ({"x": [1, 2]}, "x"),
        ({}, "x"),
    ):
        code, answer = post(reader, json.dumps({"inputs": inputs}))
        assert (code, said in answer["detail"]) == (422, True), answer
    assert post(reader, "{")[0] == 422
    assert reader.stop_server() == 0
