"""An entry of the search for a plan: a configuration, the schemes of the layers, the file and its accuracy."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from edgeopt.bundle.deployment import Step
from edgeopt.bundle.plan import by_scheme, quantized_step
from edgeopt.data.judging.goals import Goal
from edgeopt.graph.ledger import Change
from edgeopt.quant.measured.records import AccuracyProof
from edgeopt.quant.measured.study import LayerMeasurements
from edgeopt.quant.measured.timing.configs import GROUPS, OPENVINO, ExecutionConfig, OptionValue, is_inexact
from edgeopt.quant.records import FLOAT, FrontierPoint, Layer, LayerVerdict, PrecisionPlan, QuantSettings

if TYPE_CHECKING:
    from edgeopt.quant.write import Recorded, Trace

GROUPED = "int8-groups"
WEIGHTS_ALONE = frozenset({"w8", "w4"})
"""Schemes that compute in float and save memory; they save time only if reading the weights is the bottleneck."""


@dataclass(slots=True)
class Entry:
    """A candidate made from a plan, or from one scheme for all layers."""

    config: ExecutionConfig
    choices: Mapping[str, str]
    path: Path
    plan: PrecisionPlan | None = None
    changes: tuple[Change, ...] = ()
    proof: AccuracyProof | None = None
    trace: "Trace | None" = None
    """The context that the file was written with; None for the float model."""
    points: list[FrontierPoint] = field(default_factory=list)
    """More exact points of the frontier, the nearest first."""

    @property
    def is_float(self) -> bool:
        return not quantized(self.choices)

    @property
    def is_source(self) -> bool:
        """The float model in full precision, which answers as the source does."""
        return self.is_float and not is_inexact(self.config)

    @property
    def name(self) -> str:
        return f"{'float' if self.is_float else 'plan'} on {self.config.name}"


def quantized(choices: Mapping[str, str]) -> dict[str, str]:
    return {layer: scheme for layer, scheme in choices.items() if scheme != FLOAT}


def settings_for(config: ExecutionConfig, choices: Mapping[str, str] | None = None) -> dict[str, int]:
    """Returns the changes of scheme settings that the options of a configuration require."""
    size = config.options.get(GROUPS)
    grouped = choices is None or GROUPED in choices.values()
    if not isinstance(size, int) or not size or not grouped:
        return {}
    # A runtime quantizes activations by groups only if the groups fit into the blocks of the weights.
    return {"group_size": size, "block_size": max(size, QuantSettings().block_size)}


def options_for(config: ExecutionConfig, choices: Mapping[str, str]) -> dict[str, OptionValue]:
    """Returns the options of a configuration, without the group size if no layer is quantized by groups.

    With compressed weights, OpenVINO quantizes by groups unless the group size is 0.
    """
    if GROUPED in choices.values():
        return config.options
    rest = {name: value for name, value in config.options.items() if name != GROUPS}
    only_weights = config.backend == OPENVINO and WEIGHTS_ALONE & set(choices.values())
    return {**rest, GROUPS: 0} if only_weights else rest


def config_with(config: ExecutionConfig, scheme: str, settings: QuantSettings) -> ExecutionConfig:
    """Returns the configuration with the option that a scheme needs on all layers, unless it is there."""
    if scheme != GROUPED or config.backend != OPENVINO or GROUPS in config.options:
        return config
    return config.having(**{GROUPS: settings.group_size})


def precision_plan(
    entry: Entry,
    goal: Goal,
    chosen: FrontierPoint,
    verdicts: tuple[LayerVerdict, ...],
    frontier: tuple[FrontierPoint, ...] = (),
) -> PrecisionPlan:
    """Returns the plan of an entry; without a frontier, that of the chosen point alone."""
    config, floor_db = entry.config, goal.target_db or 0.0
    points = frontier or (chosen,)
    return PrecisionPlan(config.backend, dict(config.options), floor_db, chosen, points, verdicts)


def step_of(
    study: LayerMeasurements, recipe: str, choices: Mapping[str, str], trace: "Trace"
) -> tuple[Step, "Recorded"]:
    """Returns the deployment step that writes these schemes again, and the calibration results that it takes."""
    count = len(study.sample_sets.calibrate)
    step = quantized_step(recipe, count, trace.context.settings, by_scheme(choices))
    return step, study.recorded(choices, trace)


def write_entry(
    study: LayerMeasurements, config: ExecutionConfig, choices: Mapping[str, str], path: Path
) -> Entry:
    """Writes the model with these schemes and returns its entry; without any, that of the float model."""
    chosen = quantized(choices)
    config = ExecutionConfig(config.backend, options_for(config, chosen))
    if not chosen:
        return Entry(config, {}, study.path)
    written = study.save_written(chosen, config.backend, path, **settings_for(config, chosen))
    return Entry(config, chosen, path, changes=written.changes, trace=written.trace)


def share_of(layers: tuple[Layer, ...], choices: Mapping[str, str]) -> float:
    """Returns the share of the multiply-adds that run in a scheme other than float."""
    total = sum(layer.multiply_adds for layer in layers)
    chosen = quantized(choices)
    return sum(layer.multiply_adds for layer in layers if layer.name in chosen) / total if total else 0.0
