"""Random graphs in OpenVINO: the source there against ONNX Runtime, then the simplified graph against the source.

    .venv/bin/python -m tests.differential.openvino_sweep --seed 0 --graphs 5000

Prints each graph that differs as its bytes and whether the proof catches it, then how many were run, and why
others say nothing. Ends with 1 if the proof lets one pass. OpenVINO runs in a process of its own for 100 models at
a time, so that a crash is an answer.
"""

import argparse
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from edgeopt.data.samples import from_feeds, write_archive
from edgeopt.graph.model import load
from edgeopt.measure.exactness.proof import SourceCheck
from tests.differential import check
from tests.differential.graphs import BYTES, Case, case_from
from tests.differential.table import WITH_SHUFFLES

RUNTIME = "OpenVINO"
FAULTS = {
    "QLinearConv": "rounds to another step with the layout",
    "QLinearMatMul": "rounds to another step with the layout",
    "DynamicQuantizeLinear": "rounds halves to another step",
    "QuantizeLinear": "rounds halves to another step",
    "ReduceLogSumExp": "reduces all dimensions where the axes are an attribute",
    "ReduceLogSum": "reduces all dimensions where the axes are an attribute",
    "ReduceL1": "keeps the sign where it reduces nothing",
    "ReduceMax": "gives the smallest number of nothing, not minus infinity",
    "ReduceMin": "gives the largest number of nothing, not infinity",
    "LpNormalization": "adds an epsilon",
    "HardSigmoid": "takes 0.2 for an alpha of 0",
    "Loop": "returns uninitialized memory where it never runs",
    "Flatten": "takes another width for an empty tensor",
    "ArgMax": "gives an empty tensor other sizes",
    "ArgMin": "gives an empty tensor other sizes",
    "Expand": "makes one element with a dimension of a number",
    "ReduceL2": "keeps the sign where it reduces nothing",
    "ReduceProd": "rounds by up to 5e-6 over many factors",
    "Mod": "computes x - y * trunc(x / y), with its rounding and overflows",
    "Softplus": "is off by up to 8e-6, also in Mish",
    "Log": "of Exp(x) + 1 becomes a Softplus, which never overflows",
    "LogSoftmax": "is off by 1e-7 near 0",
    "Erf": "is 0 below 1e-8, and becomes a GELU with a root of 2 that is off by 1e-3",
    "Tanh": "becomes a GELU with constants that are off by 1e-2",
    "Softmax": "is 0 below 2e-38",
    "Exp": "is 0 below 2e-38",
    "LRN": "is off by 5e-5",
    "InstanceNormalization": "gives one element a little more than its bias",
    "Cast": "to float16 and back is left out; numbers that an integer cannot hold become its ends",
    "MaxPool": "begins a last window in the padding where sizes are rounded up",
    "DequantizeLinear": "gives wrong products where a Gemm has the same weights on its left",
    "GRU": "is wrong in both directions where an Unsqueeze reads its input too",
    "LSTM": "is wrong in both directions where an Unsqueeze reads its input too",
    "RNN": "is wrong in both directions where an Unsqueeze reads its input too",
    "ThresholdedRelu": "gives -0 for negative numbers",
}
"""Operators that OpenVINO computes otherwise than ONNX Runtime in the source itself (docs/upstream.md)."""


@dataclass(frozen=True)
class Outcome:
    """What became of one graph."""

    differences: tuple[str, ...] = ()
    """Where the simplified graph is wrong; empty inputs and what is NaN are not compared in OpenVINO."""
    caught: str = ""
    """What the proof of `edgeopt simplify` says against that graph, which rolls the pass back."""
    silent: str = ""
    """Why some or all of its samples say nothing: OpenVINO does not run the source, or has a fault there."""
    unexplained: str = ""
    """A fault of OpenVINO in the source that the table does not have."""


def outcome(case: Case) -> Outcome:
    try:
        source = check.Source(case, (check.JUDGE, RUNTIME))
        found = [one for one in source.findings() if one.runtime in {RUNTIME, "-"}]
    except check.UselessError:
        return Outcome(silent="ONNX Runtime does not run the source")
    odd = {sample.title for sample in source.samples if sample.is_empty or not sample.is_finite}
    differences = tuple(str(one) for one in found if one.where not in odd and "nan" not in one.said)
    kinds = set(_kinds(case.model.graph))
    if kinds & {"QLinearConv", "QLinearMatMul"}:
        differences = ()
    if differences:
        regular = [one.feeds for one in source.samples if one.size == 0 and one.title not in odd]
        return Outcome(differences, proof_says(case, regular))
    answers = source.answers(RUNTIME)
    if refused := next((one for one in answers if isinstance(one, str)), ""):
        return Outcome(silent=f"OpenVINO does not run the source: {_in_short(refused)}")
    wrong = [one for one in source.disagreements() if one.runtime == RUNTIME and not one.where.startswith("NaN")]
    if not wrong:
        return Outcome()
    if all("nan" in one.said for one in wrong):
        return Outcome(silent="OpenVINO computes the source otherwise: it makes numbers of NaN, or drops it")
    if all(one.where.startswith("infinit") for one in wrong):
        return Outcome(silent="OpenVINO computes the source otherwise: numbers and truths made of NaN inside")
    if all("int64(" in one.said for one in wrong):
        return Outcome(silent="OpenVINO computes the source otherwise: it computes int64 in 32 bits")
    if known := sorted(kinds & FAULTS.keys()):
        return Outcome(silent=f"OpenVINO computes the source otherwise: {known[0]} {FAULTS[known[0]]}")
    return Outcome(silent="OpenVINO computes the source otherwise, unexplained", unexplained=str(wrong[0]))


def proof_says(case: Case, samples: list[dict[str, np.ndarray]]) -> str:
    """Why the proof on these samples refuses the simplified graph; empty where it lets it pass."""
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(case.model, Path(folder) / "source.onnx")
        data = Path(folder) / "samples.npz"
        write_archive(data, from_feeds(samples))
        with closing(SourceCheck.of(load(Path(folder) / "source.onnx"), data)) as proof:
            return proof.why_wrong(check.loaded(check.simplified(case.model)).ir) or ""


def sweep(seed: int, count: int) -> Iterator[tuple[bytes, Outcome]]:
    """The bytes of each graph, with what became of it."""
    source = random.Random(seed)  # noqa: S311 - graphs are no secrets
    for _ in range(count):
        data = source.randbytes(BYTES + BYTES // 2)
        yield data, outcome(case_from(data, steps=WITH_SHUFFLES))


def main() -> int:
    parser = argparse.ArgumentParser(description="Random graphs, simplified and judged in OpenVINO.")
    parser.add_argument("--seed", type=int, default=0, help="Seed of the graphs, default 0.")
    parser.add_argument("--graphs", type=int, default=1000, help="Number of graphs, default 1000.")
    asked = parser.parse_args()
    start, failing, caught, silent = time.monotonic(), 0, 0, Counter[str]()
    for number, (data, one) in enumerate(sweep(asked.seed, asked.graphs), 1):
        failing += bool(one.differences) and not one.caught
        caught += bool(one.caught)
        silent.update([one.silent] if one.silent else [])
        if one.differences:
            said = f"CAUGHT ({one.caught})" if one.caught else "DIFFERS"
            _print(f"{said} {data.hex()}\n    " + "\n    ".join(one.differences))
        if one.unexplained:
            _print(f"UNEXPLAINED {data.hex()}\n    {one.unexplained}")
        if number % 100 == 0 or number == asked.graphs:
            said = f"{number} graphs, {failing} differ, {caught} more are caught, {silent.total()} say nothing"
            _print(f"{said}, {time.monotonic() - start:.0f} s")
    for reason, count in silent.most_common():
        _print(f"{count:6} {reason}")
    return int(failing > 0)


def _kinds(graph: onnx.GraphProto) -> Iterator[str]:
    for node in graph.node:
        yield node.op_type
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _kinds(attribute.g)


def _in_short(said: str) -> str:
    """The last line of OpenVINO's, which says what is wrong, without what names the node."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    named = [line for line in lines if line.startswith(("Check", "While", "crashed", "an input"))]
    return re.sub(r"\d+", "#", (named or lines or [""])[0])[:90]


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
