"""The deployment profile (`deployment.toml`): what runs, how it was made, and what was proved of it."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from edgeopt.bundle import manifest
from edgeopt.bundle.processing.schema import Pictures
from edgeopt.bundle.processing.schema import Step as Declared
from edgeopt.bundle.toml import read_toml, to_commented_toml
from edgeopt.decoding import thread_safe
from edgeopt.errors import BundleError, UsageError
from edgeopt.graph.import_proof import InputLimits, SizeLimits
from edgeopt.graph.rows.record import RowAnalysis

if TYPE_CHECKING:  # the agent reads profiles, and must not load numpy for it
    from edgeopt.backends.base import TensorInfo
    from edgeopt.hw.device import Device

SCHEMA = 2
READABLE = (1, 2)
"""The schemas that are read; the first had neither forms nor digests, so such a bundle cannot be replayed."""
FILE = "deployment.toml"
ENCODER = "encoder"
"""Folder with the bundle of the encoder of a speech model."""
SUFFIX = ".edgeopt"
"""File suffix of a bundle; a path with it counts as a bundle even if it is missing or broken."""
LARGEST_BYTES = 4 << 20
_SYSTEM = re.compile(r"(?:^|, )(Linux|Darwin|Windows) ([A-Za-z0-9_]+)(?=,|$)")
"""Operating system and architecture in the words of a machine's host, after its board."""
_HINT = "Copy the bundle again from its source."
_HEAD = """edgeopt deployment profile: what runs, how it was made, what was proved. See docs/bundles.md.
Rebuild the bundle from the source model: edgeopt replay THIS MODEL -o BUNDLE"""
_COMMENTS = {
    "source": "The model that all was made from.",
    "run": "What runs: the backend, the model's file in the bundle, and the runtime's options.",
    "inputs": "What goes in and what comes out; a name in a shape stands for a size that is open.",
    "batches": "Whether the samples of a batch affect each other, by the graph of the model.",
    "cache": "The keys and values of earlier tokens that a decoder takes up, and the ports to generate with.",
    "steps": "How the model was made from the source, in this order.",
    "files": "The digests (SHA-256) of the model's files: a replay is the same when these are.",
    "quantization": "What calibration found, so that a replay needs no data.",
    "processing": "Pre- and postprocessing, not part of the inference.",
    "budget": "What was asked for.",
    "device": "The device that it was proved on: a digest for each part, so that a change can be named.",
    "machine": "The same in words, for people.",
    "runtimes": "What was installed there.",
    "evidence": "Measurements of the written bundle against the baseline, interleaved.",
    "predicted": "Planned for a device that was not there: no time is measured. Finish it on the device.",
    "replayed": "This bundle was made from a deployment profile, without a search.",
}


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """People write or read these, and later they are signed: an unknown key is an error."""


class SourceModel(_Strict, frozen=True):
    name: str
    sha256: str
    size_bytes: int


class Tensor(_Strict, frozen=True):
    name: str
    dtype: str
    shape: list[int | str]
    """A size, the name of a dynamic dimension, or "?"."""
    limits: dict[str, SizeLimits] = {}
    """The sizes of open dimensions that the model is for, by axis; an axis without a limit takes all."""


class Run(_Strict, frozen=True):
    backend: str
    model: str
    """The model file, within the bundle."""
    options: dict[str, str | int | float | bool | dict[str, list[int]]] = {}
    plugin: str = ""
    """The plug-in that brings the backend, with its version: it must be installed where the bundle runs."""


class Step(_Strict, frozen=True):
    recipe: str
    parameters: dict[str, str | int | float | bool | list[str]] = {}
    forms: dict[str, list[str]] = {}
    """The precision of each layer: form, the layers that have it; all others are as they were."""

    def listed(self, parameter: str) -> tuple[str, ...]:
        """The values of a parameter that is a list; empty where the step has none."""
        found = self.parameters.get(parameter, [])
        return tuple(found) if isinstance(found, list) else (str(found),)


class UnderLoad(_Strict, frozen=True):
    """Measurements of a search for throughput; the speed-up of the evidence is then that of the throughput."""

    callers: int
    """Threads that call the one session, each waiting for its answer before it calls again."""
    batch: int
    """Samples in one run."""
    samples_per_s: float
    baseline_samples_per_s: float
    baseline_callers: int
    baseline_batch: int


class Evidence(_Strict, frozen=True):
    verdict: str
    baseline: str
    baseline_ms: float
    latency_ms: float
    speedup: float
    speedup_low: float
    speedup_high: float
    rounds: int
    accuracy_db: float
    floor_db: float
    samples: int
    measured_while: str = ""
    """State of the device during the measurement, as a sentence."""
    load: UnderLoad | None = None


class Predicted(_Strict, frozen=True):
    """Prediction for a bundle that was planned for an absent device: none of its times was measured."""

    verdict: str
    """`predicted`."""
    device: str
    """Name of the device for people."""
    basis: str
    """The basis of the times, or why there are none."""
    accuracy_db: float
    """Signal-to-noise ratio on `judged_with`, not on the device: rounding differs in the last bits only."""
    judged_with: str
    floor_db: float
    samples: int
    finish: list[str]
    """Steps to carry out on the device."""
    baseline_ms: float | None = None
    latency_ms: float | None = None
    latency_low_ms: float | None = None
    latency_high_ms: float | None = None
    speedup: float | None = None


class Budget(_Strict, frozen=True):
    """Target and limits of the search."""

    goal: str = ""
    """Accuracy requirement in words: `30 dB`, `top-1 within 1 %`; empty if no floor was requested."""
    objective: str = "latency"
    time_limit_s: float | None = None


class CalibrationRecord(_Strict, frozen=True):
    """Calibration results: enough to quantize the model in the same way without data."""

    sha256: str
    file: str = ""
    """Within the bundle."""
    embedded: str = ""
    """The same in an exported profile, which is one file: compressed by zlib, as base64."""


class Replayed(_Strict, frozen=True):
    """Origin of a bundle that was made from a deployment profile, without a search."""

    on: str
    edgeopt: str
    measured: bool
    """Whether the evidence was measured again; otherwise it is that of the first bundle and its device."""
    same_files: bool
    """Whether the model's files are those of the first bundle, byte for byte."""
    own_answers: bool = False
    """Whether the golden samples are generated, and compared with the rebuilt model's own answers."""


class Part(_Strict, frozen=True):
    """Pre- or postprocessing of a model: an ONNX file, pictures made into an input, or declared steps."""

    inputs: list[Tensor]
    outputs: list[Tensor]
    file: str = ""
    """Within the bundle."""
    sha256: str = ""
    embedded: str = ""
    """The file in an exported profile, which is one file: compressed by zlib, as base64."""
    pictures: Pictures | None = None
    steps: list[Declared] = []

    def __post_init__(self) -> None:
        kinds = (self.is_file, self.pictures is not None, bool(self.steps))
        if sum(kinds) != 1 or (self.pictures is not None and (len(self.inputs), len(self.outputs)) != (1, 1)):
            raise ValueError("it must be a file, pictures made into one input, or steps")

    @property
    def is_file(self) -> bool:
        return bool(self.file or self.embedded)


class Times(_Strict, frozen=True):
    """Medians over runs of one process that did one after the other."""

    inference_ms: float
    runs: int
    pre_ms: float | None = None
    post_ms: float | None = None


class Processing(_Strict, frozen=True):
    """Pre- and postprocessing that `Session.process` runs around the model; `Session.run` runs the model alone."""

    pre: Part | None = None
    """Makes inputs of the model; those that it does not make are taken as they are given."""
    post: Part | None = None
    """Takes outputs of the model; those that it does not take are handed on."""
    times: Times | None = None

    def __post_init__(self) -> None:
        if (self.pre is not None and self.pre.steps) or (self.post is not None and self.post.pictures is not None):
            raise ValueError("steps stand after a model, pictures before it")


class Cache(_Strict, frozen=True):
    """The cache of a decoder, and the ports that generating tokens feeds and reads."""

    pairs: dict[str, str]
    """The output that carries the state, by the name of its input."""
    axis: int
    """The axis of the state that grows with each token."""
    tokens: str
    """The input of token ids."""
    logits: str
    """The output with a score for each token of the vocabulary."""
    mask: str = ""
    """The input with a one for each token, cached ones included; empty if there is none."""
    positions: str = ""
    """The input with the place of each new token in the sequence; empty if there is none."""
    max_context_tokens: int | None = None
    """The largest number of tokens that the model takes, cached ones included; None if it is not known."""
    given: list[str] = []
    """The inputs that the encoder computes once, which are the same at every step."""


class Deployment(_Strict, frozen=True):
    name: str
    created: str
    edgeopt: str
    target: str
    summary: str
    source: SourceModel
    run: Run
    inputs: list[Tensor]
    outputs: list[Tensor]
    batches: RowAnalysis | None = None
    """Whether the rows of a batch affect each other; None in older bundles, and where no batch is possible."""
    cache: Cache | None = None
    """The cache of a decoder; None for other models, and in bundles written by versions before it."""
    steps: list[Step] = []
    files: dict[str, str] = {}
    """The digests of the model's files, within the bundle."""
    quantization: CalibrationRecord | None = None
    processing: Processing | None = None
    budget: Budget | None = None
    device: dict[str, str] = {}
    """The fingerprint of the device that it was proved on, by named parts."""
    machine: dict[str, str] = {}
    """The same parts in words, for people; nothing is decided by them."""
    runtimes: dict[str, str] = {}
    evidence: Evidence | None = None
    predicted: Predicted | None = None
    """Prediction that replaces the evidence until the bundle is measured on its device."""
    replayed: Replayed | None = None
    schema: int = SCHEMA


def to_toml(deployment: Deployment) -> str:
    """The deployment as text; written by hand nowhere, read by people often."""
    plain: dict[str, Any] = {"schema": deployment.schema, **msgspec.to_builtins(deployment)}
    # A reader takes what is missing for empty, but of inputs and outputs.
    filled = {name: value for name, value in plain.items() if value or name in {"inputs", "outputs"}}
    return to_commented_toml(filled, _HEAD, _COMMENTS)


def read_deployment(path: Path) -> Deployment:
    """The deployment in a file; raises BundleError naming the key that is wrong."""
    try:
        if path.stat().st_size > LARGEST_BYTES:  # a foreign bundle must not fill the memory
            raise BundleError(f"{path} is too large for a deployment profile.", _HINT)
        plain = read_toml(path.read_text(encoding="utf-8"))
        _check_schema(plain.get("schema"), path)
        found = msgspec.convert(plain, thread_safe(Deployment))
    except FileNotFoundError:
        raise BundleError(f"'{path.parent}' has no {FILE}.", "It is not a bundle, or it is damaged.") from None
    except OSError as error:
        raise BundleError(f"{path} cannot be read: {error.strerror}.", _HINT) from None
    except msgspec.ValidationError as error:
        hint = "docs/bundles.md lists every key."
        if "run" not in plain:
            hint = "Give a deployment profile; a target profile is checked by: edgeopt targets validate FILE"
        raise BundleError(f"{path}: {error}.", hint) from None
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{path} is not readable TOML: {error}.", _HINT) from None
    return found


def check_outside_bundles(out: Path) -> None:
    """Raises UsageError for a place inside a bundle: a new or changed file would make the bundle invalid."""
    for folder in out.resolve().parents:
        if all((folder / name).is_file() for name in (FILE, manifest.FILE)):
            raise UsageError(
                f"'{out}' is inside the bundle '{folder}', whose files must not change.",
                "Choose a place outside the bundle.",
            )


def _check_schema(found: object, path: Path) -> None:
    """Checked first: keys of a newer edgeopt are not mistakes in the file."""
    if isinstance(found, int) and found not in READABLE:
        raise BundleError(
            f"{path} has schema {found}; this edgeopt reads schema {' and '.join(map(str, READABLE))}.",
            "Use the edgeopt that wrote it.",
        )


def describe_part(part: Part) -> str:
    """Returns one line that names the part's file, or its steps."""
    if part.is_file:
        return f"an ONNX file, {part.sha256[:12]}"
    if part.pictures is not None:
        return f"pictures: {_listed(part.pictures)}"
    return ", ".join(f"{step.__struct_config__.tag} ({_listed(step)})" for step in part.steps)


def _listed(record: msgspec.Struct) -> str:
    fields = {name: value for name, value in msgspec.to_builtins(record).items() if name != "do"}
    return ", ".join(f"{name} {_value(value)}" for name, value in fields.items())


def _value(value: object) -> str:
    if not isinstance(value, list | tuple):
        return f"{value:.6g}" if isinstance(value, float) else str(value)
    return ("x" if all(isinstance(each, int) for each in value) else " / ").join(map(_value, value))


def tensor_of(info: "TensorInfo", limits: InputLimits | None = None) -> Tensor:
    """An input or an output; what is not known of its shape is a question mark."""
    shape: list[int | str] = ["?" if dim is None else dim for dim in info.shape]
    return Tensor(info.name, info.dtype, shape, dict((limits or {}).get(info.name, {})))


def info_of(tensor: Tensor) -> "TensorInfo":
    """Returns the tensor as backends describe it."""
    from edgeopt.backends.base import TensorInfo

    return TensorInfo(tensor.name, tensor.dtype, tuple(None if dim == "?" else dim for dim in tensor.shape))


def four_digits(value: float) -> float:
    """More would pretend a precision that no clock here has. `evidence.json` keeps all."""
    return float(f"{value:.4g}")


def six_digits(value: float) -> float:
    """Three are shown, which, rounded by way of four, would sometimes not be those of `evidence.json`."""
    return float(f"{value:.6g}")


def machine_of(device: "Device") -> dict[str, str]:
    """The parts of a device's fingerprint in words; without those that it has nothing of."""
    host, cpu, limits = device.host, device.cpu, device.limits
    cores = f"{cpu.physical_cores or '?'} cores, {cpu.logical_cores} threads"
    parts = {
        "host": ", ".join(filter(None, (host.board, f"{host.os} {host.architecture}", host.virtual_machine))),
        "cpu": f"{cpu.model or cpu.vendor or 'unknown'}, {cores}, {cpu.simd_level}",
        "limits": f"{limits.usable_cores} usable cores{_memory_limit(limits.cgroup_memory_bytes)}",
        "memory": _gib(device.memory.total_bytes),
        "accelerators": ", ".join(each.name for each in device.accelerators),
        "drivers": ", ".join(f"{each.name}: {each.driver}" for each in device.accelerators if each.driver),
    }
    return {name: words for name, words in parts.items() if words}


def system_of(deployment: Deployment) -> tuple[str, str] | None:
    """Returns operating system and architecture of the device, as `machine_of` wrote them; None if it did not."""
    found = _SYSTEM.findall(deployment.machine.get("host", ""))
    return found[-1] if found else None  # the board, which may contain anything, is before it


def _memory_limit(size_bytes: int | None) -> str:
    return f", at most {_gib(size_bytes)} of memory" if size_bytes is not None else ""


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.3g} GiB"
