"""Options of a search, for the command line, Python and the app."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

import msgspec

from edgeopt.bundle.request import SingleFile
from edgeopt.errors import OptionReference, UsageError
from edgeopt.options import DAY_S, AllowRandom, argument, option

if TYPE_CHECKING:
    from edgeopt.data.judging.goals import Goal
    from edgeopt.data.samples import Data
    from edgeopt.pipeline.objectives import ResourceLimits


MAX_TOKENS = 32_768

AcceptUnproven = Annotated[
    bool,
    option(
        "Accept a result that meets the metric's limit on the samples, even if they are too few to prove it.",
        "--accept-unproven-drop",
    ),
]
LabelsName = Annotated[str, option("Array of labels in the data (default: label or labels).", metavar="NAME")]


class OptimizeRequest(msgspec.Struct, frozen=True):
    """Options of a search as the user gave them; `goal` and `limits` are derived from them."""

    model: Annotated[Path, argument("Model to optimize, never changed: ONNX, or what `edgeopt import` takes.")]
    out: Annotated[Path, option("Bundle to write; replaces an older one.", "-o", "--out")]
    data: Annotated[
        Path | None,
        option(
            "Samples: .npz, or a folder of .npy files or pictures; 12 or more are best; half are for calibration. "
            "For a decoder with a cache: a text file, or an .npz of token ids; for a speech model: WAV files."
        ),
    ] = None
    floor: Annotated[
        str | None,
        option(
            "Accuracy floor: exact (80 dB), transparent (30 dB, default), balanced (20 dB), aggressive (12 "
            "dB, needs a task metric), a ratio such as 25dB, or the minimum of --metric; for a decoder with a "
            "cache kl=0.02,top1=93% (its default)."
        ),
    ] = None
    metric: Annotated[
        str | None,
        option(
            "Accuracy metric: snr (default), cosine, max-error, top1, top5, top1-labels, kl (default for a "
            "decoder with a cache), or your own function as file.py:function."
        ),
    ] = None
    max_drop: Annotated[
        str | None,
        option("Largest allowed drop of the metric, such as 0.5%.", "--max-drop", "--max-accuracy-drop"),
    ] = None
    accept_unproven_drop: AcceptUnproven = False
    labels: LabelsName = ""
    objective: Annotated[
        str,
        option(
            "Metric to minimize: latency, p99, memory, size, first-answer, energy or first-token; or to maximize: "
            "throughput or tokens-per-second (default for a decoder with a cache)."
        ),
    ] = "latency"
    shape: Annotated[
        tuple[str, ...],
        option(
            "Sizes of an open dimension: MIN:USUAL:MAX such as seq=16:32:128, or a list such as batch=1,4,8; "
            "for an import also the shape of an input, such as image=1x3x224x224; repeatable.",
            metavar="NAME=SIZES",
        ),
    ] = ()
    prompt_tokens: Annotated[
        int, option("Tokens of a prompt, for a decoder with a cache.", minimum=1, maximum=MAX_TOKENS)
    ] = 64
    new_tokens: Annotated[
        int, option("Tokens generated after a prompt, for a decoder with a cache.", minimum=1, maximum=MAX_TOKENS)
    ] = 32
    allow_random: AllowRandom = False
    max_memory_mib: Annotated[float | None, option("Maximum peak memory of the process, in MiB.")] = None
    max_size_mib: Annotated[float | None, option("Maximum size of the model files, in MiB.")] = None
    max_latency_ms: Annotated[
        float | None,
        option(
            "Maximum time of a run, in ms. Within it, objectives other than latency may accept a slower winner."
        ),
    ] = None
    baseline: Annotated[
        Path | None,
        option("Deployment to beat: a bundle, an ONNX model or an OpenVINO .xml."),
    ] = None
    target_speedup: Annotated[float | None, option("Stop once a candidate is reliably N times faster.")] = None
    time_limit_s: Annotated[
        float | None,
        option(
            "Time limit of the search with its proof, in seconds (default: 60, more for models above 10 MB). On a "
            "busy machine it may take 20 % longer; without the option, twice as long.",
            minimum=1,
            maximum=DAY_S,
        ),
    ] = None
    target: Annotated[
        str | None,
        option(
            "Target profile of a device, by name; see edgeopt targets (default: the best fit for this device)."
        ),
    ] = None
    profile: Annotated[
        Path | None,
        option("Profile for a use case: a TOML file, or the name of a built-in profile such as realtime."),
    ] = None
    preset: Annotated[
        str | None,
        option("Preset of a model family, or none (default: the one that fits the model; see edgeopt presets)."),
    ] = None
    pre: Annotated[
        Path | None,
        option(
            "Preprocessing stored in the bundle: an ONNX file, or a TOML file with a [data] table for pictures."
        ),
    ] = None
    post: Annotated[
        Path | None,
        option(
            "Postprocessing stored in the bundle: an ONNX file, or a TOML file with [[steps]] such as softmax"
            " or top-k."
        ),
    ] = None
    single_file: SingleFile = False
    pick: Annotated[
        str,
        option(
            "Deliver this candidate of an earlier search instead of the winner: its number or name in the table.",
            metavar="NUMBER",
        ),
    ] = ""
    fresh: Annotated[
        bool,
        option(
            "Ignore the search cache, or continue from it (default).",
            "--fresh/--resume",
        ),
    ] = False
    plugins: Annotated[
        bool, option("Try what installed plug-ins offer (default); see edgeopt plugins.", "--plugins/--no-plugins")
    ] = True

    @property
    def goal(self) -> "Goal":
        """Returns the accuracy goal; raises UsageError if the options do not make one."""
        from edgeopt.data.judging.goals import goal_from

        return goal_from(self.metric, self.floor, self.max_drop, self.accept_unproven_drop)

    @property
    def limits(self) -> "ResourceLimits":
        """Returns the resource limits; raises UsageError for one that nothing can keep to."""
        from edgeopt.pipeline.objectives import limits_from

        return limits_from(self.max_memory_mib, self.max_size_mib, self.max_latency_ms)


class ProofKeywords(TypedDict, total=False):
    """Keywords of every function that proves a result on the user's samples and writes it."""

    data: "Data | None"
    pre: str | Path | None
    floor: str | float | None
    metric: str | None
    max_drop: str | float | None
    accept_unproven_drop: bool
    labels: str
    shape: Iterable[str]
    single_file: bool
    time_limit_s: float | None


class OptimizeKeywords(ProofKeywords, total=False):
    """Options of a search as keywords of `edgeopt.optimize`; a test compares the two classes."""

    objective: str
    prompt_tokens: int
    new_tokens: int
    allow_random: bool
    max_memory_mib: float | None
    max_size_mib: float | None
    max_latency_ms: float | None
    baseline: str | Path | None
    target_speedup: float | None
    target: str | None
    profile: str | Path | None
    preset: str | None
    post: str | Path | None
    pick: str
    fresh: bool
    plugins: bool


def check(settings: OptimizeRequest) -> None:
    """Raises UsageError for options that are invalid by themselves, before anything is read."""
    from edgeopt.pipeline.objectives import objective_named
    from edgeopt.profiles.presets import check_preset

    check_preset(settings.preset)
    _ = settings.goal, settings.limits
    objective_named(settings.objective)
    checked_target(settings.target_speedup)


# Megabytes from, to, and seconds for each: two minutes at 30 MB, four at 90.
_LARGER = ((10.0, 30.0, 3.0), (30.0, 90.0, 2.0), (90.0, math.inf, 1.0))


def inputs_of(settings: OptimizeRequest) -> list[Path]:
    """Returns the files that a search reads and its bundle must not replace, except a bundle at the same place."""
    paths = [settings.model, settings.data, settings.pre, settings.post, settings.baseline]
    return [path for path in paths if path is not None and path.resolve() != settings.out.resolve()]


def time_limit_for(size_bytes: int, small_s: float = 60.0) -> float:
    """Returns the target's own limit up to 10 MB, and more for each further megabyte, up to ten minutes."""
    size_mb = size_bytes / 1e6
    further_s = sum(per_mb * max(0.0, min(size_mb, maximum) - minimum) for minimum, maximum, per_mb in _LARGER)
    return min(small_s + further_s, max(small_s, 600.0))


def checked_target(speedup: float | None) -> float | None:
    """Returns the target speed-up; raises UsageError unless it is more than 1."""
    if speedup is not None and not speedup > 1:
        example = OptionReference("target_speedup", "2")
        raise UsageError(
            f"A target of {speedup:g}x is not a speed-up.", f"Give more than 1, such as {example}.", [example]
        )
    return speedup
