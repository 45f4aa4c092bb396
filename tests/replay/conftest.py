"""A quantized bundle as it is made without a search, with samples and the profile in one file."""

import shutil
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from edgeopt.backends import backend_named
from edgeopt.bundle import write
from edgeopt.bundle.deployment import Deployment, Evidence, Run, SourceModel, Step, Tensor, machine_of
from edgeopt.commands.profile import export
from edgeopt.data.levels import Levels
from edgeopt.data.samples import Samples
from edgeopt.graph.model import load, save
from edgeopt.graph.passes import standard_passes
from edgeopt.graph.pipeline import run_pipeline, select
from edgeopt.hw.device import fingerprint
from edgeopt.hw.probe import probe
from edgeopt.quant.measured.records import SampleUse
from edgeopt.quant.measured.sample_sets import SampleSets
from edgeopt.quant.measured.study import begin
from edgeopt.quant.records import QuantSettings
from edgeopt.quant.write import encoded, raised
from tests.conftest import narrow, seeded, write_onnx

BACKEND = "onnxruntime-cpu"
SETTINGS = QuantSettings(reduce_range=narrow())


@pytest.fixture(scope="session")
def chain_model(models):
    """Convolutions and a product whose channels differ much, so that evening them out gains."""
    nodes = [
        ("Conv", ["x", "first", "shift"], ["a"], {"pads": [1, 1, 1, 1]}),
        ("Relu", ["a"], ["b"], {}),
        ("Conv", ["b", "second"], ["c"], {}),
        ("GlobalAveragePool", ["c"], ["p"], {}),
        ("Flatten", ["p"], ["flat"], {}),
        ("Mul", ["flat", "spread"], ["wide"], {}),
        ("MatMul", ["wide", "classes"], ["y"], {}),
    ]
    spread = np.geomspace(0.01, 30, 16).astype(np.float32)
    weights = {
        "first": seeded(16, 3, 3, 3) * spread[:, None, None, None],
        "shift": seeded(16, seed=1),
        "second": seeded(16, 16, 1, 1, seed=2) / spread[None, :, None, None],
        "spread": spread,
        "classes": seeded(16, 8, seed=3) / spread[:, None],
    }
    return write_onnx(models / "chain.onnx", nodes, weights, {"x": [1, 3, 8, 8]}, {"y": [1, 8]})


@pytest.fixture(scope="session")
def chain(chain_model, tmp_path_factory):
    """The bundle and what it was made of: `model`, `bundle`, `exported`, `data`."""
    folder = tmp_path_factory.mktemp("chain")
    arrays = np.random.default_rng(3).standard_normal((12, 1, 3, 8, 8)).astype(np.float32)
    np.savez(folder / "data.npz", x=arrays[:, 0])
    source = load(chain_model)
    cleaned = run_pipeline(source).model_ir
    samples = Samples({"x": arrays}, {"x": 4})
    given = SampleSets(
        (), samples, None, range(6), range(6, 8), range(8, 12), SampleUse(12, 6, 2, 4), Levels(samples)
    )
    study = begin(raised(cleaned), given, {}, SETTINGS, folder / "study")
    study.calibrated()
    assert study.equalization, "nothing was evened out, so a replay would not show that it can do that"
    assert study.smoothing, "likewise"
    choices = {layer.name: "int8" for layer in study.layers}
    written = study.written(choices, BACKEND)
    out = folder / "chain.edgeopt"
    run = Run(BACKEND, "model/chain.onnx", {"threads": 1})
    device = probe()
    with write.draft(out) as draft:
        (draft / "model").mkdir()
        save(written.model, draft / run.model)
        feeds = given.feeds(given.prove)
        reference = answers(chain_model, {}, feeds)
        outputs = answers(draft / run.model, run.options, feeds)
        for name, runs in (("inputs", feeds), ("outputs", outputs), ("reference", reference)):
            write.write_golden(draft, name, runs)
        deployment = Deployment(
            name="chain",
            created="2026-01-01T00:00:00+00:00",
            edgeopt="0",
            target="quick",
            summary="2.00x faster than before.",
            source=SourceModel("chain.onnx", source.digest, chain_model.stat().st_size),
            run=run,
            inputs=[Tensor("x", "float32", [1, 3, 8, 8])],
            outputs=[Tensor("y", "float32", [1, 8])],
            steps=[
                Step("cleaned", {"passes": [one.name for one in select(standard_passes())]}),
                Step("int8", msgspec.structs.asdict(SETTINGS), {"int8": list(choices)}),
            ],
            device=fingerprint(device),
            machine=machine_of(device),
            runtimes={each.name: each.version for each in device.runtimes},
            evidence=Evidence("faster", "source", 2.0, 1.0, 2.0, 1.9, 2.1, 11, 35.0, 20.0, 4),
        )
        record = encoded(study.recorded(choices, written.trace))
        write.fill(draft, {}, deployment, {"evidence.json": {"told": 0.1}, "ledger.json": []}, record)
        write.publish(draft, out)
    export(out, folder / "chain.toml")
    return SimpleNamespace(model=chain_model, bundle=out, exported=folder / "chain.toml", data=folder / "data.npz")


def answers(model, options, feeds):
    session = backend_named(BACKEND).load(model, options)
    try:
        return [session.run(each) for each in feeds]
    finally:
        session.close()


@pytest.fixture
def copied(chain, tmp_path):
    """A copy of the bundle, to be changed."""
    return shutil.copytree(chain.bundle, tmp_path / "chain.edgeopt")


@pytest.fixture
def text(chain, tmp_path):
    """Writes the exported profile with some of its text replaced."""

    def change(old, new, name="changed.toml"):
        told = chain.exported.read_text()
        assert old in told
        path = tmp_path / name
        path.write_text(told.replace(old, new, 1))
        return path

    return change
