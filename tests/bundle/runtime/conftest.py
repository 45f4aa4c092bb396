"""A tiny decoder, and a session of it in each runtime."""

import pytest

from tests.bundle.runtime.decoder import BACKENDS, load, write_decoder


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    return write_decoder(tmp_path_factory.mktemp("decoder") / "m.onnx")


@pytest.fixture(params=BACKENDS)
def session(request, decoder):
    with load(decoder, request.param) as loaded:
        yield loaded
