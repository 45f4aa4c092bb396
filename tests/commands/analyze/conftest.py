"""Analyses written by hand, so that a test says what a node costs; and a device with measured peaks."""

import msgspec
import pytest

from edgeopt.commands.analyze.opportunity_view import View
from edgeopt.graph.analysis import Analysis, Cost, NodeRow, TensorFacts
from edgeopt.hw.device import ComputePeak, MemoryPeak, Peaks
from tests.conftest import this_device


def tensors(*specs):
    """`x 4 8 float32` as a tensor; letters are open dimensions, and the type may be left out."""
    found = []
    for spec in specs:
        name, *rest = spec.split()
        dtype = rest.pop() if rest and rest[-1].rstrip("0123456789") in {"float", "int", "uint"} else "float32"
        found.append(TensorFacts(name, dtype, tuple(int(d) if d.isdigit() else d for d in rest)))
    return tuple(found)


@pytest.fixture
def node():
    def make(operator, inputs, outputs, category, operations=0, moved=0, macs=0, **more):
        """A node of the main graph: what it computes, and what it reads and writes together."""
        cost = Cost(macs, operations, moved - moved // 2, moved // 2)
        fields = {"weights_bytes": 0, "parameters": 0, "name": f"n_{outputs[0].split()[0]}"} | more
        ports = {"inputs": tensors(*inputs), "outputs": tensors(*outputs)}
        return NodeRow(0, operator=operator, domain="", category=category, cost=cost, **ports, **fields)

    return make


@pytest.fixture
def analysis(tmp_path):
    def make(*rows, inputs=("x 4 8",), outputs=("y 4 8",), **fields):
        numbered = tuple(msgspec.structs.replace(row, position=k) for k, row in enumerate(rows))
        return Analysis(
            name="m.onnx",
            path=str(tmp_path / "m.onnx"),
            kind="model",
            format="ONNX",
            digest="0" * 64,
            size_bytes=1,
            weights_bytes=0,
            parameters=0,
            nodes_count=len(rows),
            inputs=tensors(*inputs),
            outputs=tensors(*outputs),
            operators=(),
            nodes=numbered,
            weights_count=0,
            weights=(),
            **fields,
        )

    return make


@pytest.fixture
def view(analysis):
    def make(*rows, device=None, rewritten=None, data=None, threads=None, **fields):
        return View(analysis(*rows, **fields), device, threads, rewritten, data)

    return make


@pytest.fixture(scope="session")
def device():
    """This one with peaks: int8 four times as fast as float32, bfloat16 as fast as float32."""
    rates = {"fp32": 1e11, "int8": 4e11, "bf16": 1e11}
    compute = tuple(ComputePeak("onnxruntime", name, 1, rate, "MatMul") for name, rate in rates.items())
    memory = (MemoryPeak("memory", 1, 1 << 26, 1e10, 1e10),)
    return msgspec.structs.replace(this_device(), peaks=Peaks("2026-01-01T00:00:00+00:00", 1.0, compute, memory))
