"""`edgeopt compare`: two models that run on the same samples, compared by outputs, layers and graphs."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from edgeopt import events
from edgeopt.backends import BACKENDS, PROCESSOR, backend_named
from edgeopt.backends.base import Backend, Options, TensorInfo
from edgeopt.bundle.deployment import SUFFIX
from edgeopt.bundle.read import Bundle, is_bundle, read_bundle
from edgeopt.commands.compare.layers import LayerRunner, first_difference
from edgeopt.commands.compare.records import ComparedModel, LayerComparison, ModelComparison
from edgeopt.commands.compare.request import ModelCompareRequest
from edgeopt.commands.compare.texts import GOAL, TextSamples, text_samples
from edgeopt.data.judging.goals import KL, Goal
from edgeopt.data.judging.metric import Judged
from edgeopt.data.levels import levels_in
from edgeopt.errors import EdgeoptError, InputError, MissingError, ModelError, UsageError
from edgeopt.events import TokenFigures
from edgeopt.graph.accuracy import SILENT_POWER, Accuracy
from edgeopt.graph.diff import Matching, diff, match
from edgeopt.hw.device import Unavailable
from edgeopt.measure.files import check_place
from edgeopt.workers.isolated_backend import IsolatedBackends

if TYPE_CHECKING:
    from edgeopt.graph.model import Model


"""Backends tried for sides without a named backend: the first that runs both sides is used."""


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A model file, and how a bundle runs it."""

    subject: Path
    path: Path
    kind: str
    backend: Backend | None = None
    options: "Options | None" = None
    model: "Model | None" = None
    """The graph of an ONNX model."""
    bundle: Bundle | None = None
    """Bundle that is compared; the unpacked files of a single-file bundle exist while this reference does."""


def named(path: Path, backend: str | None) -> NamedFile:
    """Reads what was named; a bundle runs as it says, unless a backend is named."""
    chosen = backend_named(backend) if backend else None
    if is_bundle(path) or path.suffix == SUFFIX:
        bundle = read_bundle(path)
        run = bundle.deployment.run
        own = chosen or backend_named(run.backend)
        options = run.options if own.name == run.backend else {}
        return NamedFile(path, bundle.model, "bundle", own, options, _graph(bundle.model), bundle)
    if path.suffix == ".xml":
        if not path.exists():
            raise InputError(f"There is no file '{path}'.", "Check the path.")
        return NamedFile(path, path, "OpenVINO IR model", chosen)
    return NamedFile(path, path, "ONNX model", chosen, None, _graph(path))


def _graph(path: Path) -> "Model | None":
    from edgeopt.graph.model import load
    from edgeopt.graph.shapes.infer import infer_shapes

    if path.suffix == ".xml":
        return None
    model = load(path)
    infer_shapes(model.ir)
    return model


def backends_for(first: NamedFile, second: NamedFile, isolated: IsolatedBackends) -> tuple[Backend, Backend]:
    """Returns the backend of each side; raises an EdgeoptError if no installed backend runs it.

    A model beside a bundle runs in plain ONNX Runtime: in the bundle's own runtime, it would have the same errors.
    """
    if first.backend is not None or second.backend is not None:
        left = first.backend or _common((first,), isolated, prefer=_preferred(second))
        right = second.backend or _common((second,), isolated, prefer=_preferred(first))
    else:
        left = right = _common((first, second), isolated)
    for side, backend in ((first, left), (second, right)):
        if side.path.suffix not in backend.formats:
            raise UsageError(
                f"{backend.title} does not read '{side.path.name}'.",
                "Choose another backend with --backend-a or --backend-b.",
            )
        found = backend.available()
        if isinstance(found, Unavailable):
            raise MissingError(
                f"{backend.title} is not available: {found.reason}", "List available ones: edgeopt backends"
            )
    return isolated.of(left), isolated.of(right)


def _preferred(other: NamedFile) -> Backend | None:
    return None if other.bundle is not None else other.backend


def _common(sides: tuple[NamedFile, ...], isolated: IsolatedBackends, prefer: Backend | None = None) -> Backend:
    """Returns the first installed backend that loads all sides."""
    suffixes = {side.path.suffix for side in sides}
    reasons = []
    known = [backend for name in PROCESSOR for backend in BACKENDS if backend.name == name]
    for backend in dict.fromkeys([*([prefer] if prefer else []), *known]):
        found = backend.available()
        if not suffixes <= set(backend.formats):
            continue
        if isinstance(found, Unavailable):
            reasons.append(f"{backend.title} is not available: {found.reason}")
            continue
        try:
            for side in sides:
                isolated.of(backend).load(side.path, {}).close()
        except EdgeoptError as error:
            reasons.append(f"{error.message.rstrip('.')}.")
            continue
        return backend
    names = " and ".join(str(side.subject) for side in sides)
    raise MissingError(
        f"No installed runtime runs {names}. {' '.join(reasons)}".strip(),
        "List available ones: edgeopt backends",
    )


def described(
    side: NamedFile, backend: Backend | None, ports: tuple[tuple[TensorInfo, ...], ...] = ((), ())
) -> ComparedModel:
    operators = _operators(side)
    inputs, outputs = ports
    return ComparedModel(
        side.subject.name,
        str(side.subject),
        side.kind,
        sum(file.stat().st_size for file in _files(side)),
        sum(operators.values()),
        operators,
        inputs,
        outputs,
        backend.title if backend else "",
    )


def _files(side: NamedFile) -> list[Path]:
    if side.path.suffix == ".xml":
        return [file for file in (side.path, side.path.with_suffix(".bin")) if file.exists()]
    return [side.path, *(side.model.external if side.model else ())]


def _operators(side: NamedFile) -> dict[str, int]:
    if side.model is not None:
        from edgeopt.graph.nodes import nodes_of

        counted = Counter(node.op_type for node in nodes_of(side.model.ir))
    else:
        from edgeopt.graph.analysis.openvino_ir import analyze_ir

        counted = Counter({row.operator: row.count for row in analyze_ir(side.path).operators})
    return dict(sorted(counted.items(), key=lambda row: (-row[1], row[0])))


SAMPLES = 8
"""Number of generated samples; the user's samples are all run."""
FLOOR_DB = 80.0
Feeds = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Answers:
    feeds: tuple[Feeds, Feeds]
    accuracy: Accuracy
    judged: Judged
    reference: Feeds
    """Outputs of the first model by sample."""
    got: Feeds
    notes: tuple[str, ...]


def compare(request: ModelCompareRequest, emit: events.Emit = events.ignore) -> ModelComparison:
    """Compares the sides, outputs, layers and graphs of two models, with the runtimes in separate processes."""
    if request.html is not None:
        check_place(request.html, "The graphs", [request.first, request.second, request.data])
    with closing(IsolatedBackends()) as isolated:
        found = _compared(request, isolated, emit)
    if request.html is not None and found.graph is not None:
        from edgeopt.commands.graph.graph import write_changes

        emit(events.Progress("laying out", request.html.name))
        write_changes(request.first, request.second, request.html)
    return found


def _compared(request: ModelCompareRequest, isolated: IsolatedBackends, emit: events.Emit) -> ModelComparison:
    emit(events.Progress("load", f"{request.first.name} and {request.second.name}"))
    first = named(request.first, request.backend_a or request.backend)
    second = named(request.second, request.backend_b or request.backend)
    if request.html is not None and (first.model is None or second.model is None):
        raise InputError("Only graphs of ONNX models can be compared.", "Leave out --html.")
    floor_db, is_floor_chosen = _floor(request, first, second)
    try:
        backends = backends_for(first, second, isolated)
    except MissingError as error:
        # Models that no installed runtime runs can still be compared as graphs.
        if first.model is None or second.model is None:
            raise
        return _without_answers(floor_db, (first, second), f"{error.message.rstrip('.')}. {error.hint}")
    ports = _ports(first, backends[0]), _ports(second, backends[1])
    sides = described(first, backends[0], ports[0]), described(second, backends[1], ports[1])
    data = str(request.data or "generated")
    texts = text_samples((first.path, second.path), (first.bundle, second.bundle), ports, request.data)
    goal = Goal(floor=floor_db, budget="") if texts is None or is_floor_chosen else GOAL
    notes: tuple[str, ...] = (*_random_notes(first, second),)
    if goal.is_ratio and not is_floor_chosen and (first.bundle is not None or second.bundle is not None):
        notes = (
            *notes,
            f"The bundle has no floor in dB, so {floor_db:g} dB count here; --floor sets another one.",
        )
    plain = ModelComparison(*sides, False, floor_db, None, 0, texts.words if texts else data, notes=notes)
    matching = None
    if first.model is None or second.model is None:
        plain = msgspec.structs.replace(plain, no_graph="Graphs are compared only between ONNX models.")
    else:
        emit(events.Progress("graphs"))
        matching = match(first.model.ir, second.model.ir)
        plain = msgspec.structs.replace(plain, graph=diff(matching))
    names = _matched_inputs(ports[0][0], ports[1][0])
    if isinstance(names, str):
        return msgspec.structs.replace(plain, not_compared=names)
    feeds = _feeds(request, (first, second), (ports[0][0], ports[1][0]), names, texts)
    try:
        answers = _answers((first, second), backends, feeds, (ports[0][1], ports[1][1]), goal, emit)
    except ModelError as error:
        if request.data is not None:
            raise
        reason = f"They do not run on generated samples: {error.message.rstrip('.')}. Pass samples with --data."
        return msgspec.structs.replace(plain, not_compared=reason)
    if any(a != b for a, b in names.items()):
        plain = msgspec.structs.replace(
            plain, notes=(*notes, "The inputs have different names and were matched by position.")
        )
    accuracy, judged = answers.accuracy, answers.judged
    within = goal.proves(judged)
    layers = None
    if request.layers or (request.layers is None and not within):
        layers = _layers(floor_db, (first, second), backends, matching, answers, emit)
    return msgspec.structs.replace(
        plain,
        within=within,
        snr_db=judged.snr_db,
        tokens=_tokens(answers) if texts is not None else None,
        floor_kl=goal.floor if goal.metric == KL else None,
        floor_top1=goal.floor_top1,
        weakest=judged.weakest,
        tail=judged.tail,
        is_tail_below=goal.tail_lacks(judged.tail) > 0,
        samples=len(answers.feeds[0]),
        outputs=tuple(output.without_samples() for output in accuracy.outputs),
        notes=(*plain.notes, *answers.notes),
        layers=layers,
    )


def _random_notes(*sides: NamedFile) -> Iterator[str]:
    from edgeopt.graph.randomness import counts_by_operator, random_nodes

    for side in sides:
        if side.model is not None and (found := random_nodes(side.model.ir)):
            counts = counts_by_operator(found)
            yield f"{side.subject.name} draws random numbers ({counts}): another run may give other outputs."


def _floor(request: ModelCompareRequest, first: NamedFile, second: NamedFile) -> tuple[float, bool]:
    """Returns the requested floor, or else that of a bundle, B's before A's; and whether there is such a floor."""
    bundles = [side.bundle.deployment for side in (second, first) if side.bundle is not None]
    if request.floor_db is not None or not bundles:
        return FLOOR_DB if request.floor_db is None else request.floor_db, request.floor_db is not None
    for claim in (each.evidence or each.predicted for each in bundles):
        if claim is not None and claim.floor_db > 0:
            return claim.floor_db, True
    return FLOOR_DB, False


def _tokens(answers: Answers) -> TokenFigures | None:
    """Returns the agreement of the tokens, also where decibels decide."""
    known = answers.judged.token_figures
    return known or GOAL.kind.judge(answers.got, answers.reference, None).token_figures


def _without_answers(floor_db: float, sides: tuple[NamedFile, NamedFile], reason: str) -> ModelComparison:
    first, second = sides
    plain = ModelComparison(described(first, None), described(second, None), False, floor_db, None, 0, "")
    if first.model is not None and second.model is not None:
        plain = msgspec.structs.replace(plain, graph=diff(match(first.model.ir, second.model.ir)))
    return msgspec.structs.replace(plain, not_compared=reason)


def _ports(side: NamedFile, backend: Backend) -> tuple[tuple[TensorInfo, ...], tuple[TensorInfo, ...]]:
    session = backend.load(side.path, side.options or {})
    try:
        weights = set(side.model.ir.graph.initializers) if side.model else set()
        return tuple(info for info in session.inputs if info.name not in weights), session.outputs
    finally:
        session.close()


def _matched_inputs(first: Sequence[TensorInfo], second: Sequence[TensorInfo]) -> dict[str, str] | str:
    """Returns the first model's inputs with their names in the second, or a sentence if they cannot be matched.

    By name; where no name fits, by place, if types and numbers of dimensions are the same.
    """
    other = {info.name: info for info in second}
    if {info.name for info in first} == set(other):
        pairs = [(info, other[info.name]) for info in first]
    elif len(first) == len(second) and not {info.name for info in first} & set(other):
        pairs = list(zip(first, second, strict=True))
    else:
        return f"The models have different inputs: {_listed(first)} and {_listed(second)}."
    for a, b in pairs:
        fixed = [
            (x, y) for x, y in zip(a.shape, b.shape, strict=False) if isinstance(x, int) and isinstance(y, int)
        ]
        ranks = len(a.shape) != len(b.shape) and a.rank_known and b.rank_known
        if a.dtype != b.dtype or ranks or any(x != y for x, y in fixed):
            return f"The models take different inputs: {_listed([a])} and {_listed([b])}."
    return {a.name: b.name for a, b in pairs}


def _listed(inputs: Sequence[TensorInfo]) -> str:
    def describe(info: TensorInfo) -> str:
        sizes = ", ".join("?" if size is None else str(size) for size in info.shape)
        return f"'{info.name}' ({info.dtype} [{sizes}])"

    return ", ".join(describe(info) for info in inputs) or "none"


def _answers(
    sides: tuple[NamedFile, NamedFile],
    backends: tuple[Backend, Backend],
    feeds: tuple[Feeds, Feeds],
    outputs: tuple[tuple[TensorInfo, ...], tuple[TensorInfo, ...]],
    goal: Goal,
    emit: events.Emit,
) -> Answers:
    from edgeopt.backends.base import run_all
    from edgeopt.graph.accuracy import compare_outputs
    from edgeopt.graph.unjudged import unjudged_outputs

    emit(events.Progress("run", f"{sides[0].subject.name} in {backends[0].title}"))
    reference = run_all(sides[0].path, feeds[0], backends[0], sides[0].options or {})
    emit(events.Progress("run", f"{sides[1].subject.name} in {backends[1].title}"))
    got = run_all(sides[1].path, feeds[1], backends[1], sides[1].options or {})
    notes = []
    own, others = [info.name for info in outputs[0]], [info.name for info in outputs[1]]
    if not set(own) & set(others) and len(own) == len(others):
        notes.append("The outputs have different names and were matched by position.")
        got = [{a: sample[b] for a, b in zip(own, others, strict=True)} for sample in got]
    elif extra := [name for name in others if name not in own]:
        notes.append(f"Only {sides[1].subject.name} has the outputs: {', '.join(extra)}.")
    notes += unjudged_outputs(reference)
    judged = goal.judge(got, reference, levels=[levels_in(each) for each in feeds[0]])
    return Answers(feeds, compare_outputs(reference, got), judged, reference, got, tuple(notes))


def _feeds(
    request: ModelCompareRequest,
    sides: tuple[NamedFile, NamedFile],
    ports: tuple[tuple[TensorInfo, ...], tuple[TensorInfo, ...]],
    names: Mapping[str, str],
    texts: TextSamples | None,
) -> tuple[Feeds, Feeds]:
    """Returns the same samples under the names that each model has for its inputs."""
    from edgeopt.bundle.processing.attach import pictures_for
    from edgeopt.data.read import load_data
    from edgeopt.data.regimes import mixed

    inputs, others = ports
    sizes = {info.name: info.shape for info in others}
    inputs = tuple(msgspec.structs.replace(i, shape=_narrower(i.shape, sizes[names[i.name]])) for i in inputs)
    if texts is not None:
        feeds = [dict(each) for each in texts.feeds]
    elif request.data is not None:
        bundles = (side.bundle.deployment.processing for side in sides if side.bundle is not None)
        samples = load_data(request.data, inputs, pictures_for(request.pre, *bundles))
        feeds = [samples.feeds(index) for index in range(len(samples))]
    else:
        model = sides[0].model or sides[1].model
        feeds = mixed(inputs, model.ir if model else None, SAMPLES // 2)
    return feeds, [{names[name]: array for name, array in sample.items()} for sample in feeds]


def _narrower(
    first: tuple[int | str | None, ...], second: tuple[int | str | None, ...]
) -> tuple[int | str | None, ...]:
    """Returns the shape with each size that one of the models fixes."""
    if len(first) != len(second):
        return first or second
    return tuple(b if isinstance(b, int) else a for a, b in zip(first, second, strict=True))


def _layers(
    floor_db: float,
    sides: tuple[NamedFile, NamedFile],
    backends: tuple[Backend, Backend],
    matching: Matching | None,
    answers: Answers,
    emit: events.Emit,
) -> LayerComparison | None:
    first, second = sides
    if matching is None or first.model is None or second.model is None or not answers.accuracy.outputs:
        return None
    worst = min(answers.accuracy.outputs, key=lambda output: output.snr_db)
    ratios = zip(worst.noise_power, worst.signal_power, strict=True)
    shares = [noise / max(signal, SILENT_POWER) for noise, signal in ratios]
    sample = shares.index(max(shares)) if shares else 0
    runners = (
        LayerRunner(first.model.ir, backends[0], first.options or {}, answers.feeds[0][sample]),
        LayerRunner(second.model.ir, backends[1], second.options or {}, answers.feeds[1][sample]),
    )
    try:
        return first_difference(matching, runners, worst.name, worst.snr_db, floor_db, emit)
    except EdgeoptError as error:
        return LayerComparison(worst.name, 0, None, not_compared=error.message)
