"""Records of quantization: layers, ranges, cost and gain of schemes, plans, findings, settings of a target."""

from typing import Literal

import msgspec


class QuantSettings(msgspec.Struct, frozen=True):
    activation_type: str = "uint8"
    weight_type: str = "int8"
    per_channel: bool = True
    reduce_range: bool = False
    """7-bit weights: without VNNI or dotprod, pairs of 8-bit products overflow 16 bits and saturate."""
    symmetric_activations: bool = False
    """The zero point of activations is that of their type's middle."""
    calibration: str = "minmax"
    """How the ranges of activations are found; a name of `edgeopt.quant.ranges.METHODS`."""
    percentile: float = 99.99
    """For the calibration of that name: what share of the values stays inside the range, in percent."""
    block_size: int = 64
    """Consecutive weights that share a scale, if a scheme has blocks."""
    group_size: int = 64
    """Consecutive activations that share a scale, if a backend quantizes them by groups."""


FLOAT = "float"
"""The form of a layer that stays as it is."""


class Layer(msgspec.Struct, frozen=True):
    """Nodes that change precision together: one product, or several that share their weights."""

    name: str
    """Of its first node; unique in the model."""
    operator: str
    nodes: tuple[str, ...]
    weight: str
    """The constant that it multiplies with; empty where both factors are computed."""
    inputs: tuple[str, ...]
    """The tensors that are computed and that it multiplies."""
    outputs: tuple[str, ...]
    multiply_adds: int
    """In one run of one sample, with the data's shapes."""
    parameters: int = 0
    weight_shape: tuple[int, ...] = ()
    channel_axis: int | None = None
    """The axis of the weights that has the channels of the output."""
    reason: str = ""
    """Why no form but float fits it, as the end of a sentence; empty where one does."""


class Range(msgspec.Struct, frozen=True):
    """Between what a tensor's values are kept."""

    low: float
    high: float


class Sensitivity(msgspec.Struct, frozen=True):
    """What one form of one layer alone does to the outputs."""

    layer: str
    form: str
    noise: tuple[float, ...]
    """For each output of the model, the noise power over the signal power, over all samples together."""
    snr_db: float
    """Of the worst output."""
    local_db: float | None = None
    """At the layer's own output, given the inputs of the float model; None where it was not looked at."""
    measured: bool = True
    """From runs of the whole model; otherwise estimated from other points."""


class LayerGain(msgspec.Struct, frozen=True):
    """What one form of one layer saves on one backend."""

    layer: str
    form: str
    float_ms: float
    form_ms: float
    boundary_ms: float = 0.0
    """For the conversions around it, where its neighbours stay float."""
    basis: Literal["measured", "estimated"] = "measured"

    @property
    def saves_ms(self) -> float:
        return self.float_ms - self.form_ms


class LayerVerdict(msgspec.Struct, frozen=True):
    """What the plan does with a layer, and why."""

    layer: str
    form: str
    reason: str
    """A sentence: "kept float: costs 9 dB alone, saves 0.03 ms"."""
    saves_ms: float | None = None
    snr_db: float | None = None


class FrontierPoint(msgspec.Struct, frozen=True):
    """A choice of forms on the frontier between error and time."""

    choices: dict[str, str]
    """Layer, form; layers that are not in it stay float."""
    expected_ms: float
    """The float model's time less what the layers save."""
    expected_db: float
    """From the layers' own noise, added."""
    snr_db: float | None = None
    """By a run of the whole model with these forms simulated; None where it was not run."""
    low_db: float | None = None
    """What resampling says that it may be on other samples."""
    speedup: float | None = None
    """Over the float model on the same backend, where it was measured."""


class PrecisionPlan(msgspec.Struct, frozen=True):
    """Which layer runs in which form on a backend, and why."""

    backend: str
    options: dict[str, str | int | float | bool | dict[str, list[int]]]
    """What the backend is run with: a plan holds only with these."""
    floor_db: float
    chosen: FrontierPoint
    frontier: tuple[FrontierPoint, ...]
    """From the float model to all layers quantized: each faster and less exact than the one before."""
    verdicts: tuple[LayerVerdict, ...]
    sensitivities: tuple[Sensitivity, ...] = ()
    gains: tuple[LayerGain, ...] = ()
    base_db: float | None = None
    """What the float model itself reaches on this backend with these options (bf16 is not exact)."""
    warnings: tuple[str, ...] = ()


class TargetSaid(msgspec.Struct, frozen=True):
    """What another target's device would do with the file."""

    target: str
    verdict: str
    """`fine`, `saturates`, `falls back`, `no gain`, `slower`, `fails`."""
    reason: str
    remedy: str = ""


class QuantFinding(msgspec.Struct, frozen=True):
    """What calibration saw in the data or the model that the user should know."""

    kind: str
    """`not finite`, `outlier`, `constant`, `dead channels`, `uneven channels` or `cut off`."""
    tensor: str
    sentence: str
    sample: int | None = None


class CalibrationTried(msgspec.Struct, frozen=True):
    """One method of calibration, all layers in the same form."""

    method: str
    snr_db: float | None
    low_db: float | None = None
    seconds: float | None = None
    peak_mib: float | None = None
    note: str = ""
    tensor_db: float | None = None
    """Of the middle tensor alone, on the samples that calibrated."""
    worst_tensor: str = ""
    worst_db: float | None = None
    cut_off_share: float = 0.0
    """Of all values, those outside the ranges."""
