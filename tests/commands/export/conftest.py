"""Bundles for exports: the convolution in ONNX Runtime, the same in OpenVINO, and exports of them made once."""

import shutil

import msgspec
import pytest

from edgeopt.backends import backend_named
from edgeopt.bundle import deployment as profile
from edgeopt.bundle import write
from edgeopt.bundle.manifest import write_manifest
from edgeopt.commands.export.export import export
from tests.conftest import seeded, write_onnx


def changed(bundle, **changes):
    """As its maker would: the manifest fits again afterwards."""
    file = bundle / profile.FILE
    file.write_text(profile.to_toml(msgspec.structs.replace(profile.read_deployment(file), **changes)))
    write_manifest(bundle)
    return bundle


@pytest.fixture(scope="session")
def openvino_bundle(conv_bundle, tmp_path_factory):
    bundle = shutil.copytree(conv_bundle, tmp_path_factory.mktemp("openvino") / "conv.edgeopt")
    options = {
        "precision": "f32",
        "threads": 1,
        "dynamic_quantization_group_size": 64,
        "shapes": {"x": [1, 3, 16, 16]},
    }
    return changed(bundle, run=profile.Run("openvino-cpu", "model/conv.onnx", options))


@pytest.fixture
def with_options(bundle):
    """The ONNX Runtime bundle with other options."""

    def change(**options):
        return changed(bundle, run=profile.Run("onnxruntime-cpu", "model/conv.onnx", options))

    return change


@pytest.fixture(scope="session")
def exported(conv_bundle, openvino_bundle, tmp_path_factory):
    """An export of one of them, made when it is first asked for: its result and its folder."""
    made = {}

    def of(runtime, form):
        if (runtime, form) not in made:
            out = tmp_path_factory.mktemp("exports") / form
            bundle = {"onnxruntime": conv_bundle, "openvino": openvino_bundle}[runtime]
            made[runtime, form] = export(bundle, form, out, lambda _event: None), out
        return made[runtime, form]

    return of


@pytest.fixture
def into(tmp_path):
    """Exports a bundle into a folder of its own, which is handed back with the result."""

    def run(bundle, form, **more):
        out = tmp_path / "out"
        return export(bundle, form, out, lambda _event: None, **more), out

    return run


@pytest.fixture
def make_bundle(tmp_path):
    """A bundle for ONNX Runtime of a few nodes, with one input of a shape."""

    def make(nodes, inputs, outputs, shape, weights=None):
        model = write_onnx(tmp_path / "conv.onnx", nodes, weights or {}, inputs, outputs)
        feeds = [{"x": seeded(*shape, seed=k)} for k in range(2)]
        session = backend_named("onnxruntime-cpu").load(model, {})
        runs = [session.run(each) for each in feeds]
        deployment = profile.Deployment(
            name="conv",
            created="2026-01-01T00:00:00+00:00",
            edgeopt="0",
            target="quick",
            summary="a test",
            source=profile.SourceModel("conv.onnx", "0" * 64, 1),
            run=profile.Run("onnxruntime-cpu", "model/conv.onnx", {}),
            inputs=[profile.Tensor(name, "float32", dims) for name, dims in inputs.items()],
            outputs=[profile.Tensor(name, "float32", dims) for name, dims in outputs.items()],
            evidence=profile.Evidence("faster", "source", 2.0, 1.0, 2.0, 1.9, 2.1, 11, 200.0, 30.0, 3),
        )
        bundle = tmp_path / "conv.edgeopt"
        with write.draft(bundle) as folder:
            for name, golden in (("inputs", feeds), ("outputs", runs), ("reference", runs)):
                write.write_golden(folder, name, golden)
            write.fill(folder, {"conv.onnx": model}, deployment, {"ledger.json": []})
            write.publish(folder, bundle)
        return bundle

    return make
