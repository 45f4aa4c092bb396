"""`edgeopt bench --sweep`: the values of an option or the sizes of an axis, measured interleaved."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from edgeopt import units
from edgeopt.backends import backend_named
from edgeopt.backends.base import Array, TensorInfo
from edgeopt.backends.options import BackendOption, described, read_options
from edgeopt.commands.bench import naming
from edgeopt.commands.bench.sides import chosen_cores
from edgeopt.data.samples import check_samples, from_feeds, open_samples, save_samples
from edgeopt.errors import EdgeoptError, ModelError, UsageError
from edgeopt.events import Emit
from edgeopt.measure.contender import Side
from edgeopt.measure.contest import contest
from edgeopt.measure.instruments.machine_state import StateSampler
from edgeopt.measure.messages import Memory
from edgeopt.measure.report import Comparison, ContestReport, SideReport, Verdict
from edgeopt.measure.sequential import Rules
from edgeopt.measure.stats import Interval
from edgeopt.nearest import nearest
from edgeopt.notebook import NotebookRecord
from edgeopt.workers.client import WorkerClient
from edgeopt.workers.host import LocalHost, TrialHost

SCHEMA = 1
TOTALS = (1, 100, 10_000)
"""The numbers of runs in the totals, if the user gives none."""
_SAME = 1.02
"""Inference that differs by less is no reason to wait longer for the creation."""

Value = str | int | float | bool


class SweepPoint(msgspec.Struct, frozen=True):
    value: Value
    create_ms: float | None = None
    """Time to load the model: the work of the runtime before it can run."""
    create_lowest_ms: float | None = None
    create_highest_ms: float | None = None
    first_run_ms: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    throughput_per_s: float | None = None
    item_ms: float | None = None
    """Time per item of the axis: a sample of a batch, a step of a sequence."""
    gain: Interval | None = None
    """Speed relative to the first point, per item if there are items; paired within rounds."""
    verdict: Verdict | None = None
    """Verdict on `gain`; None for the first point, and per item, because runs hold different numbers of items."""
    memory: Memory | None = None
    totals_ms: dict[int, float] = {}
    """Time of loading plus the runs, by number of runs."""
    failure: str | None = None


class RunRange(msgspec.Struct, frozen=True):
    """Range of run counts, up to the start of the next one, in which this value has the smallest total."""

    from_runs: int
    value: Value


class SweepReport(NotebookRecord, msgspec.Struct, frozen=True):
    name: str
    """Option or axis that was swept."""
    kind: Literal["option", "batch", "axis"]
    subject: str
    backend: str
    points: tuple[SweepPoint, ...]
    best_by_runs: tuple[RunRange, ...] = ()
    """Best value for each range of run counts, for options only; see the function `best_by_runs`."""
    runs: int | None = None
    """Number of runs after a creation, if the user gave one."""
    rounds: int = 0
    seconds: float = 0.0
    measured_while: str = ""
    data: str = ""
    warnings: tuple[str, ...] = ()
    machine: dict[str, str] = {}
    """The device in words."""
    duty: Literal["sweep"] = "sweep"
    schema: int = SCHEMA

    @property
    def totals(self) -> tuple[int, ...]:
        return TOTALS if self.runs is None else (self.runs,)


def total_ms(create_ms: float, first_run_ms: float, p50_ms: float, runs: int) -> float:
    """Adds up the creation, the first run, which takes longer, and the other runs."""
    return create_ms + first_run_ms + (runs - 1) * p50_ms


def best_by_runs(points: Sequence[SweepPoint]) -> tuple[RunRange, ...]:
    """Returns the best value for each range of run counts, in order.

    A value that takes longer to create must be 2 % faster to take over at all: less is noise.
    """
    lines = [
        (p.value, total_ms(p.create_ms, p.first_run_ms, p.p50_ms, 1), p.p50_ms)
        for p in points
        if p.create_ms is not None and p.first_run_ms is not None and p.p50_ms is not None
    ]
    if not lines:
        return ()
    value, begin_ms, run_ms = min(lines, key=lambda line: line[1])
    found = [RunRange(1, value)]
    while True:
        # Where each faster one has made up for its longer creation.
        after = [
            (1 + max(0.0, theirs - begin_ms) / (run_ms - other_run), other_run, other, theirs)
            for other, theirs, other_run in lines
            if other_run * _SAME < run_ms
        ]
        if not after:
            return tuple(found)
        runs, run_ms, value, begin_ms = min(after)
        found.append(RunRange(int(runs) + 1, value))


_MAX_SAMPLES = 16
_MAX_BYTES = 256 << 20
_BATCH = "batch"
_LENGTHS = ("seq", "len", "time", "token")


class Axis(NamedTuple):
    """Axis of a sweep: all positions in the inputs that take the same size."""

    name: str
    places: tuple[tuple[str, int], ...]
    """Pairs of input and axis."""
    is_batch: bool


def find_axis(name: str, inputs: Sequence[TensorInfo]) -> Axis | None:
    """Returns the axis for `batch`, an axis's own name, or `INPUT.AXIS`; None if there is no such axis.

    Raises ModelError for one that is there but fixed by the model.
    """
    if name == _BATCH:
        return _batch(inputs)
    named = _places(name, inputs)
    if named:
        return Axis(name, named, all(axis == 0 for _, axis in named))
    tensor_name, dot, axis_name = name.rpartition(".")
    tensor = next((t for t in inputs if t.name == tensor_name), None) if dot else None
    if tensor is not None:
        return _of_input(name, tensor, axis_name, inputs)
    if name == "sequence":
        open_names = {d for t in inputs for d in t.shape if isinstance(d, str)}
        long = [d for d in sorted(open_names) if any(part in d.lower() for part in _LENGTHS)]
        if len(long) == 1:
            return Axis(long[0], _places(long[0], inputs), is_batch=False)
        if not long:
            raise ModelError("No input axis has the name of a sequence length.", _axes_hint(inputs))
        raise UsageError(f"'sequence' may mean {' or '.join(long)} here.", "Name the one that you mean.")
    return None


def _axes_hint(inputs: Sequence[TensorInfo], name: str = "", options: Sequence[str] = ()) -> str:
    """Returns a hint at what can be swept: names like `name`, else all open axes, after any options."""
    names = [*dict.fromkeys(d for t in inputs for d in t.shape if isinstance(d, str))]
    names += [f"{t.name}.{k}" for t in inputs for k, d in enumerate(t.shape) if d is None]
    listed = f"Its open axes are: {', '.join(names)}." if names else "All its input axes are fixed."
    if not name:
        return listed
    others = f"There are: {', '.join(options)}. " if options else ""
    return nearest(name, [*names, *options, _BATCH], f"{others}{listed}")


def _batch(inputs: Sequence[TensorInfo]) -> Axis:
    first = next((t for t in inputs if t.shape and not isinstance(t.shape[0], int)), None)
    if first is None:
        tensor = next((t for t in inputs if t.shape), None)
        what = f": its input '{tensor.name}' is {_shape(tensor)}" if tensor is not None else ""
        raise ModelError(
            f"The model fixes its batch{what}.", "Export it with an open batch axis, then sweep its size."
        )
    name = first.shape[0]
    if isinstance(name, str):
        return Axis(_BATCH, _places(name, inputs), is_batch=True)
    unnamed = tuple((t.name, 0) for t in inputs if t.shape and t.shape[0] is None)
    return Axis(_BATCH, unnamed, is_batch=True)


def _of_input(name: str, tensor: TensorInfo, axis_name: str, inputs: Sequence[TensorInfo]) -> Axis | None:
    rank = len(tensor.shape)
    if not axis_name.isdecimal() or int(axis_name) >= rank:
        return None
    axis = int(axis_name)
    size = tensor.shape[axis]
    if isinstance(size, int):
        raise ModelError(
            f"The model fixes axis {axis} of its input '{tensor.name}' to {size}: it is {_shape(tensor)}.",
            _axes_hint(inputs),
        )
    # A name stands for one size everywhere.
    places = _places(size, inputs) if isinstance(size, str) else ((tensor.name, axis),)
    return Axis(name, places, is_batch=axis == 0)


def _places(name: str, inputs: Sequence[TensorInfo]) -> tuple[tuple[str, int], ...]:
    return tuple((t.name, axis) for t in inputs for axis, d in enumerate(t.shape) if d == name)


def _shape(tensor: TensorInfo) -> str:
    return "[" + ", ".join("?" if d is None else str(d) for d in tensor.shape) + "]"


def resized(samples: Path, axis: Axis, size: int, inputs: tuple[TensorInfo, ...], folder: Path) -> Path:
    """Writes samples of this size to a folder: a batch joins samples, other axes are cropped or repeated."""
    source = open_samples(samples)
    feeds = [source.feeds(k) for k in range(min(len(source), _MAX_SAMPLES))]
    by_input: dict[str, list[int]] = {}
    for tensor, place in axis.places:
        by_input.setdefault(tensor, []).append(place)
    made: list[dict[str, Array]] = []
    written = 0
    for number in range(len(feeds)):
        one = {
            name: _resized(feeds, name, number, by_input.get(name, []), size, axis.is_batch) for name in feeds[0]
        }
        written += sum(array.nbytes for array in one.values())
        if made and written > _MAX_BYTES:
            break
        made.append(one)
    out = folder / f"{axis.name.replace('/', '_')}-{size}"
    save_samples(check_samples(from_feeds(made), inputs, f"the samples made for {axis.name}={size}"), out)
    return out


def _resized(
    feeds: list[dict[str, Array]], name: str, number: int, places: list[int], size: int, is_batch: bool
) -> Array:
    array = feeds[number][name]
    for place in places:
        if is_batch:
            # Items of the samples that follow, so that no two rows of a small batch are alike.
            following = range(number, number + min(size, len(feeds)))
            array = np.concatenate([feeds[k % len(feeds)][name] for k in following], place)
        array = np.take(array, np.arange(size) % array.shape[place], axis=place)
    return array


BATCHES = (1, 2, 4, 8)
_MAX_VALUES = 32
_SECONDS_A_POINT, _LONGEST_S = 12.0, 90.0
_OTHER_WAY: dict[Verdict, Verdict] = {"faster": "slower", "slower": "faster"}


@dataclass(frozen=True, slots=True)
class Sweep:
    spec: str
    """`NAME` or `NAME=VALUE,VALUE`: an option, `batch`, an axis's name, or `INPUT.AXIS`."""
    inputs: tuple[TensorInfo, ...]
    folder: Path
    """Folder for the samples that are made."""
    runs: int | None = None
    """Number of runs after a creation, which decides on the best value."""
    rules: Rules | None = None
    """Rules for the contest of the values; None: a few seconds per value."""
    load_patience_s: float | None = None
    """Maximum load time of each value, in seconds; None: derived from its backend and size."""


def sweep(
    host: TrialHost, side: Side, settings: Sweep, emit: Emit, state: StateSampler | None = None
) -> SweepReport:
    if settings.runs is not None and settings.runs < 1:
        raise UsageError(f"{settings.runs} is not a number of runs.", "Give a number from 1: --runs 1000")
    folder = settings.folder
    name, has_values, values = _parsed(settings.spec)
    is_option = _option(side, name) is not None
    inputs = settings.inputs if is_option else _with_names(side, settings)
    axis = None if is_option else find_axis(name, inputs)
    if axis is not None:
        sizes = _sizes(axis, has_values, values)
        points: list[Value] = [*sizes]
        sides = [_resized_side(side, axis, size, inputs, folder) for size in sizes]
    else:
        points = _option_values(side, name, has_values, values, inputs)
        sides = [_with_option(side, name, value) for value in points]
    rules = settings.rules or Rules(time_limit_s=min(_LONGEST_S, _SECONDS_A_POINT * len(sides)))
    rules = msgspec.structs.replace(rules, load_patience_s=settings.load_patience_s)
    found = contest(host, sides, rules, emit, state)
    return _report(found, side, name, axis, points, settings.runs)


def _parsed(spec: str) -> tuple[str, bool, list[str]]:
    name, sign, rest = spec.partition("=")
    values = [v.strip() for v in rest.split(",")] if sign else []
    if not name.strip() or (sign and not all(values)):
        raise UsageError(f"'{spec}' is not a sweep.", "Example: --sweep graph_level or --sweep batch=1,2,4")
    doubled = next((v for v in values if values.count(v) > 1), None)
    if doubled is not None:
        raise UsageError(f"'{spec}' names {doubled} twice.", "Name each value once.")
    if len(values) > _MAX_VALUES:
        raise UsageError(f"A sweep of {len(values)} values is too large.", f"Give {_MAX_VALUES} at most.")
    return name.strip(), bool(sign), values


def _with_names(side: Side, settings: Sweep) -> tuple[TensorInfo, ...]:
    """Returns the inputs with the model's names for their axes, which some runtimes do not pass on."""
    path = Path(side.load.model_path)
    if path.suffix != ".onnx" or not any(d is None for t in settings.inputs for d in t.shape):
        return settings.inputs
    from edgeopt.pipeline.builders.variants import inspect  # imports all passes and schemes

    with closing(WorkerClient(LocalHost(settings.folder))) as client:
        try:
            found = inspect(client, path, settings.folder / "named", 1).inputs
        except EdgeoptError:
            return settings.inputs  # what is here without the names still does for `batch` and INPUT.AXIS
    return found if {t.name for t in found} == {t.name for t in settings.inputs} else settings.inputs


def _options(side: Side) -> tuple[BackendOption, ...]:
    """Returns the options that can be set for a side; a program or an address has none."""
    return described(backend_named(side.load.backend).options) if side.kind in {"model", "bundle"} else ()


def _option(side: Side, name: str) -> BackendOption | None:
    return next((o for o in _options(side) if o.name == name), None)


def _option_values(
    side: Side, name: str, has_values: bool, texts: list[str], inputs: tuple[TensorInfo, ...]
) -> list[Value]:
    """Returns the values to try, checked against the backend's own types."""
    backend = side.load.backend
    option = _option(side, name)
    if option is None:
        raise _unknown(side, name, inputs)
    if side.kind == "bundle":
        raise UsageError(
            f"The bundle '{side.name}' runs only with the options it was proved with.",
            "Sweep the model file inside it.",
        )
    values = [_value(name, text) for text in texts] if has_values else _documented(option)
    if not values:
        raise UsageError(
            f"The option '{name}' of {backend} has no list of values to try ({option.kind}).",
            f"Give values: --sweep {name}=VALUE,VALUE",
        )
    kind = backend_named(backend).options
    for value in values:
        read_options(kind, chosen_cores({name: value})[0], backend)
    return values


def _documented(option: BackendOption) -> list[Value]:
    """Returns all values of a short list of choices; otherwise those that a search tries."""
    if option.choices and all(option.choices):
        return [*option.choices]
    return [*option.search] or ([False, True] if option.kind == "true or false" else [])


def _value(name: str, text: str) -> Value:
    value = naming.read_options([f"{name}={text}"])[name]
    if isinstance(value, dict):
        raise UsageError(f"'{text}' is not a value to sweep.", "Give plain values, separated by commas.")
    return value


def _unknown(side: Side, name: str, inputs: tuple[TensorInfo, ...]) -> UsageError:
    options = tuple(o.name for o in _options(side))
    backend = side.load.backend
    if name == "graph_level":
        return UsageError(
            f"{backend} has no graph levels: it always rewrites the model fully.",
            f"Sweep one of its options ({_nearest_options(options)}), or graph_level with onnxruntime-cpu.",
        )
    hint = _axes_hint(inputs, name, options)
    if not options:
        return UsageError(f"'{name}' is not an open axis, and '{side.name}' has no options here.", hint)
    return UsageError(f"'{name}' is neither an option of {backend} nor an open axis of the model.", hint)


def _nearest_options(options: tuple[str, ...]) -> str:
    usual = [n for n in ("performance_hint", "threads", "streams", "precision", "pinning") if n in options]
    return ", ".join(usual[:3] or options[:3])


def _sizes(axis: Axis, has_values: bool, texts: list[str]) -> list[int]:
    if not has_values and axis.is_batch:
        return [*BATCHES]
    bad = next((t for t in texts if not t.isdecimal() or int(t) < 1), None)
    if bad is not None or not texts:
        wrong = f"'{bad}' is not a size." if bad is not None else f"'{axis.name}' needs sizes to sweep."
        raise UsageError(wrong, f"Give whole numbers from 1: --sweep {axis.name}=16,64,256")
    return [int(t) for t in texts]


def _with_option(side: Side, name: str, value: Value) -> Side:
    options, cores = chosen_cores({**side.load.options, name: value})
    load = msgspec.structs.replace(side.load, options=options, cores=cores or side.load.cores)
    written = ("on" if value else "off") if isinstance(value, bool) else str(value)
    return msgspec.structs.replace(side, name=f"{name}={written}", load=load)


def _resized_side(side: Side, axis: Axis, size: int, inputs: tuple[TensorInfo, ...], folder: Path) -> Side:
    samples = resized(Path(side.load.samples_path), axis, size, inputs, folder)
    load = msgspec.structs.replace(side.load, samples_path=str(samples))
    return msgspec.structs.replace(side, name=f"{axis.name}={size}", load=load)


def _report(
    found: ContestReport, side: Side, name: str, axis: Axis | None, values: list[Value], runs: int | None
) -> SweepReport:
    made = SweepReport(
        name=name,
        kind="option" if axis is None else "batch" if axis.is_batch else "axis",
        subject=side.name,
        backend=side.load.backend,
        points=(),
        runs=runs,
        rounds=found.rounds,
        seconds=found.seconds,
        measured_while=found.measured_while,
        data=found.data,
        warnings=found.warnings,
    )
    judged = {c.second: c for c in found.comparisons}
    items: Callable[[Value], float | None] = lambda v: float(v) if axis is not None else None  # noqa: E731
    points = tuple(
        _point(value, one, judged.get(one.name), items(value), items(values[0]), made.totals)
        for value, one in zip(values, found.sides, strict=True)
    )
    best = best_by_runs(points) if axis is None else ()
    return msgspec.structs.replace(made, points=points, best_by_runs=best)


def _point(
    value: Value,
    one: SideReport,
    judged: Comparison | None,
    items: float | None,
    first_items: float | None,
    totals: tuple[int, ...],
) -> SweepPoint:
    loads = one.loads_ms or (() if one.load_ms is None else (one.load_ms,))
    first_runs = one.first_runs_ms or (() if one.first_run_ms is None else (one.first_run_ms,))
    found = one.figures
    if found is None or not loads or not first_runs:
        return SweepPoint(value, failure=one.failure or "it did not run")
    create_ms, first_run_ms = median(loads), median(first_runs)
    scale = items / first_items if items and first_items else 1.0
    return SweepPoint(
        value=value,
        create_ms=create_ms,
        create_lowest_ms=min(loads),
        create_highest_ms=max(loads),
        first_run_ms=first_run_ms,
        p50_ms=found.p50_ms,
        p99_ms=found.p99_ms if found.runs >= units.RUNS_FOR_P99 else None,
        throughput_per_s=found.throughput_per_s * (items or 1.0),
        item_ms=found.p50_ms / items if items else None,
        gain=None if judged is None or judged.speedup is None else _inverted(judged.speedup, scale),
        verdict=None if judged is None or items is not None else _OTHER_WAY.get(judged.verdict, judged.verdict),
        memory=one.memory,
        totals_ms={n: total_ms(create_ms, first_run_ms, found.p50_ms, n) for n in totals},
        failure=one.failure,
    )


def _inverted(first_over_this: Interval, scale: float) -> Interval:
    """Inverts the contest's speed of the first side over this one, as a sweep compares with the first."""
    low, high = first_over_this.low, first_over_this.high
    return msgspec.structs.replace(
        first_over_this,
        median=scale / first_over_this.median,
        low=scale / high if high else 0.0,
        high=scale / low if low else float("inf"),
    )
