"""Everything that a search needs before its first candidate: model, data, device, target, baseline."""

import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from edgeopt.backends import backend_named
from edgeopt.backends.base import Available
from edgeopt.bench.contender import Contender, enter
from edgeopt.bench.host import LocalHost
from edgeopt.bench.instruments.energy import EnergyMeter
from edgeopt.bench.messages import Load
from edgeopt.bundle.read import Bundle
from edgeopt.data import Samples, open_samples, save_samples
from edgeopt.data.regimes.covered import alike_inputs
from edgeopt.data.split import split
from edgeopt.errors import DataError, MissingError, MissingExtraError, ModelError, Named, TrialError
from edgeopt.events import Emit, Log, Progress
from edgeopt.graph.files.sniff import check_file
from edgeopt.graph.verify import compare_outputs
from edgeopt.hw.device import Device, Unavailable
from edgeopt.hw.probe import probe
from edgeopt.judging.budgets import BUDGETS_DB
from edgeopt.judging.labels import labels_for
from edgeopt.judging.metrics import Labels
from edgeopt.processing.attach import Attached, attach
from edgeopt.processing.data import samples_from, try_after
from edgeopt.profiles import TargetProfile
from edgeopt.search.delivering.today import running_today
from edgeopt.search.making.messages import Inspected
from edgeopt.search.making.variants import Maker, inspect
from edgeopt.search.objectives import Objective, objective_named
from edgeopt.search.outcome import Candidate
from edgeopt.search.racing.callers import Room
from edgeopt.search.racing.reference import judge_for
from edgeopt.search.racing.screen import Course, outputs_of
from edgeopt.search.racing.space import baseline
from edgeopt.search.remembered import Memory
from edgeopt.search.settings import Settings, time_limit_for
from edgeopt.search.shapes.bucketing import check_shape, explained, settle_buckets, shaped_samples
from edgeopt.search.shapes.sized import Shaped
from edgeopt.targets import DoesNotFit, fit, planned_names, profile_for, without_planned

_GENERATED_SAMPLES = 16
_TARGET = Named("target")
_PROCESSOR = ("onnxruntime-cpu", "openvino-cpu")


@dataclass(slots=True)
class Search:
    """What all phases of one search share."""

    settings: Settings
    emit: Emit
    folder: Path
    begin: float
    limit_s: float
    device: Device
    profile: TargetProfile
    facts: Inspected
    samples: Samples
    given: bool
    """The samples are the user's, not generated."""
    course: Course
    baseline: Candidate
    baseline_contender: Contender
    maker: Maker
    warnings: list[str]
    current: Bundle | None = None
    """What runs today."""
    attached: Attached | None = None
    """What the bundle is to do before and after the model."""
    raw: Samples | None = None
    """What the samples were made of by that, where the user gave it."""
    memory: Memory | None = None
    """What earlier searches made, and where this one's variants go."""
    room: Room | None = None
    """What may be turned in a search for throughput."""
    meter: EnergyMeter | None = None
    """Of a search for the least energy."""
    stop: threading.Event = field(default_factory=threading.Event)
    """Once it is set, the search ends with what is best so far."""
    cut_short: str = ""
    """When and where it was ended before its time, as a sentence without its full stop."""
    ends_at: float | None = None
    """By when somebody is to be proved, once it was told to stop."""
    shaped: Shaped | None = None
    """The sizes that were asked for, and what is made of them."""

    @property
    def making_path(self) -> Path:
        """The samples that variants are made with; of one size, while those of the course may be of several."""
        return self.shaped.usual_path if self.shaped is not None else self.course.samples_path

    def warn(self, message: str) -> None:
        self.warnings.append(message)
        self.emit(Log("warning", message))

    def tell(self, message: str) -> None:
        """What belongs into the outcome, and is nothing to worry about."""
        self.warnings.append(message)
        self.emit(Log("info", message))

    @property
    def objective(self) -> Objective:
        return objective_named(self.settings.objective)

    def until(self, share: float) -> float:
        """The moment at which a share of the time limit is used up."""
        return self.begin + share * self.limit_s


def prepare(settings: Settings, folder: Path, stack: ExitStack, emit: Emit) -> Search:
    """Reads, checks and starts; raises the first thing that is wrong with what was given."""
    begin = time.monotonic()
    check_shape(settings)
    device = probe()
    asked = profile_for(device, settings.target, settings.profile)
    profile, absent = _with_what_is_here(without_planned(asked), settings)
    emit(Progress("reading the model", settings.model.name))
    check_file(settings.model)  # before a process is started that would have to end again
    host = LocalHost(folder)
    maker = Maker(host)
    stack.callback(maker.close)
    generated = folder / "generated"
    facts = inspect(maker, settings.model, generated, _GENERATED_SAMPLES)
    given = settings.data is not None
    attached = attach(settings.pre, settings.post, facts.inputs, facts.outputs)
    samples, raw = (
        samples_from(settings.data, facts.inputs, profile.data, attached, folder / "attached", emit)
        if settings.data
        else (open_samples(generated), None)
    )
    shaped = shaped_samples(settings, facts, samples, folder)
    samples = shaped.samples if shaped else samples
    samples_path = shaped.path if shaped else folder / "samples" if given else generated
    if given and not shaped:
        save_samples(samples, samples_path)
    course = Course(host, folder, samples_path, split(len(samples), given), settings.goal, reference=[])
    course.labels = _labels(settings, samples)
    contender, candidate = _baseline(course, settings.model, profile.backends.order)
    stack.callback(contender.close)
    with explained(shaped):
        first, count = course.split.check_first, course.split.check_count
        with judge_for(course, contender, candidate.backend, settings.model) as judge:
            course.reference = outputs_of(course, judge, first, count)
            try_after(attached, course.reference[0], folder / "attached")
            again = outputs_of(course, judge, first, count)
    steady = compare_outputs(course.reference, again)
    if steady.problem or steady.snr_db < (settings.goal.target_db or BUDGETS_DB["transparent"]):
        raise ModelError(
            f"The model answers the same inputs differently each time ({steady.snr_db:.1f} dB apart), "
            "so no variant of it can be checked.",
            "Take the random operators out, or fix their seeds, and export it again.",
        )
    limit = settings.time_limit_s or time_limit_for(facts.size_bytes, profile.search.time_limit_s)
    found = Search(
        settings, emit, folder, begin, limit, device, profile, facts, samples, given, course, candidate, contender,
        maker, [], attached=attached, raw=raw, shaped=shaped,
    )  # fmt: skip
    if settings.baseline is not None:
        found.current = running_today(settings.baseline, facts, course, maker)
    if planned_names(asked):
        found.warn(f"Left out, as this version of edgeopt has them not yet: {', '.join(planned_names(asked))}.")
    for name, reason in absent.items():
        found.warn(f"The backend {name} is left out, as it cannot be used here: {reason}.")
    _warn_of_the_data(found)
    settle_buckets(found, generated)
    return found


def _labels(settings: Settings, samples: Samples) -> Labels | None:
    if settings.data is not None:
        return labels_for(settings.goal.kind, settings.data, samples, settings.labels)
    if settings.goal.kind.needs_labels:
        raise DataError(f"The metric '{settings.goal.metric}' needs labels.", "Give data that has them.")
    return None


def _with_what_is_here(profile: TargetProfile, settings: Settings) -> tuple[TargetProfile, dict[str, str]]:
    """Without the backends for accelerators that cannot be used here, and why; the processor's say so themselves.

    MissingError where the user asked for a profile that is about one of them.
    """
    states = {name: backend_named(name).available() for name in profile.backends.order if name not in _PROCESSOR}
    absent = {name: state.reason for name, state in states.items() if isinstance(state, Unavailable)}
    first = profile.backends.order[0]
    if first in absent and (settings.target or settings.profile):
        raise MissingError(
            f"The backend {first}, which {profile.name} is about, cannot be used here: {absent[first]}.",
            f"See what can: edgeopt backends. Without {_TARGET}, a search uses what fits this device.",
            [_TARGET],
        )
    order = tuple(name for name in profile.backends.order if name not in absent)
    backends = msgspec.structs.replace(profile.backends, order=order)
    return msgspec.structs.replace(profile, backends=backends), absent


def baseline_order(backends: Sequence[str]) -> list[str]:
    """The processor first, and ONNX Runtime first there: all accuracy is judged by what the baseline answers.

    An accelerator may compute floats in fewer bits; it must not be its own judge.
    """
    return sorted(backends, key=lambda name: (name not in _PROCESSOR, not name.startswith("onnxruntime")))


def _baseline(course: Course, model: Path, backends: tuple[str, ...]) -> tuple[Contender, Candidate]:
    """The source model in the first runtime that runs it."""
    reasons, extras = [], []
    for name in baseline_order(backends):
        found = backend_named(name).available()
        if not isinstance(found, Available):
            extras.append(found.extra or name)
            continue
        candidate = baseline(name)
        load = Load(name, course.host.put(model), {}, course.host.put(course.samples_path))
        try:
            return enter(course.host, "baseline", load), candidate
        except TrialError as error:
            reasons.append(f"{name}: {error.message}")
    if not reasons:
        raise MissingExtraError(extras[0] if extras else "cpu", "Optimizing a model")
    raise ModelError(
        f"No installed runtime can run the model. {' '.join(reasons)}",
        "Check it with its own runtime first. Custom operators cannot be optimized: a bundle must hold all that "
        "it runs, and takes no library; edgeopt bench --custom-ops measures such a model.",
    )


def _warn_of_the_data(search: Search) -> None:
    course = search.course
    misfit = fit(search.device, search.profile)
    if isinstance(misfit, DoesNotFit):
        search.warn(f"The target {search.profile.name} does not fit this device: {misfit.reason}.")
    if not search.given:
        search.warn(
            "No data was given: only exact rewrites and float precisions are tried, on generated inputs. "
            "With data, 8-bit variants can be tried and checked."
        )
    elif not course.split.calibration_count:
        search.warn(f"{len(search.samples)} samples are too few to calibrate and to check apart; 8-bit needs 12.")
    for one in alike_inputs(search.samples) if search.given else ():
        search.warn(one.warning)
    for output in compare_outputs(course.reference, course.reference).outputs:
        if output.silent:
            search.warn(
                f"The output '{output.name}' is as good as zero on all samples, so no variant's accuracy can be "
                "judged by it. Check the model and the data."
            )
    if search.samples.ignored:
        search.warn(f"The data also holds {', '.join(search.samples.ignored)}, which is no input of the model.")
