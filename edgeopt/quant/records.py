"""Records of quantization: layers, ranges, cost and gain of schemes, plans, findings, settings of a target."""

from typing import Literal

import msgspec

from edgeopt.decoding import thread_safe


class QuantSettings(msgspec.Struct, frozen=True):
    activation_type: str = "uint8"
    weight_type: str = "int8"
    per_channel: bool = True
    reduce_range: bool = False
    """Whether weights have 7 bits: without VNNI or dotprod, sums of two 8-bit products saturate 16 bits."""
    symmetric_activations: bool = False
    """Whether the zero point of activations is the middle of their type."""
    calibration: str = "minmax"
    """Method that finds the ranges of activations; a name of `edgeopt.quant.ranges.METHODS`."""
    percentile: float = 99.99
    """Share of the values inside the range for the method `percentile`, in percent."""
    block_size: int = 64
    """Consecutive weights that share a scale, if a scheme has blocks."""
    group_size: int = 64
    """Consecutive activations that share a scale, if a backend quantizes them by groups."""


def settings_of(quantization: msgspec.Struct) -> QuantSettings:
    """Returns the settings that a target profile's table `quantization` has."""
    return msgspec.convert(msgspec.to_builtins(quantization), thread_safe(QuantSettings))


FLOAT = "float"
"""The scheme of a layer that is not quantized."""


class Layer(msgspec.Struct, frozen=True):
    """Nodes that change precision together: one product, or several that share their weights."""

    name: str
    """Name of the first node; unique in the model."""
    operator: str
    nodes: tuple[str, ...]
    weight: str
    """The constant factor; empty if both factors are computed."""
    inputs: tuple[str, ...]
    """The computed tensors that the layer multiplies."""
    outputs: tuple[str, ...]
    multiply_adds: int
    """Multiply-adds of one run on one sample, with the data's shapes."""
    parameters: int = 0
    weight_shape: tuple[int, ...] = ()
    channel_axis: int | None = None
    """The axis of the weights that has the output channels."""
    reason: str = ""
    """Reason that only float fits the layer, as the end of a sentence; empty if another scheme may fit."""


class Range(msgspec.Struct, frozen=True):
    """The range to which a tensor's values are limited."""

    low: float
    high: float


class Sensitivity(msgspec.Struct, frozen=True):
    """Error of one scheme of one layer alone at the outputs of the model."""

    layer: str
    form: str
    noise: tuple[float, ...]
    """The ratio of noise power to signal power at each output of the model, over all samples together."""
    snr_db: float
    """Signal-to-noise ratio of the worst output."""
    local_db: float | None = None
    """Signal-to-noise ratio at the layer's own output with the float model's inputs; None if not measured."""
    measured: bool = True
    """Whether the noise is measured in runs of the whole model; otherwise it is estimated."""


class LayerGain(msgspec.Struct, frozen=True):
    """Time that one scheme of one layer saves on one backend."""

    layer: str
    form: str
    float_ms: float
    form_ms: float
    boundary_ms: float = 0.0
    """Time of the conversions around the layer if its neighbours stay float."""
    basis: Literal["measured", "estimated"] = "measured"

    @property
    def saves_ms(self) -> float:
        return self.float_ms - self.form_ms


class LayerVerdict(msgspec.Struct, frozen=True):
    """The scheme that a plan chooses for a layer, with the reason."""

    layer: str
    form: str
    reason: str
    """A sentence, such as "kept float: costs 9 dB alone, saves 0.03 ms"."""
    saves_ms: float | None = None
    snr_db: float | None = None


class FrontierPoint(msgspec.Struct, frozen=True):
    """A choice of schemes on the frontier between error and time."""

    choices: dict[str, str]
    """Schemes by layer; layers that are missing stay float."""
    expected_ms: float
    """Time of the float model minus the savings of the layers."""
    expected_db: float
    """Signal-to-noise ratio expected from the sum of the layers' noise."""
    snr_db: float | None = None
    """Signal-to-noise ratio in a run of the whole model with these schemes; None if it was not run."""
    low_db: float | None = None
    """Lower bound of `snr_db` for other samples, from resampling."""
    speedup: float | None = None
    """Speedup over the float model on the same backend; None if it was not measured."""


class PrecisionPlan(msgspec.Struct, frozen=True):
    """The scheme of each layer on a backend, with the reasons."""

    backend: str
    options: dict[str, str | int | float | bool | dict[str, list[int]]]
    """Options of the backend; the plan is valid only with these."""
    floor_db: float
    chosen: FrontierPoint
    frontier: tuple[FrontierPoint, ...]
    """Points from the float model on, each faster and less exact than the one before."""
    verdicts: tuple[LayerVerdict, ...]
    sensitivities: tuple[Sensitivity, ...] = ()
    gains: tuple[LayerGain, ...] = ()
    base_db: float | None = None
    """Signal-to-noise ratio of the float model on this backend with these options (bf16 is not exact)."""
    warnings: tuple[str, ...] = ()


class TargetSaid(msgspec.Struct, frozen=True):
    """The assessment of the file for the device of another target."""

    target: str
    verdict: str
    """Verdict: `fine`, `saturates`, `falls back`, `no gain`, `slower` or `fails`."""
    reason: str
    remedy: str = ""


class QuantFinding(msgspec.Struct, frozen=True):
    """A problem of the data or the model that calibration found."""

    kind: str
    """`not finite`, `outlier`, `constant`, `dead channels`, `uneven channels` or `cut off`."""
    tensor: str
    sentence: str
    sample: int | None = None


class CalibrationTried(msgspec.Struct, frozen=True):
    """The result of one calibration method, with all layers in the same scheme."""

    method: str
    snr_db: float | None
    low_db: float | None = None
    seconds: float | None = None
    peak_mib: float | None = None
    note: str = ""
    tensor_db: float | None = None
    """Signal-to-noise ratio of the median tensor alone, on the calibration samples."""
    worst_tensor: str = ""
    worst_db: float | None = None
    cut_off_share: float = 0.0
    """Share of the values that are outside the ranges."""
