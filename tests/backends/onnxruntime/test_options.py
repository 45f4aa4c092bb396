import numpy as np
import pytest

from edgeopt.backends import backend_named
from edgeopt.backends.onnxruntime.options import OrtOptions, session_options
from edgeopt.errors import UsageError

ort = pytest.importorskip("onnxruntime")


def entry(options, key):
    return session_options(options).get_session_config_entry(key)


def test_what_the_session_is_given():
    made = session_options(
        OrtOptions(
            threads=3,
            inter_threads=2,
            graph_level="basic",
            execution_mode="parallel",
            arena=False,
            memory_pattern=False,
            deterministic=True,
        )
    )
    assert (made.intra_op_num_threads, made.inter_op_num_threads) == (3, 2)
    assert made.graph_optimization_level == ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    assert made.execution_mode == ort.ExecutionMode.ORT_PARALLEL
    assert (made.enable_cpu_mem_arena, made.enable_mem_pattern) == (False, False)
    assert made.use_deterministic_compute


def test_the_runtime_stays_quiet():
    assert session_options(OrtOptions()).log_severity_level == 3


@pytest.mark.parametrize("level", ["none", "basic", "extended", "layout", "all"])
def test_every_level_reaches_the_runtime(onnx_file, level):
    session = backend_named("onnxruntime-cpu").load(onnx_file("batch"), {"graph_level": level})
    assert session.run({"x": np.ones((1, 3), np.float32)})["y"].tolist() == [[2, 2, 2]]


@pytest.mark.parametrize(
    ("options", "key", "value"),
    [
        ({"spinning": False}, "session.intra_op.allow_spinning", "0"),
        ({"spinning": True}, "session.intra_op.allow_spinning", "1"),
        ({"spin_duration_us": 100}, "session.intra_op.spin_duration_us", "100"),
        ({"dynamic_block_base": 4}, "session.dynamic_block_base", "4"),
        ({"prepacking": False}, "session.disable_prepacking", "1"),
        ({"flush_denormals": True}, "session.set_denormal_as_zero", "1"),
        ({"gelu_approximation": True}, "optimization.enable_gelu_approximation", "1"),
    ],
)
def test_settings_by_key(options, key, value):
    assert entry(OrtOptions(**options), key) == value


def test_a_level_that_is_none_names_the_nearest(onnx_file):
    with pytest.raises(UsageError, match="'graph_level'") as raised:
        backend_named("onnxruntime-cpu").load(onnx_file("batch"), {"graph_level": "extendet"})
    assert "'extended'" in raised.value.hint
