"""What the tests of the page share: the sample with fewer nodes, made once because it is proved."""

import pytest

from edgeopt.commands.simplify.request import SimplifyRequest
from edgeopt.commands.simplify.simplify import simplify
from edgeopt.data.demo import MODEL


@pytest.fixture(scope="session")
def small(made_once, tmp_path_factory):
    def make():
        path = tmp_path_factory.mktemp("small") / "small.onnx"
        simplify(SimplifyRequest(MODEL, path))
        return path.read_bytes()

    return made_once("small.onnx", make)
