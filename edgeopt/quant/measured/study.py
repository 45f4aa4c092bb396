"""The measurements of one model that all plans share: its layers, ranges and sensitivities.

Ranges and sensitivities are measured on first use and kept; the float model lies in a folder, so that runtimes can
load it.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from edgeopt.backends import eight_bits_of
from edgeopt.backends.base import Array
from edgeopt.data.judging.goals import Goal
from edgeopt.data.judging.metric import Judged
from edgeopt.errors import UsageError
from edgeopt.events import Emit, Progress, ignore
from edgeopt.graph.ledger import Change
from edgeopt.graph.levels import Usual
from edgeopt.quant.measured.sample_sets import Outputs, SampleSets
from edgeopt.quant.ranges import ObservedRange
from edgeopt.quant.records import Layer, QuantFinding, QuantSettings, Range, Sensitivity
from edgeopt.quant.schemes import SCHEMES, Scheme, SchemeContext
from edgeopt.quant.schemes.base import Smoothing

if TYPE_CHECKING:
    import onnx_ir as ir

    from edgeopt.quant.sensitivity.switchboard import GatedModel
    from edgeopt.quant.write import QuantizedModel, Recorded, Trace

MODEL = "float.onnx"
KEPT = "requested with --keep-float"
# More samples hardly change which layer costs most; the plan's own choices are checked on all planning samples.
_MAX_TO_ESTIMATE = 8


class Known(msgspec.Struct, frozen=True):
    """The measurements so far."""

    layers: tuple[Layer, ...]
    settings: QuantSettings
    ranges: dict[str, Range] = {}
    sensitivities: dict[str, tuple[Sensitivity, ...]] = {}
    """Sensitivities by the rules and settings that they depend on; see `_key`."""
    findings: tuple[QuantFinding, ...] = ()
    changes: tuple[Change, ...] = ()
    """Changes made by preparation."""


@dataclass(slots=True)
class LayerMeasurements:
    """One model, its data and its measurements; `model` is the float model from which all others are made."""

    folder: Path
    model: "ir.Model"
    sample_sets: SampleSets
    reference: Mapping[int, Mapping[str, Array]]
    """The source model's outputs on the planning and proof samples, by sample."""
    known: Known
    emit: Emit = ignore
    phases_s: dict[str, float] = field(default_factory=dict)
    smoothing: dict[str, Smoothing] = field(default_factory=dict)
    """Factors that even out the activations' channels before eight bits, by layer."""
    equalization: Mapping[str, Array] = field(default_factory=dict)
    """Factors that even out channels between layers, by the node whose results are divided by them."""

    @property
    def path(self) -> Path:
        return self.folder / MODEL

    @property
    def layers(self) -> tuple[Layer, ...]:
        return self.known.layers

    def reference_of(self, which: Sequence[int]) -> Outputs:
        return [dict(self.reference[k]) for k in which]

    def judge(self, goal: Goal, got: Outputs, which: range, usual: Usual | None = None) -> Judged:
        """Judges outputs for the samples `which` against the source's."""
        sets = self.sample_sets
        return goal.judge(got, self.reference_of(which), sets.labels_of(which), sets.levels.of(which), usual)

    @contextmanager
    def phase(self, name: str, what: str = "") -> Iterator[None]:
        """Emits the begin of a phase and adds its time to `phases_s`."""
        self.emit(Progress(name, what))
        begin = time.monotonic()
        try:
            yield
        finally:
            self.phases_s[name] = self.phases_s.get(name, 0.0) + time.monotonic() - begin

    def context(self, backend: str, **changes: int) -> SchemeContext:
        """Returns the context for schemes; `changes` replace fields of the settings."""
        settings = msgspec.structs.replace(self.known.settings, **changes)
        return SchemeContext(backend, settings, self.known.ranges, smoothing=self.smoothing)

    def reasons_against(self, scheme: Scheme, backend: str, **changes: int) -> dict[str, str]:
        """Returns the reason that a scheme does not fit a layer, by layer; empty where it fits."""
        context = self.context(backend, **changes)
        return {layer.name: layer.reason or scheme.fits(layer, context) for layer in self.layers}

    def uniform(self, scheme: Scheme, backend: str, **changes: int) -> dict[str, str]:
        """Returns the choice of one scheme for all layers that it fits."""
        against = self.reasons_against(scheme, backend, **changes)
        return {name: scheme.name for name, reason in against.items() if not reason}

    def fitting_schemes(
        self, backend: str, schemes: Sequence[Scheme], **changes: int
    ) -> dict[str, tuple[str, ...]]:
        """Returns the schemes that fit each layer, by layer; layers that none fits are missing."""
        fitting = [self.uniform(scheme, backend, **changes) for scheme in schemes]
        found = {
            layer.name: tuple(some[layer.name] for some in fitting if layer.name in some) for layer in self.layers
        }
        return {name: names for name, names in found.items() if names}

    def calibrated(self, backend: str = "") -> None:
        """Measures unknown ranges and smoothing factors; `backend` is one that needs more ranges than most."""
        from edgeopt.quant.calibrate import calibrate
        from edgeopt.quant.preparing import smoothing
        from edgeopt.quant.write import tensors_wanted

        if self.known.ranges or not len(self.sample_sets.calibrate):
            return
        tensors = tensors_wanted(self.model, self.layers, self.known.settings, backend)
        if not tensors:
            return
        with self.phase("calibrating", f"{len(tensors)} tensors on {len(self.sample_sets.calibrate)} samples"):
            samples = self.sample_sets.samples[self.sample_sets.calibrate]
            found = calibrate(self.path, samples, tensors, self.known.settings, self.emit)
            if self._equalized(found.seen):
                found = calibrate(self.path, samples, tensors, self.known.settings, self.emit)
        self.smoothing, more = smoothing(self.model, self.layers, found.seen)
        self._learn(ranges={**found.ranges, **more}, findings=found.findings)

    def _equalized(self, seen: Mapping[str, ObservedRange]) -> bool:
        """Evens out channels between layers, and returns whether it did; the float outputs stay the same."""
        from edgeopt.graph.model import save
        from edgeopt.quant.preparing import equalized

        prepared = equalized(self.model, self.layers, seen)
        if not prepared.changes:
            return False
        self.model, self.equalization = prepared.model, prepared.numbers
        save(self.model, self.path)
        self._learn(changes=(*self.known.changes, *prepared.changes))
        return True

    def sensitivities(
        self,
        backend: str,
        schemes: Mapping[str, Sequence[str]],
        floor_db: float | None = None,
        limit_s: float | None = None,
        **changes: int,
    ) -> tuple[Sensitivity, ...]:
        """Returns the simulated error of each scheme of each layer alone; `changes` replace settings."""
        from edgeopt.quant.sensitivity.measure import LIMIT_S, sensitivities

        key = _key(self.context(backend, **changes))
        known = {(each.layer, each.form): each for each in self.known.sensitivities.get(key, ())}
        missing = {name: tuple(f for f in some if (name, f) not in known) for name, some in schemes.items()}
        missing = {name: some for name, some in missing.items() if some}
        if missing:
            first = self.sample_sets.plan.start
            few = range(first, min(self.sample_sets.plan.stop, first + _MAX_TO_ESTIMATE))
            with (
                self.phase("measuring the error of each layer", f"{len(missing)} layers"),
                self.switchboard(backend, missing, **changes) as board,
            ):
                found = sensitivities(
                    *(board, self.sample_sets.samples[few], self.reference_of(few), self.emit),
                    floor_db=floor_db,
                    limit_s=LIMIT_S if limit_s is None else min(limit_s, LIMIT_S),
                )
            known |= {(each.layer, each.form): each for each in found}
            self._learn(sensitivities={**self.known.sensitivities, key: tuple(known.values())})
        return tuple(
            known[name, scheme] for name, some in schemes.items() for scheme in some if (name, scheme) in known
        )

    def switchboard(self, backend: str, schemes: Mapping[str, Sequence[str]], **changes: int) -> "GatedModel":
        from edgeopt.quant.sensitivity.switchboard import GatedModel

        return GatedModel(self.model, self.layers, schemes, self.context(backend, **changes))

    def written(self, choices: Mapping[str, str], backend: str, **changes: int) -> "QuantizedModel":
        """Returns the model with these schemes, in the form that the backend requires."""
        from edgeopt.quant.write import write

        return write(self.model, self.layers, choices, self.context(backend, **changes))

    def recorded(self, choices: Mapping[str, str], trace: "Trace") -> "Recorded":
        """Returns the record with which a model with these schemes can be written again without data."""
        from edgeopt.quant.write import record_of

        return record_of(choices, trace, self.equalization)

    def save_written(
        self, choices: Mapping[str, str], backend: str, path: Path, **changes: int
    ) -> "QuantizedModel":
        from edgeopt.graph.model import save

        found = self.written(choices, backend, **changes)
        save(found.model, path)
        return found

    def _learn(self, **found: object) -> None:
        self.known = msgspec.structs.replace(self.known, **found)


def begin(
    model: "ir.Model",
    sample_sets: SampleSets,
    reference: Mapping[int, Mapping[str, Array]],
    settings: QuantSettings,
    folder: Path,
    keep_float: Sequence[str] = (),
    emit: Emit = ignore,
) -> LayerMeasurements:
    """Writes the float model into the folder and finds its layers."""
    from edgeopt.graph.model import save
    from edgeopt.quant.layers import find_layers

    folder.mkdir(parents=True, exist_ok=True)
    save(model, folder / MODEL)
    layers = _kept(find_layers(model, sample_sets.shapes()), keep_float)
    return LayerMeasurements(folder, model, sample_sets, reference, Known(layers, settings), emit)


def schemes_for(backend: str, calibrated: bool) -> tuple[Scheme, ...]:
    """Returns the schemes that a backend computes faster; those that need ranges only if `calibrated`."""
    return tuple(
        scheme for scheme in SCHEMES if backend in scheme.backends and (calibrated or not scheme.needs_ranges)
    )


def _kept(layers: Sequence[Layer], patterns: Sequence[str]) -> tuple[Layer, ...]:
    """Marks the layers that the user keeps float; raises a UsageError for a pattern that matches no layer."""
    for pattern in patterns:
        if not any(_is_meant(layer, pattern) for layer in layers):
            names = ", ".join(layer.name for layer in layers[:3])
            raise UsageError(
                f"No layer matches --keep-float '{pattern}'.",
                f"--sensitivity lists all of them: {names}, ..." if names else "It has no layers.",
            )
    return tuple(
        msgspec.structs.replace(layer, reason=KEPT)
        if not layer.reason and any(_is_meant(layer, pattern) for pattern in patterns)
        else layer
        for layer in layers
    )


def _is_meant(layer: Layer, pattern: str) -> bool:
    return any(fnmatchcase(name, pattern) for name in (layer.name, *layer.nodes))


def _key(context: SchemeContext) -> str:
    """Returns a key of the backend's rules and the settings, on which a simulated scheme depends."""
    rules = eight_bits_of(context.backend)
    rules_key = f"{rules.style} symmetric={rules.symmetric} signed={rules.signed} everywhere={rules.everywhere}"
    return f"{rules_key} {msgspec.json.encode(context.settings).decode()}"
