"""What tests of several folders share: tiny models with seeded weights, data for them, and bundles."""

import atexit
import fcntl
import functools
import gc
import json
import os
import shutil
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# As in the Makefile: or each of a thousand processes compiles what it imports, and each worker all tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Before numpy starts a thread for each core, in each of a thousand processes that tests start too.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import hypothesis
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from edgeopt.backends import backend_named
from edgeopt.bundle import write
from edgeopt.bundle.deployment import Deployment, Evidence, Run, SourceModel, Tensor
from edgeopt.hw.device import fingerprint
from edgeopt.hw.probe import probe
from edgeopt.measure import memory, rounds
from edgeopt.platform.memory import field_bytes
from edgeopt.profiles.targets import profile_for
from edgeopt.workers.host import LocalHost
from tests import processes, warm
from tests.near import NearHost

pytest_plugins = ("tests.disks", "tests.families.stack")

# A deadline for each example would judge how busy the machine is.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")

NEAR = {
    "cli",
    "commands",
    "golden",
    "measured",
    "exactness",
    "pipeline",
    "replay",
    "quantize",
}

SLICE_MS, SHORT_SLICE_MS = rounds.SHORTEST_SLICE_MS, 4.0

# Nobody's own cache; and of searches nothing is kept but where a test asks for it, or the second would not search.
_CACHE = "edgeopt-test-cache-"
if _CACHE not in os.environ.get("XDG_CACHE_HOME", ""):  # a worker has the one of what started it
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix=_CACHE)
    # Nor its paired agents and settings.
    os.environ["XDG_CONFIG_HOME"] = f"{os.environ['XDG_CACHE_HOME']}/config"
    os.environ["EDGEOPT_CACHE_LIMIT"] = "0"
    os.environ.pop("EDGEOPT_CACHE", None)
    atexit.register(shutil.rmtree, os.environ["XDG_CACHE_HOME"], ignore_errors=True)
_CACHED = Path(os.environ["XDG_CACHE_HOME"], "edgeopt")

QUICK_PROFILE = """
name = "quick"
title = "What a tiny model needs"
extends = "generic-cpu"
[precision]
ladder = ["source", "cleaned", "lowered", "int8", "int8-dynamic"]
[backends]
order = ["onnxruntime-cpu"]
[search]
max_candidates = 40
time_limit_s = 5
"""


# Every phase of a search, and nothing more than once.
SHORT_PROFILE = """
name = "short"
title = "A search that is over at once"
extends = "generic-cpu"
[precision]
ladder = ["source", "int8"]
[backends]
order = ["onnxruntime-cpu"]
[search]
max_candidates = 3
time_limit_s = 2
"""

# What these have from generic-cpu, but its runtime options.
_STILL = """
[match]
architectures = []
simd = []
rank = 0
[graph]
passes = "default"
[quantization]
activation_type = "uint8"
weight_type = "int8"
reduce_range = true
per_channel = true
[runtime]
"""


def still(profile):
    """The same with no runtime option to turn, so that a search finds what it is given and nothing else."""
    found = profile.replace('extends = "generic-cpu"\n', "") + _STILL
    return found if "[search]" in found else found + "[search]\nmax_candidates = 40\ntime_limit_s = 8\n"


def limited(profile, candidates, seconds):
    """The same for so many candidates and seconds."""
    return profile.split("[search]")[0] + f"[search]\nmax_candidates = {candidates}\ntime_limit_s = {seconds}\n"


def write_onnx(path, nodes, weights, inputs, outputs, opset=17):
    """Writes a model of (operator, inputs, outputs, attributes) rows and arrays by name."""
    rows = [helper.make_node(op, ins, outs, f"{op}_{k}", **more) for k, (op, ins, outs, more) in enumerate(nodes)]
    ports = [
        [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s) for n, s in p.items()]
        for p in (inputs, outputs)
    ]
    arrays = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(rows, "tiny", *ports, arrays)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)
    return path


@functools.cache
def this_device():
    """The record of this machine, for tests that do not look at how it is made."""
    return probe()


@functools.cache
def narrow() -> bool:
    """Whether this device's own profile gives weights seven bits, as pairs of products would overflow."""
    return profile_for(this_device()).quantization.reduce_range


def seeded(*shape, seed=0):
    spread = np.sqrt(np.prod(shape[1:])) if len(shape) > 1 else 1.0
    return (np.random.default_rng(seed).standard_normal(shape) / spread).astype(np.float32)


def _quickly(path, field):
    """Without what takes ten milliseconds a slice in a process as large as this one; `VmRSS` does as well here."""
    return None if path == Path("/proc/self/smaps_rollup") else field_bytes(path, field)


@pytest.fixture
def near(monkeypatch):
    """What is asked of processes is answered in this one, which has imported all that they would."""
    monkeypatch.setattr(LocalHost, "start", NearHost.start)
    monkeypatch.setattr(memory, "field_bytes", _quickly)


@pytest.fixture(autouse=True)
def near_where_it_may(request):
    """In folders whose tests start more processes than they look at; not where they are killed or measured."""
    kept = any(request.node.get_closest_marker(name) for name in ("processes", "timing"))
    if not kept and not NEAR.isdisjoint(folder.name for folder in request.path.parents):
        request.getfixturevalue("near")


def pytest_configure():
    sys.dont_write_bytecode = False
    warm.install()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Processes are forked from one that has imported everything, but for tests of how they start or how fast.

    And slices of a contest are as short as a null model allows, but where somebody goes by what they measured.
    """
    marks = {mark.name for mark in item.iter_markers()}
    rounds.SHORTEST_SLICE_MS = SLICE_MS if marks & {"timing", "slow"} else SHORT_SLICE_MS
    with warm.processes(not marks & {"timing", "cold"}):
        return (yield)


def pytest_collection_modifyitems(items):
    """Files with slow tests first: begun last, one would go on while the other workers have nothing left to do."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_collection():
    """All that is collected stays to the end: looking through it for garbage again and again took seconds."""
    gc.disable()


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def rest_of():
    """The rest of what a process says on its two pipes, after lines were read from them, and its end.

    `communicate` reads past the files, and so loses what they took from the pipe with the last line: where much
    was waiting, it begins in the middle of a line.
    """

    def read(process, within_s=60):
        pipes = [pipe for pipe in (process.stdout, process.stderr) if pipe is not None]
        late = threading.Timer(within_s, process.kill)
        late.start()
        try:
            with ThreadPoolExecutor(len(pipes)) as pool:
                said = dict(zip(pipes, pool.map(lambda pipe: pipe.read(), pipes), strict=True))
            process.wait(within_s)
            assert late.is_alive(), f"it did not end within {within_s} s"
        finally:
            late.cancel()
        return said.get(process.stdout), said.get(process.stderr)

    return read


@pytest.fixture
def ends():
    """Whether all of these processes end within a limit."""
    return processes.ends


@pytest.fixture
def null_model(tmp_path):
    """Writes a null model: what it answers depends on its input, and it may have planted faults."""

    def write(name, **faults):
        port = {"dtype": "float32", "shape": ["batch", 8]}
        model = {"inputs": [{"name": "x", **port}], "outputs": [{"name": "y", **port}], "behaviour": "mix"}
        path = tmp_path / f"{name}.null.json"
        path.write_text(json.dumps({**model, **faults}))
        return path

    return write


@pytest.fixture(scope="session")
def made_once(tmp_path_factory):
    """Makes a file, once for all workers of a test run: its path."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent

    def made(name, make):
        path = folder / name
        with path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                content = make()
                path.write_bytes(content)
        return path

    return made


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """The folder of the tiny models."""
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="session")
def conv_model(models):
    """A convolution and a classifier, with a dynamic batch and one node too many."""
    nodes = [
        ("Conv", ["x", "kernel", "bias"], ["c"], {"pads": [1, 1, 1, 1]}),
        ("Relu", ["c"], ["r"], {}),
        ("Identity", ["r"], ["same"], {}),
        ("GlobalAveragePool", ["same"], ["p"], {}),
        ("Flatten", ["p"], ["flat"], {}),
        ("Gemm", ["flat", "classes"], ["y"], {"transB": 1}),
    ]
    weights = {"kernel": seeded(16, 3, 3, 3), "bias": seeded(16, seed=1), "classes": seeded(10, 16, seed=2)}
    return write_onnx(models / "conv.onnx", nodes, weights, {"x": ["batch", 3, 16, 16]}, {"y": ["batch", 10]})


@pytest.fixture(scope="session")
def matmul_model(models):
    """Two matrix products with a dynamic batch."""
    nodes = [
        ("MatMul", ["x", "first"], ["m"], {}),
        ("Add", ["m", "shift"], ["a"], {}),
        ("Relu", ["a"], ["r"], {}),
        ("MatMul", ["r", "second"], ["y"], {}),
    ]
    weights = {"first": seeded(32, 64), "shift": seeded(64, seed=1), "second": seeded(64, 8, seed=2)}
    return write_onnx(models / "matmul.onnx", nodes, weights, {"x": ["batch", 32]}, {"y": ["batch", 8]})


@pytest.fixture(scope="session")
def swish_model(models):
    """A product and an operator that OpenVINO has and ONNX Runtime has not, so that OpenVINO judges."""
    path = write_onnx(models / "swish.onnx", [("MatMul", ["x", "w"], ["y"], {})], {"w": seeded(32, 32)}, {}, {})
    model = onnx.load(path)
    model.graph.node.append(helper.make_node("Swish", ["y"], ["z"], "swish", domain="org.openvinotoolkit"))
    model.opset_import.append(helper.make_opsetid("org.openvinotoolkit", 1))
    for ports, name in ((model.graph.input, "x"), (model.graph.output, "z")):
        ports.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 32]))
    onnx.save(model, path)
    return path


@pytest.fixture(scope="session")
def relu_model(models):
    """So small that nothing can make it faster."""
    return write_onnx(models / "relu.onnx", [("Relu", ["x"], ["y"], {})], {}, {"x": [1, 4]}, {"y": [1, 4]})


@pytest.fixture(scope="session")
def conv_data(models):
    path = models / "conv.npz"
    np.savez(path, x=np.random.default_rng(5).standard_normal((32, 3, 16, 16)).astype(np.float32))
    return path


@pytest.fixture(scope="session")
def quick_profile(models):
    """A target profile with ONNX Runtime alone, so that a search takes seconds."""
    path = models / "quick.toml"
    path.write_text(QUICK_PROFILE)
    return path


@pytest.fixture(scope="session")
def short_profile(models):
    """A target profile for searches that are stopped, of which nobody reads the outcome."""
    path = models / "short.toml"
    path.write_text(SHORT_PROFILE)
    return path


@pytest.fixture(scope="session")
def device_fingerprint():
    return fingerprint(this_device())


@pytest.fixture(scope="session")
def make_cache(device_fingerprint):
    """Makes a cache folder that has the answers of the runtimes: two processes would import them otherwise."""

    def make(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for answers in _CACHED.glob("runtimes-*.json"):
            shutil.copy(answers, folder)
        return folder

    return make


@pytest.fixture(scope="session")
def conv_bundle(tmp_path_factory, conv_model, device_fingerprint):
    """A sound bundle of the convolution; tests that change it take `bundle` instead."""
    feeds = [{"x": seeded(1, 3, 16, 16, seed=k)} for k in range(3)]
    session = backend_named("onnxruntime-cpu").load(conv_model, {})
    outputs = [session.run(f) for f in feeds]
    session.close()
    out = tmp_path_factory.mktemp("bundles") / "conv.edgeopt"
    deployment = Deployment(
        name="conv",
        created="2026-01-01T00:00:00+00:00",
        edgeopt="0",
        target="quick",
        summary="a test",
        source=SourceModel("conv.onnx", "0" * 64, 1),
        run=Run("onnxruntime-cpu", "model/conv.onnx", {"threads": 1}),
        inputs=[Tensor("x", "float32", ["batch", 3, 16, 16])],
        outputs=[Tensor("y", "float32", ["batch", 10])],
        device=device_fingerprint,
        evidence=Evidence("faster", "source", 2.0, 1.0, 2.0, 1.9, 2.1, 11, 200.0, 30.0, 3),
    )
    with write.draft(out) as folder:
        for name, runs in (("inputs", feeds), ("outputs", outputs), ("reference", outputs)):
            write.write_golden(folder, name, runs)
        write.fill(folder, {"conv.onnx": conv_model}, deployment, {"ledger.json": []})
        write.publish(folder, out)
    return out


@pytest.fixture
def bundle(conv_bundle, tmp_path):
    """A copy of the sound bundle, to be damaged."""
    return shutil.copytree(conv_bundle, tmp_path / "conv.edgeopt")


@pytest.fixture
def change_deployment():
    """Changes a bundle's deployment as its maker would: the manifest fits again afterwards."""
    import msgspec

    from edgeopt.bundle import deployment as module
    from edgeopt.bundle.manifest import write_manifest

    def change(bundle, **changes):
        file = bundle / module.FILE
        changed = msgspec.structs.replace(module.read_deployment(file), **changes)
        file.write_text(module.to_toml(changed))
        write_manifest(bundle)

    return change


@pytest.fixture
def write_model(tmp_path):
    """Writes a model to a file: its graph in onnx's text form, its weights as arrays."""
    import onnx.parser

    def write(text, opset=17, ir_version=8, name="model.onnx", functions="", **weights):
        imports = f'"" : {opset}' + (', "own" : 1' if functions else "")
        header = f"<ir_version: {ir_version}, opset_import: [{imports}]>"
        proto = onnx.parser.parse_model(f"{header} {text} {functions}")
        for key, array in weights.items():
            proto.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), key))
        path = tmp_path / name
        onnx.save(proto, path)
        return path

    return write


@pytest.fixture
def make_model(write_model):
    """The same, loaded."""
    from edgeopt.graph.model import load

    def make(text, **options):
        return load(write_model(text, **options))

    return make
