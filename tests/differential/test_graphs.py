"""The random graphs are what their tests rely on: valid, the same for the same bytes, of many operators."""

import random

import numpy as np
import onnx

from tests.differential.constants import NASTY
from tests.differential.graphs import BYTES, INPUTS, case_from
from tests.differential.regimes import REGIMES, SIZES, feeds
from tests.differential.table import OPERATORS


def some(count):
    source = random.Random(5)  # noqa: S311 - graphs are no secrets
    return [case_from(source.randbytes(2 * BYTES)) for _ in range(count)]


def test_the_table_has_more_than_forty_operators():
    known = {schema.name for schema in onnx.defs.get_all_schemas()}
    kinds = {one.kind for one in OPERATORS}
    assert kinds <= known
    assert len(kinds) > 100


def test_graphs_are_valid_and_made_again_from_their_bytes():
    for case in some(40):
        onnx.checker.check_model(case.model)
        assert case_from(case.data).model.SerializeToString() == case.model.SerializeToString()


def test_bytes_that_end_early_make_the_simplest_graph():
    assert [node.op_type for node in case_from(b"").model.graph.node] == ["Relu"]


def test_nasty_constants_control_flow_open_sizes_and_eight_bits_occur():
    cases = some(150)
    nodes = [node for case in cases for node in case.model.graph.node]
    kinds = {node.op_type for node in nodes}
    assert {"If", "QuantizeLinear", "DequantizeLinear", "Conv", "MatMul"} <= kinds
    weights = [onnx.numpy_helper.to_array(w) for case in cases for w in case.model.graph.initializer]
    numbers = {float(n) for w in weights if w.dtype == np.float32 and w.size for n in w.reshape(-1)[:1]}
    assert len({float(np.float32(n)) for n in NASTY} & numbers) > 8
    assert any(np.isnan(w).any() for w in weights if w.dtype == np.float32)
    assert {len(case.sizes) for case in cases} == {1, len(SIZES)}


def test_growing_loops_given_trip_counts_and_empty_inputs_occur():
    cases = some(600)
    loops = [node for case in cases for node in case.model.graph.node if node.op_type == "Loop"]
    bodies = [{node.op_type for node in attribute.g.node} for loop in loops for attribute in loop.attribute]
    assert any("Concat" in body for body in bodies)
    assert any(loop.input[0] == "trips" for loop in loops)
    trips = next(one for one in INPUTS if one.name == "trips")
    assert {int(feeds((trips,), place)["trips"]) for place in range(len(REGIMES))} == {0, 2, 5}
    words = next(one for one in INPUTS if one.name == "words")
    assert {feeds((words,), 0, size)["words"].shape[:2] for size in range(len(SIZES))} >= {(0, 3), (2, 0)}


def test_regimes_are_what_they_are_called():
    names = [name for name, _ in REGIMES]
    words = next(one for one in INPUTS if one.name == "words")
    fed = {name: feeds((words,), place)["words"] for place, name in enumerate(names)}
    assert not fed["zeros"].any()
    assert 0 < np.abs(fed["1e-12"]).max() < 1e-11
    assert np.abs(fed["times 100"]).max() > 100
    assert len(np.unique(fed["constant"])) == 1
    assert np.count_nonzero(fed["one hot"]) == 1
    assert np.abs(np.diff(np.sign(fed["alternating"].reshape(-1)))).min() == 2
    assert np.isnan(fed["NaN"]).any()
    assert np.isposinf(fed["infinities and -0"]).any()
    assert (np.signbit(fed["infinities and -0"]) & (fed["infinities and -0"] == 0)).any()
