"""`edgeopt simplify`: rewrites a model, proves that it still is the same, and writes it; also for scripts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from edgeopt import events
from edgeopt.commands.simplify.request import SimplifyRequest, context_of, requested
from edgeopt.errors import EdgeoptError, UsageError
from edgeopt.graph.accuracy import OutputAccuracy
from edgeopt.graph.ledger import Ledger
from edgeopt.keywords import read
from edgeopt.measure.exactness.cases import LeftOut, NotCompared
from edgeopt.nearest import near

if TYPE_CHECKING:
    import onnx_ir as ir

    from edgeopt.graph.analysis import Analysis
    from edgeopt.graph.model import Model
    from edgeopt.graph.passes import Pass
    from edgeopt.graph.pipeline import PipelineResult
    from edgeopt.measure.exactness.proof import SourceCheck


class Simplified(msgspec.Struct, frozen=True):
    source: str
    output: str
    nodes_before: int
    nodes_after: int
    size_before_bytes: int
    size_after_bytes: int
    ledger: Ledger
    snr_db: float | None
    """Signal-to-noise ratio of the result against the source; None if it could not be measured."""
    samples: int
    """Number of ordinary samples, from the user or generated."""
    not_verified: str | None = None
    """Reason why the result could not be measured; None if it was."""
    outputs: tuple[OutputAccuracy, ...] = ()
    runtime: str = ""
    """Runtime in which the figures were measured."""
    equal_in: tuple[str, ...] = ()
    """Other runtimes in which the results equal the source's."""
    not_compared: tuple[NotCompared, ...] = ()
    """Runtimes that load both models, but give nothing to compare with."""
    loads_in: tuple[str, ...] = ()
    """Runtimes that load both the source and the result."""
    repairs: tuple[str, ...] = ()
    """Repairs made while the source was read."""
    regimes: tuple[str, ...] = ()
    """Input distributions in which results equal the source's up to rounding: silence, loud, all masked, ..."""
    regimes_left_out: tuple[LeftOut, ...] = ()
    """Input distributions in which the source itself gives nothing to compare with."""
    samples_given: bool = False
    """Whether the samples are the user's."""
    differs_at_edges: str = ""
    """Description of how results differ if inputs are NaN, infinite, -0 or empty; "" if they do not."""
    most_changing: str = ""
    """Pass that changed the results most, found with `bisect`; empty if none did."""
    warnings: tuple[str, ...] = ()
    """Outputs of the source whose values on the samples show the accuracy in part or not at all."""


def simplify(request: SimplifyRequest, emit: events.Emit = events.ignore) -> Simplified:
    from edgeopt.graph.model import load, save
    from edgeopt.graph.pipeline import run_pipeline, select
    from edgeopt.graph.randomness import check_not_random
    from edgeopt.measure.files import check_place, writing

    context, passes = context_of(request), all_passes(request.rules)
    if request.strict:
        inexact = tuple(one.name for one in passes if one.finite_only)
        request = msgspec.structs.replace(request, skip=(*request.skip, *inexact))
    chosen = select(passes, request.only, request.skip, requested(request))
    check_place(request.out, "The model", [request.data])
    if request.out.exists() and not request.out.is_file():
        raise UsageError(f"The output '{request.out}' is not a plain file.", "Give the name of a file.")
    if request.ledger is not None:
        check_place(request.ledger, "The ledger", [request.data])
    emit(events.Progress("load", str(request.model)))
    model = load(request.model)
    _check_not_the_source(request, (request.model, *model.external))
    for repair in model.repairs:
        emit(events.Log("info", f"While reading '{request.model.name}': {repair}."))
    if not request.allow_random:
        check_not_random(model.ir)
    _check_shapes(model, request)
    check, reason = _source_check(model, request, chosen, emit)
    try:
        result = run_pipeline(
            model,
            only=request.only,
            skip=request.skip,
            also=requested(request),
            check=check.why_wrong if check else None,
            measure=check.error if check and request.bisect else None,
            emit=emit,
            passes=passes,
            context=context,
        )
        done = _proved(result, check, emit)
        emit(events.Progress("save", str(request.out)))
        save(result.model_ir, request.out)
    finally:
        if check:
            check.close()
    found = msgspec.structs.replace(
        done,
        source=str(request.model),
        output=str(request.out),
        nodes_before=_nodes(model.ir),
        size_before_bytes=sum(file.stat().st_size for file in (request.model, *model.external)),
        size_after_bytes=_size_bytes(request.out),
        not_verified=reason,
        samples_given=request.data is not None,
        repairs=model.repairs,
        most_changing=_most_changing(result.ledger) if request.bisect else "",
    )
    if request.ledger is not None:
        with writing(request.ledger) as file:
            file.write(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")
    return found


def all_passes(rules: Sequence[Path] = ()) -> "tuple[Pass, ...]":
    """Returns all passes, with the user's rules after those that fold and fuse, before the last cleaning."""
    from edgeopt.graph.passes import standard_passes
    from edgeopt.graph.rules import load_rules

    own = tuple(each for path in rules for each in load_rules(path))
    shipped = standard_passes()
    names = [p.name for p in shipped]
    place = names.index("identities") if "identities" in names else len(names)
    return (*shipped[:place], *own, *shipped[place:])


def _source_check(
    model: "Model", request: SimplifyRequest, chosen: "Sequence[Pass]", emit: events.Emit
) -> "tuple[SourceCheck | None, str | None]":
    """Returns the check of the result, or why there is none; an error is raised only if the user gave the data."""
    from edgeopt.bundle.processing.attach import pictures_for
    from edgeopt.graph.passes.cleaning import skip_padding
    from edgeopt.measure.exactness.proof import SourceCheck

    if request.no_verify:
        return None, "--no-verify was given."
    emit(events.Progress("source", "running the source model"))
    try:
        padded = any(one.name == skip_padding.PASS.name for one in chosen)
        check = SourceCheck.of(
            model, request.data, request.shapes, padded=padded, pictures=pictures_for(request.pre)
        )
        return replace(check, strict=request.strict), None
    except EdgeoptError as error:
        if request.data is not None:
            raise
        reason = f"{error.message} {error.hint}".strip()
        emit(events.Log("warning", f"The result is not verified: {reason}"))
        return None, reason


def _proved(result: "PipelineResult", check: "SourceCheck | None", emit: events.Emit) -> Simplified:
    """Measures the result against the source; the caller fills in the fields of the files."""
    from edgeopt.graph.unjudged import unjudged_outputs

    plain = Simplified("", "", 0, _nodes(result.model_ir), 0, 0, result.ledger, None, 0)
    if check is None:
        return plain
    emit(events.Progress("verify", "measuring how far the results are from the source's"))
    accuracy = check.accuracy(result.model_ir)
    differs = check.differs_at_edges(result.model_ir) or ""
    proved = check.regimes if differs else (*check.regimes, *check.edges)
    return msgspec.structs.replace(
        plain,
        snr_db=accuracy.snr_db,
        samples=check.sample_count,
        regimes=tuple(dict.fromkeys(one.case.regime for one in proved)),
        differs_at_edges=differs,
        regimes_left_out=check.left_out,
        outputs=tuple(output.without_samples() for output in accuracy.outputs),
        runtime=check.backend.title,
        equal_in=tuple(other.backend.title for other in check.elsewhere),
        not_compared=tuple(check.not_compared),
        loads_in=tuple(backend.title for backend in (check.backend, *check.others)),
        warnings=tuple(unjudged_outputs(check.reference[: check.sample_count])),
    )


def _most_changing(ledger: Ledger) -> str:
    """Returns the pass behind which the distance to the source grew most."""
    worst, maximum, before = "", 0.0, 200.0
    for entry in ledger:
        if entry.snr_db is not None:
            # By noise power, not decibels: a step from 200 to 130 dB matters less than one from 90 to 80.
            grown = 10 ** (-entry.snr_db / 10) - 10 ** (-before / 10)
            if entry.snr_db < before and grown > maximum:
                worst, maximum = entry.pass_name, grown
            before = entry.snr_db
    return worst


def _check_shapes(model: "Model", request: SimplifyRequest) -> None:
    """Raises UsageError if an input cannot have the shape that the user gave it."""
    from edgeopt.commands.analyze.inputs import check_shapes
    from edgeopt.graph.analysis.tensors import tensor_row

    weights = model.ir.graph.initializers
    check_shapes(request.shapes, tuple(tensor_row(v) for v in model.ir.graph.inputs if v.name not in weights))


def _check_not_the_source(request: SimplifyRequest, sources: Sequence[Path]) -> None:
    for target in (request.out, *([request.ledger] if request.ledger else [])):
        if target.exists() and any(target.samefile(source) for source in sources):
            raise UsageError(f"The output '{target}' would overwrite the source.", "Give another name.")


def _nodes(model_ir: "ir.Model") -> int:
    from edgeopt.graph.nodes import node_count

    return node_count(model_ir)


def _size_bytes(path: Path) -> int:
    import onnx

    from edgeopt.graph.files.tensors import external_files

    proto = onnx.load(path, load_external_data=False)
    return sum(file.stat().st_size for file in (path, *external_files(proto, path)))


Config = Mapping[str, Any]
_NOT_SET = frozenset({"model", "out", "ledger", "shape", "no_verify"})
SETTABLE = (*(name for name in SimplifyRequest.__struct_fields__ if name not in _NOT_SET), "shapes", "verify")
"""Options of `edgeopt simplify`; `shapes` are sizes by input, `verify` is the contrary of `--no-verify`."""


class Metadata(msgspec.Struct, frozen=True):
    target: str | None
    result: Simplified


def optimize_operators(model_path: str | Path, output_path: str | Path, target: str | None = None) -> Simplified:
    """Applies the graph rewrites of a target (of none: the default ones), proves the result and writes it."""
    return OperatorOptimizer(model_path, target).apply_optimizations(output_path)


class OperatorOptimizer:
    """One model and how its operators are to be optimized; `config` holds options of `edgeopt simplify`."""

    def __init__(self, model: str | Path, target: str | None = None, config: Config | None = None) -> None:
        self.model = Path(model)
        self.target = None if target is None else target.replace("_", "-")
        self.config = _checked(config or {})
        self._passes = _passes_of(self.target) if self.target is not None else ()
        self._result: Simplified | None = None

    def analyze_model(self) -> "Analysis":
        """Returns the structure of the model, as `edgeopt analyze` shows it."""
        from edgeopt.commands.analyze.analyze import analyze

        return analyze(self.model)

    def apply_optimizations(self, path: str | Path) -> Simplified:
        """Writes the optimized model; the ledger in what it returns tells what was done, and why not."""
        values = {"only": self._passes, **self.config, "model": self.model, "out": path}
        shapes, verify = values.pop("shapes", None) or {}, values.pop("verify", True)
        values["shape"] = [f"{name}={'x'.join(map(str, sizes))}" for name, sizes in shapes.items()]
        self._result = simplify(read(SimplifyRequest, {**values, "no_verify": not verify}))
        return self._result

    def save_optimization_metadata(self, path: str | Path) -> None:
        """Writes the target, the ledger and the proof of what was applied last, as JSON."""
        from edgeopt.measure.files import writing

        if self._result is None:
            raise UsageError("Nothing has been optimized yet.", "Call apply_optimizations first.")
        text = msgspec.json.format(msgspec.json.encode(Metadata(self.target, self._result)), indent=2)
        with writing(Path(path)) as file:
            file.write(text + b"\n")


def _checked(config: Config) -> Config:
    for name in config:
        if name not in SETTABLE:
            meant = near(name, SETTABLE, alike=0.0)[0]
            raise UsageError(
                f"There is no setting '{name}'; did you mean '{meant}'?",
                f"The config takes: {', '.join(SETTABLE)}.",
            )
    return config


def _passes_of(target: str) -> tuple[str, ...]:
    """Returns the passes that a target's profile names; none if it takes the default ones."""
    from edgeopt.profiles import resolve, shipped_path, shipped_profiles

    path = shipped_path(target)
    if path is None:
        names = [profile.name for profile in shipped_profiles()]
        meant = near(target, names, alike=0.0)[0]
        raise UsageError(f"There is no target '{target}'; did you mean '{meant}'?", "`edgeopt targets` lists all.")
    passes = resolve(path).profile.graph.passes
    return () if isinstance(passes, str) else tuple(passes)
