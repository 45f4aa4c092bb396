"""What tests of deployments share."""

import contextlib
import shutil

import numpy as np
import onnx
import pytest
from onnx import helper

from edgeopt.backends import backend_named
from edgeopt.bundle import write
from edgeopt.bundle.deployment import Deployment, Run, SourceModel, Tensor
from edgeopt.bundle.manifest import write_manifest
from tests.agent.conftest import packed
from tests.agent.deployments.fetching import RETRIES
from tests.agent.deployments.file_server import FileServer


@pytest.fixture
def agent(start_serving):
    """An agent that serves the old bundle."""
    return start_serving()


@pytest.fixture
def small_disk(mount_disk):
    """A file system of its own, which a test can fill or make read-only."""
    return mount_disk("disk", "8m")


@pytest.fixture(scope="module")
def make_log_bundle(tmp_path_factory, device_fingerprint):
    """A model that is NaN for negative inputs and minus infinity for zero; `kind` is its operator.

    The golden input is `at`, and 0 is its golden output where the model gives NaN.
    """

    def make(kind, at=2.0):
        folder = tmp_path_factory.mktemp("log")
        ports = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 4]) for name in "xy"]
        graph = helper.make_graph([helper.make_node(kind, ["x"], ["y"])], kind, ports[:1], ports[1:])
        file = folder / "log.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)
        feeds = [{"x": np.full((1, 4), at, np.float32)}]
        answers = [{"y": np.nan_to_num(backend_named("onnxruntime-cpu").load(file, {}).run(feeds[0])["y"])}]
        deployment = Deployment(
            *("log", "2026-01-01T00:00:00+00:00", "0", "quick", "a test", SourceModel("log.onnx", "0" * 64, 1)),
            run=Run("onnxruntime-cpu", "model/log.onnx", {"threads": 1}),
            inputs=[Tensor("x", "float32", [1, 4])],
            outputs=[Tensor("y", "float32", [1, 4])],
            device=device_fingerprint,
        )
        out = folder / "log.edgeopt"
        with write.draft(out) as draft:
            write.write_golden(draft, "inputs", feeds)
            for golden in ("outputs", "reference"):
                write.write_golden(draft, golden, answers)
            write.fill(draft, {"log.onnx": file}, deployment, {"ledger.json": []})
            write.publish(draft, out)
        return out

    return make


@pytest.fixture
def long_bundle(new_bundle, tmp_path):
    """A sound bundle that is long enough to be broken off."""
    folder = shutil.copytree(new_bundle, tmp_path / "padded.edgeopt")
    with (folder / "model" / "model.null.json").open("a") as file:
        file.write(" " * 400_000)  # JSON may end with spaces
    write_manifest(folder)
    return folder


@pytest.fixture
def make_file_server():
    with contextlib.ExitStack() as stack:

        def make(content, tls=None):
            server = FileServer(content, tls)
            stack.callback(server.close)
            return server

        yield make


@pytest.fixture
def file_server(make_file_server, long_bundle):
    return make_file_server(packed(long_bundle))


@pytest.fixture
def start_fetching(start_serving, file_server):
    """Starts an agent that serves the old bundle and may fetch from the server."""

    def start(**settings):
        return start_serving(**{"fetch_from": [file_server.prefix], **RETRIES, **settings})

    return start
