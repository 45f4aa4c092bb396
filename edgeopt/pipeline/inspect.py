"""Everything that a search needs before its first candidate: model, data, device, target, baseline, incumbent."""

from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import msgspec

from edgeopt import units
from edgeopt.backends import PROCESSOR, backend_named
from edgeopt.backends.base import TensorInfo
from edgeopt.bundle import write
from edgeopt.bundle.deployment import Deployment, Run, SourceModel, tensor_of
from edgeopt.bundle.manifest import file_digest
from edgeopt.bundle.plan import limits_in
from edgeopt.bundle.processing.attach import Attached, attach, samples_from, try_after
from edgeopt.bundle.read import Bundle, is_bundle, read_bundle
from edgeopt.bundle.runtime.locate import encoder_beside
from edgeopt.data.judging.goals import BUDGETS_DB, Goal
from edgeopt.data.judging.intervals import rounded_up, samples_needed
from edgeopt.data.judging.metric import Labels
from edgeopt.data.judging.metrics import NAMES, labels_for, spread_samples
from edgeopt.data.levels import Levels, alike_inputs
from edgeopt.data.samples import Samples, open_samples, save_samples
from edgeopt.data.split import SampleLimits, Split, limits_for, split
from edgeopt.errors import DataError, MissingError, ModelError, OptionReference, TrialError, UsageError
from edgeopt.events import Progress
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.graph.import_proof import outside
from edgeopt.graph.levels import Usual, usual_power
from edgeopt.graph.passes.base import plural
from edgeopt.graph.unjudged import unjudged_outputs
from edgeopt.hw.device import Device, Unavailable
from edgeopt.measure.contender import ask, load_patience_s, reason
from edgeopt.measure.messages import Describe, Described, Load
from edgeopt.pipeline.baseline import Baseline, first_running, judge_for
from edgeopt.pipeline.builders.messages import Inspected
from edgeopt.pipeline.builders.variants import inspect
from edgeopt.pipeline.context import SearchContext
from edgeopt.pipeline.decoder.generation import GenerationTask, check_source, run_generation
from edgeopt.pipeline.decoder.workloads import DecoderData, DecoderModel, decoder_data, decoder_in, settings_for
from edgeopt.pipeline.goal import SearchGoal, goal_of
from edgeopt.pipeline.notes import SearchNotes
from edgeopt.pipeline.objectives import Objective
from edgeopt.pipeline.outcome import CURRENT, Candidate
from edgeopt.pipeline.plans.plugin_recipes import with_plugins
from edgeopt.pipeline.plans.space import StartOptions, starts_on
from edgeopt.pipeline.preset import with_preset
from edgeopt.pipeline.request import OptimizeRequest, time_limit_for
from edgeopt.pipeline.runner import AccuracyReference, Answers, TrialRunner
from edgeopt.pipeline.shapes.filling import check_shape, explained, settle_buckets, shaped_samples
from edgeopt.pipeline.shapes.sized import Shaped, of_sizes
from edgeopt.platform.command_line import join_words
from edgeopt.profiles import TargetProfile
from edgeopt.profiles.presets import PresetChoice
from edgeopt.profiles.targets import DoesNotFit, fit, planned_names, profile_for, without_planned
from edgeopt.quant.checks import check_differ
from edgeopt.version import __version__
from edgeopt.workers.client import WorkerClient
from edgeopt.workers.host import TrialHost

# With default options: users with other options pass a bundle, which contains them.
_RUNTIMES = {".onnx": "onnxruntime-cpu", ".xml": "openvino-cpu"}
Tensors = tuple[TensorInfo, ...]
_FOLDER = "today"
_OF_THIS_MODEL = "Give a deployment of this model as --baseline."


def incumbent_of(path: Path, model: Path, facts: Inspected, runner: TrialRunner, client: WorkerClient) -> Bundle:
    """Returns the incumbent as a bundle; raises UsageError if it is of another model or cannot run the samples."""
    current = read_bundle(path) if is_bundle(path) or path.is_dir() else _wrapped(path, model, runner, client)
    described = current.deployment
    for kind, theirs, ours in (
        ("takes", described.inputs, facts.inputs),
        ("gives", described.outputs, facts.outputs),
    ):
        one, two = {t.name: t.dtype for t in theirs}, {t.name: t.dtype for t in ours}
        if one != two:
            own, other = _format_tensors(one, two), _format_tensors(two, one)
            raise UsageError(f"'{path.name}' {kind} {own}, but the model {kind} {other}.", _OF_THIS_MODEL)
    try:
        runner.enter("current", "bundle", current.folder).close()
    except TrialError as error:
        raise UsageError(
            f"The baseline '{path.name}' cannot run the samples: {error.message.rstrip('.')}.", _OF_THIS_MODEL
        ) from None
    return current


def is_wrapped(current: Bundle, folder: Path) -> bool:
    """Whether the baseline was a model, so that its bundle was made in this search and has no evidence."""
    return current.folder == folder / _FOLDER


def _wrapped(path: Path, model: Path, runner: TrialRunner, client: WorkerClient) -> Bundle:
    if path.suffix == ".toml":
        replay = ["edgeopt", "replay", str(path), str(model), "-o", str(write.free_place(path.stem))]
        raise UsageError(
            f"'{path.name}' is a deployment profile, which cannot run.",
            f"Build its bundle first: {join_words(replay)}",
        )
    if not path.exists():
        raise ModelError(f"There is nothing at '{path}'.", "Check its path.")
    if path.suffix not in _RUNTIMES:
        raise UsageError(
            f"'{path.name}' is not a bundle or model.",
            "Give a bundle, an ONNX model (.onnx) or an OpenVINO model (.xml).",
        )
    folder = runner.folder / _FOLDER
    if path.suffix == ".onnx":
        found = inspect(client, path, runner.folder / "today-inputs", 1)
        inputs, outputs, digest, beside = found.inputs, found.outputs, found.digest, found.external
    else:
        inputs, outputs = _described(path, runner.host)
        weights = path.with_suffix(".bin")
        digest, beside = file_digest(path), (weights.name,) if weights.is_file() else ()
    files = {name: path.parent / name for name in (path.name, *beside)}
    deployment = Deployment(
        name=path.stem,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        edgeopt=__version__,
        target="what ran before",
        summary="The given baseline, unchanged.",
        source=SourceModel(path.name, digest, sum(file.stat().st_size for file in files.values())),
        run=Run(_RUNTIMES[path.suffix], f"{write.MODEL_FOLDER}/{path.name}"),
        inputs=[tensor_of(each, limits_in(path)) for each in inputs],
        outputs=[tensor_of(each) for each in outputs],
    )
    folder.mkdir()
    write.fill(folder, files, deployment, {})
    return read_bundle(folder)


def _described(path: Path, host: TrialHost) -> tuple[Tensors, Tensors]:
    """Returns the inputs and outputs of a model file, as its own runtime reports them in a separate process."""
    backend, place = _RUNTIMES[path.suffix], host.put(path)
    with closing(host.start()) as child:
        try:
            answer = ask(child, Describe(backend, place), load_patience_s(Load(backend, place, {}, "")))
        except TrialError as error:
            raise ModelError(f"Loading '{path.name}' {error.message.rstrip('.')}.", "It may be damaged.") from None
    if not isinstance(answer, Described):
        raise ModelError(f"'{path.name}' cannot be loaded: {reason(answer)}", "Check it with OpenVINO itself.")
    return answer.inputs, answer.outputs


def _format_tensors(these: dict[str, str], others: dict[str, str]) -> str:
    """Formats the names; with the types if only these differ."""
    same_names = these.keys() == others.keys()
    return ", ".join(f"{name} ({dtype})" if same_names else name for name, dtype in these.items()) or "nothing"


_GENERATED_SAMPLES = 16
# Of the time limit: a search takes hundreds of runs, and a preset must not keep it from proving anything.
_LONGEST_RUN_SHARE = 1 / 200
# Of the time limit: after it, the source generates fewer tokens. Its bundles are proved with as many.
_GENERATION_SHARE = 0.2
_TARGET = OptionReference("target")


@dataclass(frozen=True, slots=True)
class SearchData:
    """Samples to run the model on, and what is known of them."""

    samples: Samples
    """Samples as the model takes them; of all sizes if several were asked for."""
    of_user: bool
    """Whether the samples are the user's, not generated."""
    split: Split
    raw: Samples | None = None
    """Samples before preprocessing, if the user gave a preprocessing for the bundle."""
    shaped: Shaped | None = None
    """Samples and dimensions for the sizes that were asked for."""
    decoder: DecoderData | None = None
    """Texts and workloads of a decoder with a cache."""


@dataclass(frozen=True, slots=True)
class Search:
    """Search after inspection: the request and its goal, the facts found, and the baseline of all comparisons."""

    request: OptimizeRequest
    goal: SearchGoal
    device: Device
    profile: TargetProfile
    """Profile with the backends that are installed here."""
    facts: Inspected
    """Facts of the source model."""
    starts: StartOptions
    data: SearchData
    reference: AccuracyReference
    baseline: Candidate
    limit_s: float
    """Time limit of the whole search."""
    incumbent: Bundle | None = None
    """Deployment that the user gave with `--baseline`."""
    attached: Attached | None = None
    """Preprocessing and postprocessing of the bundle."""
    preset: PresetChoice | None = None

    @property
    def objective(self) -> Objective:
        return self.goal.objective

    @property
    def floor(self) -> str:
        goal = self.reference.goal
        return f"{goal.floor:g} dB" if goal.is_ratio else str(goal)

    def is_kept(self, winner: Candidate) -> bool:
        """Whether the winner runs today: the incumbent, or the source itself if there is no incumbent."""
        return winner.variant == CURRENT or (winner == self.baseline and self.request.baseline is None)


def prepare(settings: OptimizeRequest, place: SearchContext, stack: ExitStack) -> tuple[Search, Baseline]:
    """Prepares a search; raises an error for the first invalid input. The baseline runs until the stack ends."""
    check_shape(settings)
    runner, notes = place.runner, place.notes
    target = profile_for(place.device, settings.target, settings.profile)
    is_named = bool(settings.target or settings.profile)
    extended = with_plugins(target) if settings.plugins else target
    profile, absent = _with_what_is_here(without_planned(extended), is_named=is_named)
    notes.emit(Progress("reading the model", settings.model.name))
    made_up = runner.folder / "generated"
    client, allowed = place.builder.client, settings.allow_random
    facts = inspect(client, settings.model, made_up, _GENERATED_SAMPLES, allow_random=allowed)
    attached = attach(settings.pre, settings.post, facts.inputs, facts.outputs)
    model = decoder_in(facts, limits_in(settings.model), encoder_beside(settings.model))
    settings = settings_for(settings, model)
    if model is not None:
        limit_s = _time_limit(settings, facts, profile)
        preset, references = None, _decoder_references(settings, model, profile, attached, place, stack, limit_s)
    else:
        try_out = partial(_references, settings, facts, profile, attached, place)
        preset, references = with_preset(settings, facts, notes, stack, try_out)
    data, baseline, reference = references
    starts = starts_on(place.device, profile, facts.inputs, data.samples, growing=model is not None)
    incumbent = None
    if settings.baseline is not None:
        incumbent = incumbent_of(settings.baseline, settings.model, facts, runner, place.builder.client)
    _warn_of_the_target(target, profile, absent, place)
    if data.decoder is not None:
        notes.warn_once(data.decoder.warning)
    else:
        _warn_of_the_data(data, reference, settings.labels, notes)
    if data.shaped is not None:
        others = open_samples(made_up) if data.of_user else None
        shaped = settle_buckets(data.shaped, runner, settings.model, baseline.candidate, others, notes)
        data = replace(data, shaped=shaped)
    search = Search(
        request=settings,
        goal=goal_of(settings),
        device=place.device,
        profile=profile,
        facts=facts,
        starts=starts,
        data=data,
        reference=reference,
        baseline=baseline.candidate,
        limit_s=_time_limit(settings, facts, profile),
        incumbent=incumbent,
        attached=attached,
        preset=preset,
    )
    return search, baseline


def _references(
    settings: OptimizeRequest,
    facts: Inspected,
    profile: TargetProfile,
    attached: Attached | None,
    place: SearchContext,
    sizes: Mapping[str, int],
    stack: ExitStack,
) -> tuple[SearchData, Baseline, AccuracyReference]:
    """Returns the samples (generated ones have these sizes), the baseline, which stays loaded, and its outputs."""
    runner, emit = place.runner, place.notes.emit
    if settings.data is not None:
        samples, raw = samples_from(
            settings.data, facts.inputs, profile.data, attached, runner.folder / "attached", emit
        )
    else:
        samples, raw = of_sizes(open_samples(runner.folder / "generated"), sizes, facts.inputs), None
    of_user, metric = settings.data is not None, settings.goal.kind
    labels = labels_for(metric, settings.data, samples, settings.labels)
    if of_user:
        check_differ(samples)
        order = spread_samples(settings.data, samples, settings.labels)
        samples, raw = samples.taken(order), raw.taken(order) if raw is not None else None
        labels = labels[order] if labels is not None else None
    # Parts of shaped samples must not mix, so they are split before the time of a run is known.
    shaped = shaped_samples(settings, facts, samples, split(len(samples), of_user), runner.folder)
    taken = shaped.samples if shaped else samples
    if limits := limits_in(settings.model):
        for k in range(len(taken)):
            shapes = {name: array.shape for name, array in taken.feeds(k).items()}
            if sentence := outside(limits, shapes):
                raise DataError(
                    sentence, "Use samples and sizes within the limits, or import the model for other sizes."
                )
    save_samples(taken, runner.samples_path)
    baseline = first_running(runner, settings.model, profile.backends.order)
    stack.callback(baseline.contender.close)
    counts = SampleLimits() if shaped else limits_for(metric, baseline.contender.loaded.first_run_ms)
    data = SearchData(taken, of_user, split(len(taken), of_user, counts), raw, shaped)
    limit_s, run_ms = _time_limit(settings, facts, profile), baseline.contender.loaded.first_run_ms
    if sizes and run_ms > _LONGEST_RUN_SHARE * 1e3 * limit_s:
        raise ModelError(f"A run takes {units.milliseconds(run_ms)}, too long for a search of {limit_s:.0f} s.")
    return data, baseline, _reference(settings, data, labels, attached, runner, baseline)


def _decoder_references(
    settings: OptimizeRequest,
    model: DecoderModel,
    profile: TargetProfile,
    attached: Attached | None,
    place: SearchContext,
    stack: ExitStack,
    limit_s: float,
) -> tuple[SearchData, Baseline, AccuracyReference]:
    """Returns the texts of a decoder as samples, the baseline, which runs on, and its outputs."""
    place.notes.emit(Progress("reading the model", "caches of the texts"))
    found = decoder_data(settings, model, profile, place.runner)
    runner = replace(place.runner, runs_a_sample=found.tokens)
    save_samples(found.samples, runner.samples_path)
    baseline = first_running(runner, settings.model, profile.backends.order)
    stack.callback(baseline.contender.close)
    place.notes.emit(Progress("reading the model", "steps with its cache"))
    cache = found.cache or model.cache
    with judge_for(runner, baseline.contender, baseline.candidate.backend, settings.model) as judge:
        folder, most_s = runner.folder, _GENERATION_SHARE * limit_s
        source = run_generation(
            judge, cache, found.prompts, found.prompt_tokens, folder, found.given, limit_s=most_s
        )
    if problem := check_source(source):
        raise ModelError(problem, "Export the model again, and compare a cached step with a full run.")
    task = GenerationTask(cache, found.prompts, found.prompt_tokens, source, found.given)
    found = replace(found, generation=task)
    data = SearchData(found.samples, settings.data is not None, found.split, decoder=found)
    return data, baseline, _reference(settings, data, None, attached, runner, baseline)


def _time_limit(settings: OptimizeRequest, facts: Inspected, profile: TargetProfile) -> float:
    return settings.time_limit_s or time_limit_for(facts.size_bytes, profile.search.time_limit_s)


def _reference(
    settings: OptimizeRequest,
    data: SearchData,
    labels: Labels | None,
    attached: Attached | None,
    runner: TrialRunner,
    baseline: Baseline,
) -> AccuracyReference:
    """Returns the reference outputs of the source model; raises ModelError if two runs differ."""
    own, which = baseline.contender, data.split.check
    with (
        explained(data.shaped),
        judge_for(runner, own, baseline.candidate.backend, settings.model) as judge,
    ):
        reference = runner.outputs(judge, which)
        try_after(attached, reference[0], runner.folder / "attached")
        again = runner.outputs(judge, which)
    usual = _check_steady(reference, again, settings.goal)
    # The user does not give the values of a cache, so their levels say nothing.
    levels = Levels(data.samples if data.decoder is None else Samples({}, {}))
    return AccuracyReference(data.split, settings.goal, reference, levels, labels, usual)


def _check_steady(reference: Answers, again: Answers, goal: Goal) -> Usual:
    """Returns the usual power of the outputs; raises ModelError if they differ from run to run."""
    steady = compare_outputs(reference, again)
    if steady.problem or steady.snr_db < (goal.target_db or BUDGETS_DB["transparent"]):
        raise ModelError(
            f"Two runs on the same inputs differ ({steady.snr_db:.1f} dB), so variants of the model "
            "cannot be checked.",
            "Remove the random operators or fix their seeds, then export the model again.",
        )
    return usual_power(steady)


def _too_few_to_show(reference: AccuracyReference) -> str:
    """Returns a warning if not even equal answers on all samples can show that the drop keeps to its limit."""
    limit, count = reference.goal.max_drop, reference.split.prove_count
    if limit is None or reference.goal.accept_unproven or not reference.goal.kind.is_counted:
        return ""
    needed = samples_needed(0.0, 0.0, count, limit) if limit > 0 else None
    if needed is not None and needed <= count:
        return ""
    some = f"about {rounded_up(needed):,} samples" if needed is not None else "no number of samples"
    return (
        f"{count} samples prove the result; {some} can show a drop of at most {reference.goal.points(limit)}. "
        "With fewer, only results that agree with the source to 80 dB are delivered, unless "
        "--accept-unproven-drop is given."
    )


def _with_what_is_here(profile: TargetProfile, *, is_named: bool) -> tuple[TargetProfile, dict[str, str]]:
    """Returns the profile without the backends that are missing here, and the reason for each.

    Raises MissingError if the user named a profile for an accelerator whose backend is missing.
    """
    states = {name: backend_named(name).available() for name in profile.backends.order}
    absent = {name: state.reason for name, state in states.items() if isinstance(state, Unavailable)}
    first = profile.backends.order[0]
    if first in absent and first not in PROCESSOR and is_named:
        raise MissingError(
            f"The backend {first} of {profile.name} is not available: {absent[first]}.",
            f"List available ones with edgeopt backends, or leave out {_TARGET} to use the target that "
            "fits this device.",
            [_TARGET],
        )
    # Without any backend the search ends with the reason of the first one.
    order = tuple(name for name in profile.backends.order if name not in absent) or profile.backends.order
    backends = msgspec.structs.replace(profile.backends, order=order)
    return msgspec.structs.replace(profile, backends=backends), absent


def _warn_of_the_target(
    target: TargetProfile, profile: TargetProfile, absent: dict[str, str], place: SearchContext
) -> None:
    notes = place.notes
    if planned_names(target):
        notes.warn(f"Skipped, not supported yet: {', '.join(planned_names(target))}.")
    for name, why in absent.items():
        notes.warn(f"Skipped the backend {name}: {why}.")
    misfit = fit(place.device, profile)
    if isinstance(misfit, DoesNotFit):
        notes.warn(f"The target {profile.name} does not fit this device: {misfit.reason}.")


def _warn_of_the_data(data: SearchData, reference: AccuracyReference, labels: str, notes: SearchNotes) -> None:
    samples, expected = data.samples, reference.outputs
    if not data.of_user:
        notes.warn(
            "No data: only exact rewrites and float precisions are tried, on generated inputs. Pass "
            "--data to try 8-bit variants too."
        )
    elif not reference.split.calibration_count:
        notes.warn(
            f"The data has {plural(len(samples), 'sample')}, too few for 8-bit variants: these need 4, "
            "to calibrate and check on different ones."
        )
    elif reference.split.is_shared:
        notes.warn(
            f"{reference.split.calibration_count} of {len(samples)} samples calibrate; the others both "
            "choose and prove. With 12 or more, the precision of each layer is planned too."
        )
    notes.warn_once(_too_few_to_show(reference))
    if reference.labels is not None:
        judged = reference.judge(reference.split.check, expected, expected)
        for warning in reference.goal.label_warnings(judged, reference.labels):
            notes.warn(warning)
    for warning in samples.converted:
        notes.warn(warning)
    for one in alike_inputs(samples) if data.of_user else ():
        notes.warn(one.warning)
    for warning in unjudged_outputs(expected):
        notes.warn(warning)
    ignored = [name for name in samples.ignored if name not in ((labels,) if labels else NAMES)]
    if ignored:
        notes.warn(f"Ignored in the data: {', '.join(ignored)}, not an input of the model.")
