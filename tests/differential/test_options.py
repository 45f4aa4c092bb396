"""Every option of the two runtimes of processors, on random graphs: what is taken for exact is exact."""

import random
from collections import Counter
from itertools import cycle, islice

import msgspec
import numpy as np
import pytest

from edgeopt.backends.onnxruntime.options import OrtOptions
from edgeopt.backends.openvino.options import OpenVinoOptions
from tests.conftest import seeded, write_onnx
from tests.differential import check
from tests.differential.graphs import BYTES, case_from
from tests.differential.opened import opened

ORT, OPENVINO = "onnxruntime-cpu", "openvino-cpu"
QUICK, SWEPT = {ORT: 60, OPENVINO: 6}, {ORT: 400, OPENVINO: 40}
SHARDS = 4
AT_A_TIME = 4
"""Options of one graph in the quick share; each has its turn."""

_STILL = {"threads": 2, "spinning": False}
EXACT = {
    ORT: (
        {"graph_level": "none"},
        {"graph_level": "basic"},
        {"graph_level": "extended"},
        {"graph_level": "layout"},
        {"execution_mode": "parallel", "inter_threads": 2, "threads": 1, "spinning": False},
        _STILL,
        {**_STILL, "dynamic_block_base": 4},
        {"arena": False},
        {"arena_shrink": True},
        {"memory_pattern": False},
        {"prepacking": False},
        {"deterministic": True},
        {"io_binding": True},
    ),
    OPENVINO: (
        {"execution_mode": "accuracy", "precision": ""},
        {"execution_mode": "performance"},
        {"performance_hint": "throughput", "streams": 2},
        {"threads": 2, "partitioner": "auto"},
        {"threads": 2, "partitioner": "static"},
        {"pinning": False, "hyper_threading": False},
        {"mmap": False},
    ),
}
LOSSY = {
    ORT: ({"flush_denormals": True}, {"gelu_approximation": True}),
    OPENVINO: (
        {"precision": "bf16"},
        {"precision": "f16"},
        {"precision": ""},
        {"flush_denormals": True},
        {"dynamic_quantization_group_size": 32},
        {"kv_cache_precision": "u8"},
    ),
}
BASE = {ORT: {"threads": 1}, OPENVINO: {"threads": 1, "precision": "f32"}}
# Where and when a model runs, for which shapes, and what is kept of it; `entries` are the user's own words.
ELSEWHERE = {
    ORT: {"inter_threads", "cores", "spin_duration_us", "spin_backoff_max", "free_dimensions", "entries"},
    OPENVINO: {"cache_dir", "cache_mode", "core_type"}
    | {"shapes", "buckets", "bucket_axes", "bucket_cuts", "bucket_fill", "bucket_mask"},
}


@pytest.mark.parametrize(("backend", "kind"), [(ORT, OrtOptions), (OPENVINO, OpenVinoOptions)])
def test_every_option_stands_in_a_table(backend, kind):
    listed = {name for options in (*EXACT[backend], *LOSSY[backend], BASE[backend]) for name in options}
    assert {field.name for field in msgspec.structs.fields(kind)} == listed | ELSEWHERE[backend]


def wrong(backend, case, options, opener, folder, counted):
    """Where options change numbers beyond rounding; UselessError where the source cannot be judged.

    The runtime's own rewriting is at fault now and then (docs/upstream.md): those answers are counted apart.
    """
    source = check.Source(case, ("ONNX Runtime",))
    path = folder / "model.onnx"
    path.write_bytes(case.model.SerializeToString())
    # Those that end the process of the runtime (docs/upstream.md) would end this one.
    heard = [
        (sample, judge)
        for sample, judge in zip(source.samples, source.answers("ONNX Runtime"), strict=True)
        if not isinstance(judge, str)
    ]
    fed = [sample.feeds for sample, _ in heard]
    plain = opener.answers(backend, path, BASE[backend], fed)
    for one in options:
        answers = opener.answers(backend, path, {**BASE[backend], **one}, fed)
        for (sample, judge), was, now in zip(heard, plain, answers, strict=True):
            if isinstance(was, str) or sample.difference(judge, was, _judged_as(backend)):
                counted["the runtime itself"] += one is options[0]
                continue
            said = now if isinstance(now, str) else sample.difference(was, now, _judged_as(backend))
            if said:
                yield f"{one}, {sample.title}: {said}"
                break


def _judged_as(backend):
    return "OpenVINO" if backend == OPENVINO else "ONNX Runtime"


def judged(backend, count, seed, folder, at_a_time=None):
    found, counted = [], Counter()
    source, turns = random.Random(seed), cycle(EXACT[backend])  # noqa: S311 - graphs are no secrets
    with opened() as opener:
        for _ in range(count):
            case = case_from(source.randbytes(BYTES + BYTES // 2))
            options = tuple(islice(turns, at_a_time or len(EXACT[backend])))
            try:
                said = list(wrong(backend, case, options, opener, folder, counted))
            except check.UselessError:
                continue
            counted["samples"] += 1
            found += [(case.data.hex(), each) for each in said]
    assert counted["samples"] >= 0.8 * count
    return found


@pytest.mark.slow
@pytest.mark.parametrize("backend", [ORT, OPENVINO])
def test_options_that_are_taken_for_exact_are(backend, tmp_path):
    pytest.importorskip("onnxruntime" if backend == ORT else "openvino")
    assert judged(backend, QUICK[backend], 1, tmp_path, AT_A_TIME) == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("backend", [ORT, OPENVINO])
@pytest.mark.parametrize("shard", range(SHARDS))
def test_more_of_them(backend, shard, tmp_path):
    assert judged(backend, SWEPT[backend] // SHARDS, 100 + shard, tmp_path) == []


def small_model(path):
    """Products, a Gelu, and numbers so small that they have fewer digits: each lossy option shows."""
    nodes = [
        ("MatMul", ["x", "w"], ["m"], {}),
        ("Div", ["m", "root"], ["d"], {}),
        ("Erf", ["d"], ["e"], {}),
        ("Add", ["e", "one"], ["a"], {}),
        ("Mul", ["m", "a"], ["p"], {}),
        ("Mul", ["p", "half"], ["y"], {}),
        ("Mul", ["x", "tiny"], ["small"], {}),
        ("Mul", ["small", "huge"], ["z"], {}),
    ]
    weights = {"w": seeded(64, 64), "tiny": np.float32([1e-41]), "huge": np.float32([1e30])}
    weights |= {"root": np.float32(2**0.5), "one": np.float32(1), "half": np.float32(0.5)}
    ports = {"y": [8, 64], "z": [8, 64]}
    return write_onnx(path, nodes, weights, {"x": [8, 64]}, ports)


@pytest.mark.parametrize(
    ("backend", "options"),
    [(ORT, one) for one in LOSSY[ORT]] + [(OPENVINO, one) for one in LOSSY[OPENVINO][:2]],
)
def test_options_that_are_told_to_be_lossy_are(backend, options, tmp_path):
    if backend == OPENVINO:
        known = pytest.importorskip("openvino").Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
        wanted = {"bf16": "BF16", "f16": "FP16"}[options["precision"]]
        if wanted not in known:
            pytest.skip(f"this CPU computes in f32 where {options['precision']} is asked for")
    feeds = [{"x": np.random.default_rng(4).standard_normal((8, 64)).astype(np.float32)}]
    path = small_model(tmp_path / "small.onnx")
    # Of each process the first session decides about denormals in ONNX Runtime.
    with opened(apart=True) as opener:
        (was,) = opener.answers(backend, path, BASE[backend], feeds)
        (now,) = opener.answers(backend, path, {**BASE[backend], **options}, feeds)
    assert any(not np.allclose(was[name], now[name], rtol=1e-5, atol=0) for name in was)
