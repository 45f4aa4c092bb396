import os
import re
from pathlib import Path

import numpy as np
import pytest

from edgeopt.backends import backend_named
from edgeopt.backends.onnxruntime import nvidia
from edgeopt.backends.onnxruntime.options import (
    ELSEWHERE,
    KNOWN,
    OPTIONS,
    OrtOptions,
    affinities,
    core_list,
    dimensions,
    read_entries,
    run_options,
    session_options,
)
from edgeopt.backends.onnxruntime.session import _bound_run, load_session
from edgeopt.errors import DataError, UsageError

ort = pytest.importorskip("onnxruntime")
ORT = backend_named("onnxruntime-cpu")
CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
"""Those that this process may run on."""


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
    assert not made.enable_profiling


def test_the_runtime_stays_quiet():
    assert session_options(OrtOptions()).log_severity_level == 3


@pytest.mark.parametrize("level", ["none", "basic", "extended", "layout", "all"])
def test_every_level_reaches_the_runtime(onnx_file, level):
    session = ORT.load(onnx_file("batch"), {"graph_level": level})
    assert session.run({"x": np.ones((1, 3), np.float32)})["y"].tolist() == [[2, 2, 2]]


@pytest.mark.parametrize(
    ("options", "key", "value"),
    [
        ({"spinning": False}, "session.intra_op.allow_spinning", "0"),
        ({"spinning": True}, "session.intra_op.allow_spinning", "1"),
        ({"spin_duration_us": 100}, "session.intra_op.spin_duration_us", "100"),
        ({"spin_backoff_max": 8}, "session.intra_op.spin_backoff_max", "8"),
        ({"dynamic_block_base": 4}, "session.dynamic_block_base", "4"),
        ({"prepacking": False}, "session.disable_prepacking", "1"),
        ({"flush_denormals": True}, "session.set_denormal_as_zero", "1"),
        ({"gelu_approximation": True}, "optimization.enable_gelu_approximation", "1"),
        ({"entries": "session.x64quantprecision = 1"}, "session.x64quantprecision", "1"),
    ],
)
def test_settings_by_key(options, key, value):
    assert entry(OrtOptions(**options), key) == value


def test_a_level_that_is_none_names_the_nearest(onnx_file):
    with pytest.raises(UsageError, match="'graph_level'") as raised:
        ORT.load(onnx_file("batch"), {"graph_level": "extendet"})
    assert "'extended'" in raised.value.hint


def test_every_known_key_is_one_of_the_installed_runtime():
    from onnxruntime.capi import onnxruntime_pybind11_state as binding

    content = Path(binding.__file__).read_bytes()
    assert [key for key in (*KNOWN, *OPTIONS) if key.encode() not in content] == []
    assert not set(KNOWN) & set(ELSEWHERE)


def test_every_key_for_kernels_that_the_runtime_has_is_known():
    """A new version brings new ones, which nobody would miss."""
    from onnxruntime.capi import onnxruntime_pybind11_state as binding

    found = re.findall(rb"\x00(mlas\.[a-z0-9_.]+)\x00", Path(binding.__file__).read_bytes())
    assert {key.decode() for key in found} <= {*KNOWN, *ELSEWHERE, *OPTIONS}
    assert found


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "session.x64quantprecison=1",
            "no session config key 'session.x64quantprecison'",
            "'session.x64quantprecision'",
        ),
        ("session.disable_prepacking=1", "has an option of its own", "'prepacking'"),
        ("session.x64quantprecision", "no key with a value", "key=value"),
        ("=1", "no key with a value", "key=value"),
    ],
)
def test_an_entry_that_the_runtime_would_take_in_silence(onnx_file, text, message, hint):
    with pytest.raises(UsageError, match=message) as raised:
        ORT.load(onnx_file("batch"), {"entries": text})
    assert hint in raised.value.hint


def test_several_entries():
    text = "session.x64quantprecision=1; mlas.disable_kleidiai = 1;"
    assert read_entries(text, "x") == {"session.x64quantprecision": "1", "mlas.disable_kleidiai": "1"}


def test_fixed_dimensions_are_seen_and_kept_to(onnx_file):
    session = ORT.load(onnx_file("batch"), {"free_dimensions": "batch=2"})
    assert session.inputs[0].shape == (2, 3)
    assert session.run({"x": np.ones((2, 3), np.float32)})["y"].shape == (2, 3)
    with pytest.raises(DataError, match=r"shape \[2, 3\]"):
        session.run({"x": np.ones((1, 3), np.float32)})


def test_a_dimension_that_the_model_does_not_have(onnx_file):
    with pytest.raises(UsageError, match="no dimension named 'batsch'") as raised:
        ORT.load(onnx_file("batch"), {"free_dimensions": "batsch=2"})
    assert "'batch'" in raised.value.hint
    with pytest.raises(UsageError) as raised:
        ORT.load(onnx_file("fixed"), {"free_dimensions": "batch=2"})
    assert "All dimensions" in raised.value.hint


def test_texts():
    assert dimensions("batch=1, a=b=12", "x") == {"batch": 1, "a=b": 12}
    assert core_list("", "x") == ()
    assert core_list(f"{CORES[0]}, {CORES[0]}-{CORES[0]}", "x") == (CORES[0],)
    assert affinities((4, 5, 6)) == "6;7"


@pytest.mark.parametrize("text", ["batch", "batch=", "batch=0", "batch=-1", "=3", "batch=x"])
def test_no_dimension_with_a_size(text):
    with pytest.raises(UsageError, match="no dimension with a size"):
        dimensions(text, "x")


@pytest.mark.parametrize("text", ["a", "3-1", "-1", "0-", "0-99999"])
def test_no_list_of_cores(text):
    with pytest.raises(UsageError, match="not a list of cores"):
        core_list(text, "x")


def test_a_core_that_this_device_does_not_have():
    with pytest.raises(UsageError, match="logical cores"):
        core_list(str(os.cpu_count()), "x")


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system does not report it")
def test_a_core_that_this_process_may_not_use():
    from concurrent.futures import ThreadPoolExecutor

    def narrow():
        # An affinity is a thread's own.
        os.sched_setaffinity(0, CORES[:1])
        with pytest.raises(UsageError, match=f"core {CORES[1]}, which this process may not run on") as raised:
            core_list(f"{CORES[0]},{CORES[1]}", "x")
        assert raised.value.hint.endswith(f": {CORES[0]}.")

    if len(CORES) < 2:
        pytest.skip("needs a core to take away")
    with ThreadPoolExecutor(1) as pool:
        pool.submit(narrow).result()


def test_one_core_would_pin_nothing():
    with pytest.raises(UsageError, match="names one core only") as raised:
        session_options(OrtOptions(cores=str(CORES[0])))
    assert f"taskset -c {CORES[0]}" in raised.value.hint
    with pytest.raises(UsageError, match="names 1 core for 4 threads"):
        session_options(OrtOptions(cores=str(CORES[0]), threads=4))


@pytest.mark.skipif(len(CORES) < 2, reason="needs two cores to pin to")
def test_threads_are_pinned_to_the_cores(onnx_file):
    options = session_options(OrtOptions(cores=f"{CORES[1]},{CORES[0]}"))
    assert options.intra_op_num_threads == 2
    assert options.get_session_config_entry("session.intra_op_thread_affinities") == str(CORES[0] + 1)
    session = ORT.load(onnx_file("batch"), {"cores": f"{CORES[0]},{CORES[1]}"})
    assert session.run({"x": np.ones((1, 3), np.float32)})["y"].tolist() == [[2, 2, 2]]
    with pytest.raises(UsageError, match="2 cores for 3 threads"):
        ORT.load(onnx_file("batch"), {"cores": f"{CORES[0]},{CORES[1]}", "threads": 3})


def test_the_arena_shrinks_where_that_is_asked_for(onnx_file):
    assert run_options(OrtOptions()) is None
    made = run_options(OrtOptions(arena_shrink=True))
    assert made.get_run_config_entry("memory.enable_memory_arena_shrinkage") == "cpu:0"
    session = ORT.load(onnx_file("batch"), {"arena_shrink": True})
    for _ in range(2):
        assert session.run({"x": np.ones((1, 3), np.float32)})["y"].tolist() == [[2, 2, 2]]


def test_an_arena_that_is_off_cannot_shrink(onnx_file):
    with pytest.raises(UsageError, match="'arena_shrink' shrinks an arena"):
        ORT.load(onnx_file("batch"), {"arena_shrink": True, "arena": False})


def test_a_gpus_arena_shrinks_too():
    def arenas(options, gpu):
        return run_options(options, gpu).get_run_config_entry("memory.enable_memory_arena_shrinkage")

    assert arenas(OrtOptions(arena_shrink=True), 1) == "cpu:0;gpu:1"
    # The processor's arena that is off is not named: the runtime would refuse the run.
    assert arenas(OrtOptions(arena_shrink=True, arena=False), 0) == "gpu:0"
    assert nvidia.CUDA_PROVIDER.gpu(nvidia.CudaOptions(device_id=2)) == 2
    assert nvidia.TENSORRT_PROVIDER.gpu(nvidia.TensorrtOptions(device_id=3)) == 3


def test_an_arena_that_shrinks_takes_no_recorded_graph(onnx_file):
    options = {"arena_shrink": True, "enable_cuda_graph": True}
    with pytest.raises(UsageError, match="memory that a recorded graph works in"):
        load_session(nvidia.CUDA_PROVIDER, onnx_file("batch"), options, False, ())


def test_a_bound_run_on_a_gpu_shrinks_the_gpus_arena():
    made = _bound_run(nvidia.CUDA_PROVIDER, None, nvidia.CudaOptions(arena_shrink=True, device_id=1), ())
    assert made._options.get_run_config_entry("memory.enable_memory_arena_shrinkage") == "cpu:0;gpu:1"
