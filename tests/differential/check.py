"""One random model before and after the passes, in each runtime, for every regime."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
from onnx import numpy_helper

from edgeopt.graph.ledger import Ledger
from edgeopt.graph.model import Model, save
from edgeopt.graph.passes import PassContext
from edgeopt.graph.pipeline import run_pipeline
from edgeopt.graph.shapes.infer import fill_outputs
from tests.differential import judge
from tests.differential.graphs import Case
from tests.differential.interpreter import FUSED_INTO_SOFTMAX, Flushing, Program, Rounding, program
from tests.differential.regimes import NOT_FINITE, REGIMES, feeds
from tests.differential.runtimes import RUNTIMES, Answers, Outputs
from tests.differential.turns import TURNS

Rewrite = Callable[[onnx.ModelProto], onnx.ModelProto]
USUAL = ("reference", "ONNX Runtime")
REFERENCE, JUDGE = USUAL
"""What a source must run in, or there is nothing to judge."""


class UselessError(Exception):
    """The model itself is refused by the runtime that judges."""


class BrokenPassError(Exception):
    """A pass failed, or left something invalid."""


@dataclass(frozen=True)
class Finding:
    """Two answers that should be the same and are not."""

    runtime: str
    where: str
    said: str

    def __str__(self) -> str:
        return f"{self.runtime}, {self.where}: {self.said}"


@dataclass
class Sample:
    """One thing that the model is fed, and what rounding may make of it."""

    title: str
    size: int
    feeds: dict[str, np.ndarray]
    numbers: Program
    _rounded: dict[tuple[bool, int], list[Outputs]] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not all(array.size for array in self.feeds.values()) or self.feeds.get(TURNS.name) == 0

    @property
    def extent(self) -> tuple[int, int]:
        """What decides how large values inside are."""
        return self.size, int(self.feeds.get(TURNS.name, 0))

    @property
    def is_finite(self) -> bool:
        return not self.title.startswith(tuple(NOT_FINITE))

    def rounded(self, flush: bool, runs: int) -> list[Outputs]:
        """The source, computed with several kinds of rounding errors."""
        if (flush, runs) not in self._rounded:
            roundings = [
                None,
                *(Rounding(np.random.default_rng(seed), together=seed % 2 == 1) for seed in range(runs)),
            ]
            roundings.append(Flushing() if flush else Flushing(FUSED_INTO_SOFTMAX))
            self._rounded[flush, runs] = [run for one in roundings if (run := self._run(one)) is not None]
        return self._rounded[flush, runs]

    def _run(self, rounding: Rounding | None) -> Outputs | None:
        try:
            return self.numbers.run(self.feeds, rounding)
        except Exception:  # noqa: BLE001 - the reference lacks a thing here and there
            return None

    def difference(self, was: Outputs, now: Outputs, runtime: str) -> str | None:
        """What differs; where a few runs do not explain it, many are asked, for of 240 signs a few fall alike."""
        flush = runtime == "OpenVINO"
        if flush:  # beside a Transpose it loses the leading ones that a constant of more dimensions brings in
            now = {name: _with_leading_ones(array, was.get(name)) for name, array in now.items()}
        said = judge.difference(was, now, lambda: self.rounded(flush, judge.RUNS))
        return judge.difference(was, now, lambda: self.rounded(flush, judge.MANY_RUNS)) if said else None


class Source:
    """A case, and what each runtime answers to it before anything is rewritten."""

    def __init__(
        self, case: Case, names: Sequence[str] = USUAL, regimes: Sequence[int] = range(len(REGIMES))
    ) -> None:
        self.case, self.names, self.regimes = case, names, regimes
        self._answers: dict[str, Answers] = {}
        if isinstance(said := self.answers(JUDGE)[0], str):
            raise UselessError(said)

    @cached_property
    def samples(self) -> list[Sample]:
        numbers = program(self.case.model.graph, self.case.opset)
        # Two regimes show what another size can, and one what an empty input can.
        shown = (len(self.regimes), 2, 1, 1)
        places = [(size, k) for size in self.case.sizes for k in self.regimes[: shown[size]]]
        return [
            Sample(f"{REGIMES[k][0]}, size {size}", size, feeds(self.case.inputs, k, size), numbers)
            for size, k in places
        ]

    def answers(self, name: str) -> Answers:
        if name not in self._answers:
            self._answers[name] = RUNTIMES[name](self.case.model, [sample.feeds for sample in self.samples])
        return self._answers[name]

    def disagreements(self) -> Iterator[Finding]:
        """Where runtimes do not agree on the source itself: no pass is to blame."""
        for name in self.names:
            for sample, one, other in zip(self.samples, self.answers(JUDGE), self.answers(name), strict=True):
                if isinstance(one, str):
                    continue
                if said := other if isinstance(other, str) else sample.difference(one, other, name):
                    yield Finding(name, sample.title, said)

    def findings(self, rewrite: "Rewrite | None" = None) -> Iterator[Finding]:
        """What is wrong with the rewritten model; without one, after all exact passes, by what each promises."""
        source = self.case.model
        try:
            entries, result = ((), rewrite(source)) if rewrite else rewritten(source)
            finite_only = [entry.pass_name for entry in entries if entry.finite_only]
            nonempty_only = any(entry.nonempty_only for entry in entries)
            strict = [
                one
                for one in self.samples
                if (finite_only and (one.is_empty or not one.is_finite)) or (nonempty_only and one.is_empty)
            ]
            yield from self._wrong(result, [one for one in self.samples if one not in strict])
            if strict:
                _, result = rewritten(source, finite_only, PassContext(empty_inputs=True))
                yield from self._wrong(result, strict)
        except BrokenPassError as error:
            yield Finding("-", "-", str(error))

    def _wrong(self, result: onnx.ModelProto, samples: Sequence[Sample]) -> Iterator[Finding]:
        if said := _ports_differ(self.case.model, result):
            yield Finding("-", "-", said)
        for name in self.names:
            answers = RUNTIMES[name](result, [sample.feeds for sample in samples])
            yield from self._compared(name, samples, answers)

    def _compared(self, name: str, samples: Sequence[Sample], answers: Answers) -> Iterator[Finding]:
        judges = dict(zip(self.titles, self.answers(JUDGE), strict=True))
        before = dict(zip(self.titles, self.answers(name), strict=True))
        for sample, now in zip(samples, answers, strict=True):
            judged, was = judges[sample.title], before[sample.title]
            if sample.extent in self.failing or isinstance(was, str) or isinstance(judged, str):
                continue
            if name == REFERENCE and isinstance(now, str) and (sample.is_empty or not sample.is_finite):
                continue  # its pools divide by a batch of 0, and find no maximum of nothing but NaN
            if name == REFERENCE and _infinities_differ(judged, was):
                continue  # its Resize makes the largest number of infinity
            if name == "OpenVINO" and sample.title.startswith("NaN"):
                continue  # its Relu, Clip, Min and Max make numbers of NaN, by what they are fused with
            if sample.is_empty and name.startswith(JUDGE) and self._is_wrong(sample, was):
                continue
            said = f"the result fails: {now}" if isinstance(now, str) else sample.difference(was, now, name)
            if not said or (name != JUDGE and sample.difference(judged, was, name)):
                continue  # it was wrong before; what it makes of the result says nothing
            yield Finding(name, sample.title, said)

    @cached_property
    def failing(self) -> set[tuple[int, int]]:
        """Where a branch fails, the graph knows another size by heart, whichever branch is taken."""
        answers = zip(self.samples, self.answers(JUDGE), strict=True)
        return {sample.extent for sample, answer in answers if isinstance(answer, str)}

    def _is_wrong(self, sample: Sample, was: Outputs) -> bool:
        """Whether the source's answer to an empty input is another one than the reference's, or may be within."""
        if self.reduces_from_the_back:
            return True
        (right,) = RUNTIMES[REFERENCE](self.case.model, [sample.feeds])
        return not isinstance(right, str) and sample.difference(right, was, JUDGE) is not None

    @cached_property
    def reduces_from_the_back(self) -> bool:
        """Whether a reduction counts its axes from the back, which ONNX Runtime keeps where it is empty."""
        return any(axis < 0 for axis in _reduced_axes(self.case.model.graph, {}))

    @property
    def titles(self) -> list[str]:
        return [sample.title for sample in self.samples]


def findings(case: Case, rewrite: "Rewrite | None" = None, names: Sequence[str] = USUAL) -> Iterator[Finding]:
    """What is wrong with the rewritten model; UselessError where the source cannot be judged."""
    return Source(case, names).findings(rewrite)


def rewritten(
    model: onnx.ModelProto, skip: Sequence[str] = (), context: "PassContext | None" = None
) -> tuple[Ledger, onnx.ModelProto]:
    """The model after all exact passes; nothing checks the numbers here, so that the passes are judged."""
    result = run_pipeline(loaded(model), skip=skip, context=context)
    undone = [f"{entry.pass_name}: {entry.rolled_back}" for entry in result.ledger if entry.rolled_back]
    if undone:
        raise BrokenPassError("; ".join(undone))
    with tempfile.TemporaryDirectory() as folder:
        save(result.model_ir, Path(folder) / "result.onnx")
        return result.ledger, onnx.load(Path(folder) / "result.onnx")


def simplified(model: onnx.ModelProto, skip: Sequence[str] = ()) -> onnx.ModelProto:
    return rewritten(model, skip)[1]


def loaded(model: onnx.ModelProto) -> Model:
    graph = ir.from_proto(model)
    fill_outputs(graph)
    return Model(graph, Path("random.onnx"), "")


def _reduced_axes(graph: onnx.GraphProto, outside: dict[str, onnx.TensorProto]) -> Iterator[int]:
    weights = {**outside, **{weight.name: weight for weight in graph.initializer}}
    for node in graph.node:
        named = {attribute.name: attribute for attribute in node.attribute}
        if node.op_type == "Constant":
            weights[node.output[0]] = named["value"].t
        if node.op_type.startswith("Reduce"):
            yield from named["axes"].ints if "axes" in named else ()
            known = [weights[name] for name in node.input[1:2] if name in weights]
            yield from (int(axis) for one in known for axis in numpy_helper.to_array(one).reshape(-1))
        for attribute in node.attribute:
            yield from _reduced_axes(attribute.g, weights) if attribute.HasField("g") else ()


def _infinities_differ(one: Outputs, other: Outputs) -> bool:
    pairs = [(array, other[name]) for name, array in one.items() if array.dtype.kind == "f"]
    return any(a.shape == b.shape and not np.array_equal(np.isinf(a), np.isinf(b)) for a, b in pairs)


def _with_leading_ones(array: np.ndarray, like: "np.ndarray | None") -> np.ndarray:
    missing = 0 if like is None else like.ndim - array.ndim
    return array.reshape(like.shape) if missing > 0 and like.shape == (1,) * missing + array.shape else array


def _ports_differ(source: onnx.ModelProto, result: onnx.ModelProto) -> str | None:
    def ports(model: onnx.ModelProto) -> list[str]:
        weights = {weight.name for weight in model.graph.initializer}
        inputs = [value.name for value in model.graph.input if value.name not in weights]
        return [*inputs, *(value.name for value in model.graph.output)]

    return (
        None if ports(source) == ports(result) else f"inputs and outputs are {ports(result)}, not {ports(source)}"
    )
