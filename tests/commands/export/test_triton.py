"""Configurations are read by protobuf's own parser, with Triton's own message."""

import importlib.util
from pathlib import Path

import msgspec
import numpy as np
import pytest
import tritonclient
from google.protobuf import text_format

from edgeopt.bundle.deployment import UnderLoad
from edgeopt.bundle.read import read_bundle
from edgeopt.commands.export.triton import Word, prototext
from edgeopt.errors import ConstraintError
from tests.commands.export.conftest import changed


@pytest.fixture(scope="module")
def messages():
    # The package around it needs grpc.
    file = Path(tritonclient.__path__[0]) / "grpc" / "model_config_pb2.py"
    spec = importlib.util.spec_from_file_location("model_config_pb2", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def read(messages):
    """The configuration in a repository, with the rules that Triton's own checker has beyond the message."""

    def parse(folder):
        config = text_format.Parse((folder / "conv" / "config.pbtxt").read_text(), messages.ModelConfig())
        assert config.name == "conv"
        for port in (*config.input, *config.output):
            assert port.data_type
            assert port.dims
            assert all(dim == -1 or dim > 0 for dim in port.dims)
        for sample in config.model_warmup:
            assert sample.batch_size == 1
            assert set(sample.inputs) == {port.name for port in config.input}
            for entry in sample.inputs.values():
                file = folder / "conv" / "warmup" / entry.input_data_file
                assert file.stat().st_size == 4 * np.prod(entry.dims)
        return config

    return parse


def parameters(config):
    return {key: value.string_value for key, value in config.parameters.items()}


def test_onnx_runtime_takes_batches_of_its_open_axis(exported, read):
    result, out = exported("onnxruntime", "triton")
    config = read(out)
    assert (config.backend, config.max_batch_size) == ("onnxruntime", 8)
    assert config.HasField("dynamic_batching")
    assert list(config.input[0].dims) == [3, 16, 16]
    assert list(config.output[0].dims) == [10]
    assert parameters(config) == {"intra_op_thread_count": "1"}
    assert [group.kind for group in config.instance_group] == [config.instance_group[0].KIND_CPU]
    assert len(config.model_warmup) == 1
    assert (out / "conv" / "1" / "model.onnx").is_file()
    assert any("max_batch_size" in note for note in result.notes)


@pytest.mark.parametrize(
    ("limit", "largest", "preferred"), [(None, 4, [4]), (16, 16, [4]), (2, 2, []), (0, 0, [])]
)
def test_throughput_search_chooses_instances_and_batch(bundle, into, read, limit, largest, preferred):
    found = read_bundle(bundle).deployment.evidence
    load = UnderLoad(3, 4, 2000.0, 1000.0, 1, 1)
    bundle = changed(bundle, evidence=msgspec.structs.replace(found, load=load))
    result, out = into(bundle, "triton", max_batch_size=limit)
    config = read(out)
    assert config.max_batch_size == largest
    assert list(config.dynamic_batching.preferred_batch_size) == preferred
    assert [group.count for group in config.instance_group] == [3]
    assert any(note.startswith("3 requests run at once") for note in result.notes)


def test_options_become_triton_s_words_or_are_said(with_options, into, read):
    bundle = with_options(
        threads=2, graph_level="extended", execution_mode="parallel", arena=False, spinning=False, prepacking=True
    )
    result, out = into(bundle, "triton", max_batch_size=0)
    config = read(out)
    assert config.optimization.graph.level == 1
    assert parameters(config) == {
        "intra_op_thread_count": "2",
        "execution_mode": "1",
        "enable_mem_arena": "0",
    }
    assert config.max_batch_size == 0
    assert list(config.input[0].dims) == [-1, 3, 16, 16]
    said = [note for note in result.notes if "does not support the option" in note]
    assert len(said) == 1
    assert "spinning=false" in said[0]


def test_openvino_gets_the_shapes_it_was_made_fast_for(exported, read):
    import openvino

    result, out = exported("openvino", "triton")
    config = read(out)
    assert (config.backend, config.max_batch_size) == ("openvino", 0)
    assert list(config.input[0].dims) == [1, 3, 16, 16]
    assert parameters(config) == {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": "1"}
    model = openvino.Core().read_model(out / "conv" / "1" / "model.xml")
    assert model.inputs[0].get_names() == {"x"}
    compiled = openvino.Core().compile_model(model, "CPU", {})
    assert compiled.get_property("DYNAMIC_QUANTIZATION_GROUP_SIZE") == 64
    assert any("cannot set precision=f32" in note for note in result.notes)
    assert any("only the shapes" in note for note in result.notes)


def test_openvino_s_batches_are_filled_up_and_tried(openvino_bundle, into, read):
    result, out = into(openvino_bundle, "triton", max_batch_size=4)
    config = read(out)
    assert config.max_batch_size == 4
    assert list(config.input[0].dims) == [3, 16, 16]
    assert parameters(config)["ENABLE_BATCH_PADDING"] == "YES"
    assert any("a request alone takes as long as all of them" in note for note in result.notes)


def test_no_batches_where_samples_touch_each_other(make_bundle, into, read):
    nodes = [
        ("ReduceMean", ["x"], ["mean"], {"axes": [0], "keepdims": 1}),
        ("Add", ["x", "mean"], ["y"], {}),
    ]
    bundle = make_bundle(nodes, {"x": ["batch", 4]}, {"y": ["batch", 4]}, (1, 4))
    result, out = into(bundle, "triton")
    assert read(out).max_batch_size == 0
    assert any("give other results than each alone" in note for note in result.notes)
    with pytest.raises(ConstraintError, match="it takes no batches"):
        into(bundle, "triton", max_batch_size=4)


def test_scalars_and_single_numbers_a_sample(make_bundle, into, read):
    nodes = [("ReduceSum", ["x", "axes"], ["y"], {"keepdims": 0})]
    weights = {"axes": np.array([1], np.int64)}
    bundle = make_bundle(nodes, {"x": ["batch", 4]}, {"y": ["batch"]}, (1, 4), weights)
    _, out = into(bundle, "triton")
    port = read(out).output[0]
    assert list(port.dims) == [1]
    assert port.HasField("reshape")
    assert not port.reshape.shape


def test_text_that_must_be_escaped_comes_back_whole(messages):
    name = 'a "quoted"\\name\n with Grüße'
    config = text_format.Parse(
        prototext({"name": name, "input": [{"name": name, "data_type": Word("TYPE_FP32"), "dims": [-1, 3]}]}),
        messages.ModelConfig(),
    )
    assert config.name == config.input[0].name == name
    assert list(config.input[0].dims) == [-1, 3]
