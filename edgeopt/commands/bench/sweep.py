"""`edgeopt bench --sweep`: the values of an option or the sizes of an axis, measured interleaved."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import msgspec

from edgeopt.backends import backend_named
from edgeopt.backends.base import TensorInfo
from edgeopt.backends.options import Option, described, read_options
from edgeopt.commands.bench import naming
from edgeopt.commands.bench.sweep_axes import Axis, axes_hint, find_axis, resized
from edgeopt.commands.bench.sweep_report import SweepPoint, SweepReport, Value, best_by_runs, total_ms
from edgeopt.commands.bench.threads import chosen_cores
from edgeopt.errors import EdgeoptError, UsageError
from edgeopt.events import Emit
from edgeopt.measure.contender import Side
from edgeopt.measure.contest import contest
from edgeopt.measure.host import LocalHost, TrialHost
from edgeopt.measure.instruments.machine_state import StateSampler
from edgeopt.measure.report import Comparison, ContestReport, SideReport, Verdict
from edgeopt.measure.sequential import Rules
from edgeopt.measure.stats import Interval
from edgeopt.measure.tally import RUNS_FOR_P99

BATCHES = (1, 2, 4, 8)
_MOST_VALUES = 32
_SECONDS_A_POINT, _LONGEST_S = 12.0, 90.0
_OTHER_WAY: dict[Verdict, Verdict] = {"faster": "slower", "slower": "faster"}


@dataclass(frozen=True, slots=True)
class Sweep:
    """What is to be swept."""

    spec: str
    """`NAME` or `NAME=VALUE,VALUE`: an option, `batch`, an axis's name, or `INPUT.AXIS`."""
    inputs: tuple[TensorInfo, ...]
    folder: Path
    """Takes the samples that are made."""
    runs: int | None = None
    """How many runs there will be after a creation, which decides on the best value."""
    rules: Rules | None = None
    """Of the contest of the values; None: a few seconds a value."""
    load_patience_s: float | None = None
    """How long each value may take to load; None: by its backend and size."""


def sweep(
    host: TrialHost, side: Side, wanted: Sweep, emit: Emit, state: StateSampler | None = None
) -> SweepReport:
    """Measures a side with each value, interleaved."""
    if wanted.runs is not None and wanted.runs < 1:
        raise UsageError(f"{wanted.runs} is not a number of runs.", "Give a number from 1: --runs 1000")
    folder = wanted.folder
    name, given, values = _parsed(wanted.spec)
    is_option = _option(side, name) is not None
    inputs = wanted.inputs if is_option else _with_names(side, wanted)
    axis = None if is_option else find_axis(name, inputs)
    if axis is not None:
        sizes = _sizes(axis, given, values)
        points: list[Value] = [*sizes]
        sides = [_resized_side(side, axis, size, inputs, folder) for size in sizes]
    else:
        points = _option_values(side, name, given, values, inputs)
        sides = [_with_option(side, name, value) for value in points]
    rules = wanted.rules or Rules(time_limit_s=min(_LONGEST_S, _SECONDS_A_POINT * len(sides)))
    rules = msgspec.structs.replace(rules, load_patience_s=wanted.load_patience_s)
    found = contest(host, sides, rules, emit, state)
    return _report(found, side, name, axis, points, wanted.runs)


def _parsed(spec: str) -> tuple[str, bool, list[str]]:
    """The name, whether values are given, and these."""
    name, sign, rest = spec.partition("=")
    values = [v.strip() for v in rest.split(",")] if sign else []
    if not name.strip() or (sign and not all(values)):
        raise UsageError(f"'{spec}' is not a sweep.", "Example: --sweep graph_level or --sweep batch=1,2,4")
    doubled = next((v for v in values if values.count(v) > 1), None)
    if doubled is not None:
        raise UsageError(f"'{spec}' names {doubled} twice.", "Name each value once.")
    if len(values) > _MOST_VALUES:
        raise UsageError(f"A sweep of {len(values)} values is too large.", f"Give {_MOST_VALUES} at most.")
    return name.strip(), bool(sign), values


def _with_names(side: Side, wanted: Sweep) -> tuple[TensorInfo, ...]:
    """The inputs with the names of their axes as the model has them; some runtimes do not pass these on."""
    path = Path(side.load.model_path)
    if path.suffix != ".onnx" or not any(d is None for t in wanted.inputs for d in t.shape):
        return wanted.inputs
    from edgeopt.search.making.variants import Maker, inspect  # brings all passes and forms along

    with closing(Maker(LocalHost(wanted.folder))) as maker:
        try:
            found = inspect(maker, path, wanted.folder / "named", 1).inputs
        except EdgeoptError:
            return wanted.inputs  # what is here without the names still does for `batch` and INPUT.AXIS
    return found if {t.name for t in found} == {t.name for t in wanted.inputs} else wanted.inputs


def _options(side: Side) -> tuple[Option, ...]:
    """What can be set for this side; a bundle brings its own, a program or an address has none."""
    return described(backend_named(side.load.backend).options) if side.kind in {"model", "bundle"} else ()


def _option(side: Side, name: str) -> Option | None:
    return next((o for o in _options(side) if o.name == name), None)


def _option_values(
    side: Side, name: str, given: bool, texts: list[str], inputs: tuple[TensorInfo, ...]
) -> list[Value]:
    """The values to try, checked against the backend's own types."""
    backend = side.load.backend
    option = _option(side, name)
    if option is None:
        raise _unknown(side, name, inputs)
    if side.kind == "bundle":
        raise UsageError(
            f"The bundle '{side.name}' runs only with the options it was proved with.",
            "Sweep the model file inside it.",
        )
    values = [_value(name, text) for text in texts] if given else _documented(option)
    if not values:
        raise UsageError(
            f"The option '{name}' of {backend} has no list of values to try ({option.kind}).",
            f"Give values: --sweep {name}=VALUE,VALUE",
        )
    kind = backend_named(backend).options
    for value in values:
        read_options(kind, chosen_cores({name: value})[0], backend)
    return values


def _documented(option: Option) -> list[Value]:
    """All values of a short list of choices; otherwise those that a search tries."""
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
            f"Sweep one of its options ({nearest_options(options)}), or graph_level with onnxruntime-cpu.",
        )
    hint = axes_hint(inputs, name, options)
    if not options:
        return UsageError(f"'{name}' is not an open axis, and '{side.name}' has no options here.", hint)
    return UsageError(f"'{name}' is neither an option of {backend} nor an open axis of the model.", hint)


def nearest_options(options: tuple[str, ...]) -> str:
    """The first few that a sweep is likely to want."""
    usual = [n for n in ("performance_hint", "threads", "streams", "precision", "pinning") if n in options]
    return ", ".join(usual[:3] or options[:3])


def _sizes(axis: Axis, given: bool, texts: list[str]) -> list[int]:
    if not given and axis.is_batch:
        return [*BATCHES]
    bad = next((t for t in texts if not t.isdecimal() or int(t) < 1), None)
    if bad is not None or not texts:
        wrong = f"'{bad}' is not a size." if bad is not None else f"'{axis.name}' needs sizes to sweep."
        raise UsageError(wrong, f"Give whole numbers from 1: --sweep {axis.name}=16,64,256")
    return [int(t) for t in texts]


def _with_option(side: Side, name: str, value: Value) -> Side:
    options, cores = chosen_cores({**side.load.options, name: value})
    load = msgspec.structs.replace(side.load, options=options, cores=cores or side.load.cores)
    return msgspec.structs.replace(side, name=f"{name}={_written(value)}", load=load)


def _resized_side(side: Side, axis: Axis, size: int, inputs: tuple[TensorInfo, ...], folder: Path) -> Side:
    samples = resized(Path(side.load.samples_path), axis, size, inputs, folder)
    load = msgspec.structs.replace(side.load, samples_path=str(samples))
    return msgspec.structs.replace(side, name=f"{axis.name}={size}", load=load)


def _written(value: Value) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


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
        p99_ms=found.p99_ms if found.runs >= RUNS_FOR_P99 else None,
        throughput_per_s=found.throughput_per_s * (items or 1.0),
        item_ms=found.p50_ms / items if items else None,
        gain=None if judged is None else _turned(judged.speedup, scale),
        verdict=None if judged is None or items is not None else _OTHER_WAY.get(judged.verdict, judged.verdict),
        memory=one.memory,
        totals_ms={n: total_ms(create_ms, first_run_ms, found.p50_ms, n) for n in totals},
        failure=one.failure,
    )


def _turned(first_over_this: Interval, scale: float) -> Interval:
    """The contest says how much faster the first is; a sweep, how much faster the others are than it."""
    low, high = first_over_this.low, first_over_this.high
    return msgspec.structs.replace(
        first_over_this,
        median=scale / first_over_this.median,
        low=scale / high if high else 0.0,
        high=scale / low if low else float("inf"),
    )
