"""Small models for the backends: each in ONNX with its answer in numpy, and as a null model."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from edgeopt.backends import BACKENDS
from edgeopt.backends.base import Available

Port = tuple[str, str, list[int | str | None]]

_ONNX_TYPES = {
    "float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "str": 8, "bool": 9,
    "float16": 10, "float64": 11, "bfloat16": 16,
}  # fmt: skip


@dataclass(frozen=True)
class Recipe:
    inputs: list[Port]
    outputs: list[Port]
    nodes: list[tuple[str, list[str], list[str], dict[str, Any]]]
    answer: Callable[..., list[np.ndarray]]
    weights: dict[str, np.ndarray] = field(default_factory=dict)


def _same_type(dtype, operator, answer):
    nodes = [(operator, ["x", "x"] if operator == "Add" else ["x"], ["y"], {})]
    return Recipe([("x", dtype, ["n"])], [("y", dtype, ["n"])], nodes, answer)


def _doubled(shape, operator="Add"):
    nodes = [(operator, ["x", "x"], ["y"], {})]
    return Recipe([("x", "float32", shape)], [("y", "float32", shape)], nodes, lambda x: [x + x])


_WEIGHTS = np.random.default_rng(0).standard_normal((256, 64)).astype(np.float32)

RECIPES = {
    "batch": _doubled(["batch", 3]),
    "fixed": _doubled([2, 3]),
    "scalar": _doubled([]),
    "any-size": _doubled(["n"]),
    "large": Recipe(
        [("x", "float32", [1, 200_000])],
        [("y", "float32", [1, 200_000]), ("total", "float32", [1, 1])],
        [("Relu", ["x"], ["y"], {}), ("ReduceMax", ["x"], ["total"], {"axes": [1]})],
        lambda x: [np.maximum(x, 0), x.max(axis=1, keepdims=True)],
    ),
    "two": Recipe(
        [("b", "float32", ["batch", 2]), ("a", "int64", ["batch", 2])],
        [("z", "float32", ["batch", 2]), ("m", "float32", ["batch", 2])],
        [
            ("Cast", ["a"], ["a_float"], {"to": 1}),
            ("Sub", ["b", "a_float"], ["m"], {}),
            ("Add", ["b", "a_float"], ["z"], {}),
        ],
        lambda b, a: [b + a.astype(np.float32), b - a.astype(np.float32)],
    ),
    "untouched": Recipe(
        [("x", "float32", [2])],
        [("constant", "float32", [2]), ("same", "float32", [2])],
        [("Identity", ["w"], ["constant"], {}), ("Identity", ["x"], ["same"], {})],
        lambda x: [np.array([1, 2], np.float32), x],
        {"w": np.array([1, 2], np.float32)},
    ),
    "optional": Recipe(
        [("x", "float32", ["n"]), ("highest", "float32", [])],
        [("y", "float32", ["n"])],
        [("Clip", ["x", "", "highest"], ["y"], {})],
        lambda x, highest: [np.minimum(x, highest)],
    ),
    **{t: _same_type(t, "Add", lambda x: [x + x]) for t in ("float16", "float64", "int32", "int64")},
    **{t: _same_type(t, "Identity", lambda x: [x]) for t in ("uint8", "int8", "str", "bfloat16")},
    "bool": _same_type("bool", "Not", lambda x: [~x]),
    "big": Recipe(
        [("x", "float32", [1, 4096])],
        [("y", "float32", [4096, 4096])],
        [("Add", ["x", "column"], ["y"], {})],
        lambda x: [x + np.arange(4096, dtype=np.float32)[:, None]],
        {"column": np.arange(4096, dtype=np.float32)[:, None]},
    ),
    "found": Recipe(
        [("x", "float32", ["n"])], [("y", "int64", [1, "found"])], [("NonZero", ["x"], ["y"], {})],
        lambda x: [np.array(np.nonzero(x))],
    ),
    "alone": Recipe(
        [], [("y", "float32", [2])], [("Identity", ["w"], ["y"], {})],
        lambda: [np.array([1, 2], np.float32)],
        {"w": np.array([1, 2], np.float32)},
    ),
    "product": Recipe(
        [("x", "float32", ["batch", 256])], [("y", "float32", ["batch", 64])], [("MatMul", ["x", "w"], ["y"], {})],
        lambda x: [x @ _WEIGHTS],
        {"w": _WEIGHTS},
    ),
}  # fmt: skip


def write_onnx(recipe: Recipe, path: Path) -> Path:
    import onnx
    from onnx import helper, numpy_helper

    graph = helper.make_graph(
        [helper.make_node(op, ins, outs, f"{op}_{i}", **at) for i, (op, ins, outs, at) in enumerate(recipe.nodes)],
        "test",
        [helper.make_tensor_value_info(n, _ONNX_TYPES[t], s) for n, t, s in recipe.inputs],
        [helper.make_tensor_value_info(n, _ONNX_TYPES[t], s) for n, t, s in recipe.outputs],
        [numpy_helper.from_array(array, name) for name, array in recipe.weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def write_null(recipe: Recipe, path: Path, **more: Any) -> Path:
    def ports(given: list[Port]) -> list[dict[str, Any]]:
        return [{"name": n, "dtype": t, "shape": s} for n, t, s in given]

    model = {"inputs": ports(recipe.inputs), "outputs": ports(recipe.outputs), "behaviour": "mix", **more}
    path.write_bytes(msgspec.json.encode(model))
    return path


class FakeCore:
    """OpenVINO's core as it would be with a GPU and an NPU: both compute on the processor."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.available_devices = ["CPU", "GPU.0", "GPU.1", "NPU"]
        self.compiled: list[tuple[str, dict[str, Any]]] = []
        """The device and the properties of each model."""
        self.refused: set[str] = set()
        """Types of operators that only the processor runs."""
        self.runs_on: dict[str, list[str]] = {}
        """What `EXECUTION_DEVICES` says, by the device that was asked for."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def query_model(self, model: Any, device: str) -> dict[str, str]:
        known = self._real.query_model(model, "CPU")
        if device == "CPU":
            return known
        first, _, rest = device.removeprefix("HETERO:").partition(",")
        kinds = {op.get_friendly_name(): op.get_type_name() for op in model.get_ops()}
        places = {name: rest if kinds[name] in self.refused else first for name in known}
        return {name: place for name, place in places.items() if place}

    def compile_model(self, model: Any, device: str, config: dict[str, Any]) -> Any:
        self.compiled.append((device, config))
        if not device.startswith("HETERO") and any(op.get_type_name() in self.refused for op in model.get_ops()):
            raise RuntimeError(f"Exception from plugin.cpp:54:\nOperation of type {self.refused} is not supported")
        compiled = self._real.compile_model(model, "CPU", {"PERFORMANCE_HINT": "LATENCY"})
        return FakeCompiled(compiled, self.runs_on.get(device, [device]))


class FakeCompiled:
    def __init__(self, real: Any, devices: list[str]) -> None:
        self._real = real
        self._devices = devices

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def get_property(self, name: str) -> Any:
        return self._devices if name == "EXECUTION_DEVICES" else self._real.get_property(name)


@pytest.fixture
def fake_openvino(monkeypatch):
    openvino = pytest.importorskip("openvino")
    from edgeopt.backends.openvino.model import core

    fake = FakeCore(openvino.Core())
    monkeypatch.setattr(openvino, "Core", lambda: fake)
    core.cache_clear()
    yield fake
    core.cache_clear()


HERE = [backend for backend in BACKENDS if isinstance(backend.available(), Available)]
FAKED = [b for b in BACKENDS if b not in HERE and b.name in {"openvino-gpu", "openvino-npu"}]


@pytest.fixture(params=[*HERE, *FAKED], ids=lambda b: b.name if b in HERE else f"{b.name} faked")
def backend(request):
    """Every backend that is here, and on a fake those whose device is not; what is missing says so elsewhere."""
    if request.param in FAKED:
        request.getfixturevalue("fake_openvino")
    return request.param


@dataclass
class Loaded:
    """A session with the recipe it was made from."""

    session: Any
    recipe: Recipe
    computes: bool

    def check(self, results: dict[str, Any], *feeds: Any) -> None:
        """Names in order, types, shapes, and numbers where the backend computes any."""
        want = self.recipe.answer(*[np.asarray(feed) for feed in feeds])
        assert list(results) == [name for name, _, _ in self.recipe.outputs]
        for got, answer, (_, dtype, _) in zip(results.values(), want, self.recipe.outputs, strict=True):
            assert isinstance(got, np.ndarray)
            assert got.shape == answer.shape
            assert got.dtype.name == dtype or (dtype == "str" and got.dtype.kind in "OU")
            if self.computes:
                assert np.array_equal(got, answer)

    def run(self, *feeds: Any) -> dict[str, Any]:
        return self.session.run({n: f for (n, _, _), f in zip(self.recipe.inputs, feeds, strict=True)})

    def run_and_check(self, *feeds: Any) -> dict[str, Any]:
        results = self.run(*feeds)
        self.check(results, *feeds)
        return results


@pytest.fixture
def model_file(backend, tmp_path):
    """`model_file("batch")` writes that model in a format that the backend loads."""

    def write(kind: str) -> Path:
        if ".onnx" in backend.formats:
            return write_onnx(RECIPES[kind], tmp_path / f"{kind}.onnx")
        return write_null(RECIPES[kind], tmp_path / f"{kind}.null.json")

    return write


@pytest.fixture
def loaded(backend, model_file):
    """`loaded("batch", threads=1)` is a session of that model; all are closed at the end."""
    sessions = []

    def load(kind: str, **options: Any) -> Loaded:
        one = {"threads": 1} if "threads" in backend.options.__struct_fields__ else {}
        session = backend.load(model_file(kind), {**one, **options})
        sessions.append(session)
        return Loaded(session, RECIPES[kind], ".onnx" in backend.formats)

    yield load
    for session in sessions:
        session.close()


@pytest.fixture
def onnx_file(tmp_path):
    """`onnx_file("batch")` writes one of the recipes; `onnx_file(nodes=…, inputs=…, outputs=…)` any other."""

    def write(kind: str = "", **parts: Any) -> Path:
        recipe = RECIPES[kind] if kind else Recipe(answer=list, **parts)
        return write_onnx(recipe, tmp_path / f"{kind or 'own'}.onnx")

    return write


@pytest.fixture
def null_file(tmp_path):
    """`null_file("batch", latency_ms=5)` writes one of the recipes as a null model."""

    def write(kind: str, **more: Any) -> Path:
        return write_null(RECIPES[kind], tmp_path / f"{kind}.null.json", **more)

    return write


@pytest.fixture
def in_turns():
    """How much time the first call takes of the second one's, both measured in turns."""

    def ratio(one: Callable[[], Any], other: Callable[[], Any], clock: Callable[[], float]) -> float:
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(30):
            for call, taken in zip((one, other), times, strict=True):
                start = clock()
                for _ in range(200):
                    call()
                taken.append(clock() - start)
        return min(times[0]) / min(times[1])

    return ratio
