"""What every backend keeps while loading and closing: options, refusals, memory, where nodes run."""

import subprocess
import sys

import numpy as np
import pytest

from edgeopt.backends.base import Available, Coverage, Placement
from edgeopt.backends.options import described
from edgeopt.errors import EdgeoptError, ModelError, UsageError


def odd_models():
    """Models that the recipes cannot say: a type that is no plain tensor goes in or out as 'odd'."""
    from onnx import TensorProto, helper, numpy_helper

    def port(name, kind=TensorProto.FLOAT):
        return helper.make_tensor_value_info(name, kind, [4])

    def model(nodes, takes, gives, weights=()):
        graph = helper.make_graph(nodes, "test", [takes], [gives], list(weights))
        domains = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 3)]
        return helper.make_model(graph, opset_imports=domains, ir_version=10)

    node, tensor = helper.make_node, helper.make_tensor_type_proto(TensorProto.FLOAT, [4])
    table = onnx_map(TensorProto.INT64, tensor)
    four, scale = helper.make_tensor("w", TensorProto.INT4, [4], [1, -2, 3, -8]), np.array(0.5, np.float32)
    return {
        "four-bit weights": lambda: model(
            [node("DequantizeLinear", ["w", "s"], ["f"]), node("Add", ["x", "f"], ["y"])],
            port("x"), port("y"), (four, numpy_helper.from_array(scale, "s")),
        ),
        "four-bit input": lambda: model(
            [node("Cast", ["odd"], ["y"], to=1)], port("odd", TensorProto.INT4), port("y")
        ),
        "four-bit output": lambda: model(
            [node("Cast", ["x"], ["odd"], to=TensorProto.INT4)], port("x"), port("odd", TensorProto.INT4)
        ),
        "list": lambda: model(
            [node("SplitToSequence", ["x"], ["odd"])], port("x"),
            helper.make_tensor_sequence_value_info("odd", 1, None),
        ),
        "optional": lambda: model(
            [node("Optional", ["x"], ["odd"])], port("x"),
            helper.make_value_info("odd", helper.make_optional_type_proto(tensor)),
        ),
        "list of tables": lambda: model(
            [node("ZipMap", ["x"], ["odd"], domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2, 3])],
            port("x"), helper.make_value_info("odd", helper.make_sequence_type_proto(table)),
        ),
    }  # fmt: skip


def onnx_map(key, value):
    from onnx import TypeProto

    kind = TypeProto()
    kind.map_type.key_type = key
    kind.map_type.value_type.CopyFrom(value)
    return kind


@pytest.fixture
def onnx_path(tmp_path):
    """`onnx_path("list")` writes one of the models that the recipes cannot say."""

    def write(kind):
        import onnx

        path = tmp_path / "odd.onnx"
        onnx.save(odd_models()[kind](), path)
        return path

    return write


@pytest.fixture(scope="session")
def heavy_model(tmp_path_factory):
    """100 MiB of weights of 2 MiB each: so small that the C library keeps their memory when they are freed."""
    import onnx
    from onnx import helper, numpy_helper

    pieces, wide, thin = 46, 1536, 384
    weights = np.random.default_rng(0).standard_normal((wide, thin), np.float32) / 30
    arrays = [np.roll(weights if k % 2 == 0 else weights.T, k, axis=0) for k in range(pieces)]
    ports = [[helper.make_tensor_value_info(name, 1, [1, wide])] for name in ("v0", f"v{pieces}")]
    nodes = [helper.make_node("MatMul", [f"v{k}", f"w{k}"], [f"v{k + 1}"]) for k in range(pieces)]
    kept = [numpy_helper.from_array(array, f"w{k}") for k, array in enumerate(arrays)]
    graph = helper.make_graph(nodes, "heavy", *ports, kept)
    path = tmp_path_factory.mktemp("heavy") / "heavy.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


_MEMORY_CHILD = """
import gc, pathlib, sys
import numpy as np, psutil
from edgeopt.backends import backend_named
def resident():
    gc.collect()
    return psutil.Process().memory_info().rss
backend, small, heavy = backend_named(sys.argv[1]), *map(pathlib.Path, sys.argv[2:])
def use(path, shape):
    session = backend.load(path, {})
    for _ in range(3):
        session.run({session.inputs[0].name: np.ones(shape, np.float32)})
    return session
use(small, (2, 3)).close()
before = resident()
session = use(heavy, (1, 1536))
loaded = resident()
session.close()
print(before, loaded, resident())
"""


@pytest.fixture
def child_memory(onnx_file):
    """Resident bytes of a process of its own: after a small model, with the large one, and after closing it."""

    def measure(backend, heavy):
        command = [sys.executable, "-c", _MEMORY_CHILD, backend.name, str(onnx_file("batch")), str(heavy)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return tuple(int(word) for word in done.stdout.split())

    return measure


def load_or_refuse(backend, path):
    try:
        return backend.load(path, {}), None
    except ModelError as refusal:
        return None, refusal


def test_strings_pass_or_are_refused_when_loading(backend, model_file):
    session, refusal = load_or_refuse(backend, model_file("str"))
    if session is None:
        assert "'x' is a tensor of string" in refusal.message
        assert refusal.hint
        return
    for array in (np.array(["ab", "é"]), np.array(["ab", "é"], object), np.array([], object)):
        result = session.run({"x": array})["y"]
        assert result.shape == array.shape
        assert all(isinstance(text, str) for text in result)


def test_bfloat16_passes_or_is_refused_when_loading(backend, model_file):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    session, refusal = load_or_refuse(backend, model_file("bfloat16"))
    if session is None:
        assert "bfloat16" in refusal.message
        return
    feed = np.array([1.5, -2], ml_dtypes.bfloat16)
    assert np.array_equal(session.run({"x": feed})["y"], feed)


def test_weights_of_four_bits(backend, onnx_path):
    if ".onnx" not in backend.formats:
        pytest.skip("it has no weights")
    session = backend.load(onnx_path("four-bit weights"), {})
    result = session.run({"x": np.zeros(4, np.float32)})["y"]
    assert result.tolist() == [0.5, -1.0, 1.5, -4.0]


@pytest.mark.parametrize("kind", ["four-bit input", "four-bit output", "list", "optional", "list of tables"])
def test_what_is_no_plain_tensor_is_refused_by_name(backend, onnx_path, kind):
    if ".onnx" not in backend.formats:
        pytest.skip("its format has nothing but plain tensors")
    with pytest.raises(ModelError, match="'odd'") as raised:
        backend.load(onnx_path(kind), {})
    assert raised.value.message.endswith(".")
    assert raised.value.hint


def test_closing_gives_the_memory_back(backend, heavy_model, child_memory):
    """Weights, their copies in the runtime's own layout, and its arenas."""
    if ".onnx" not in backend.formats or not isinstance(backend.available(), Available):
        pytest.skip("it has no weights, or a fake that has those of openvino-cpu")
    before, loaded, closed = child_memory(backend, heavy_model)
    assert loaded - before > 100 * 2**20
    assert closed - before < 0.2 * (loaded - before)


def test_an_unknown_option_names_the_nearest(backend, model_file):
    if not backend.options.__struct_fields__:
        pytest.skip("it has no options")
    name = backend.options.__struct_fields__[-1]
    with pytest.raises(UsageError, match=f"no option '{name}s'") as raised:
        backend.load(model_file("batch"), {f"{name}s": 1})
    assert f"'{name}'" in raised.value.hint


@pytest.mark.parametrize("value", [-1, "many", 1.5])
def test_a_value_that_an_option_does_not_take(backend, model_file, value):
    numbers = ("threads", "compile_threads", "device_id")
    name = next((name for name in numbers if name in backend.options.__struct_fields__), None)
    if name is None:
        pytest.skip("it has no option that is a number")
    with pytest.raises(UsageError, match=rf"'{name}'.*must be int"):
        backend.load(model_file("batch"), {name: value})


def test_every_option_says_what_it_does(backend):
    told = described(backend.options)
    assert sorted(option.name for option in told) == sorted(backend.options.__struct_fields__)
    assert [option.name for option in told if not option.description] == []


def test_a_missing_file_is_a_model_error(backend, tmp_path):
    path = tmp_path / f"absent{backend.formats[0]}"
    with pytest.raises(ModelError, match="absent"):
        backend.load(path, {})


@pytest.mark.parametrize("content", [b"", b"\x08\x07garbage", b"<net"])
def test_a_damaged_file_is_a_model_error(backend, tmp_path, content):
    path = tmp_path / f"damaged{backend.formats[0]}"
    path.write_bytes(content)
    with pytest.raises(ModelError, match="damaged") as raised:
        backend.load(path, {})
    assert raised.value.hint


def test_a_simple_model_is_covered_fully(backend, model_file):
    coverage = backend.supports(model_file("batch"))
    assert coverage == Coverage(1, 1, ())


def test_a_strict_load_takes_what_is_covered_fully(backend, model_file):
    session = backend.load(model_file("batch"), {}, strict=True)
    placement = session.placement
    assert placement is None or not placement.fallen
    session.run({"x": np.ones((2, 3), np.float32)})


def test_where_the_nodes_run_is_told_or_there_is_one_place_only(loaded):
    placement = loaded("two").session.placement
    if placement is None:
        return
    assert isinstance(placement, Placement)
    assert sum(placement.nodes.values()) >= 3
    assert placement.boundaries == 0


def test_a_library_of_operators_that_is_not_there(backend, model_file, tmp_path):
    with pytest.raises(EdgeoptError) as raised:
        backend.load(model_file("batch"), {}, custom_ops=(str(tmp_path / "absent.so"),))
    assert raised.value.exit_code in {2, 3}
    assert raised.value.message.endswith(".")
    assert raised.value.hint


def test_a_file_that_is_no_library_of_operators(backend, model_file, tmp_path):
    path = tmp_path / "text.so"
    path.write_text("no library")
    with pytest.raises(EdgeoptError) as raised:
        backend.load(model_file("batch"), {}, custom_ops=(str(path),))
    assert raised.value.exit_code in {2, 3}
    assert raised.value.hint
