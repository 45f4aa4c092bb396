"""What `edgeopt bench` and `edgeopt watch` measure: models or bundles on the same inputs, whoever brings these."""

from contextlib import closing
from pathlib import Path

from edgeopt.backends.base import TensorInfo
from edgeopt.bench.contest import ask, reason
from edgeopt.bench.duel import Duel, Side, duel
from edgeopt.bench.host import LocalHost
from edgeopt.bench.messages import Describe, Described, Load
from edgeopt.bench.watch import WatchReport
from edgeopt.bench.watch import watch as watch_side
from edgeopt.bundle.read import is_bundle, read_bundle
from edgeopt.data import check_samples, from_feeds, load_data, save_samples
from edgeopt.errors import DataError, ModelError, TrialError, UsageError
from edgeopt.events import Emit, Progress
from edgeopt.runtime.session import Place, locate
from edgeopt.search.variants import Maker, inspect
from edgeopt.search.workspace import workspace

_GENERATED_SAMPLES = 16


def bench(subject: Path, against: Path | None, data: Path | None, rounds: int, emit: Emit) -> Duel:
    """Measures a model or bundle, alone or against another, in turns on the same inputs."""
    with workspace() as folder:
        return duel(_sides([p for p in (subject, against) if p is not None], data, folder, emit), rounds, emit)


def watch(
    subject: Path, data: Path | None, rate_per_s: float | None, seconds: float | None, emit: Emit
) -> WatchReport:
    """Runs a model or bundle over and over and tells how it fares; without `seconds`, until it is stopped."""
    for value, what in ((rate_per_s, "rate"), (seconds, "number of seconds")):
        if value is not None and not 0 < value < float("inf"):
            raise UsageError(f"{value} is no {what}.", "Give a number above 0.")
    with workspace() as folder:
        (side,) = _sides([subject], data, folder, emit)
        return watch_side(LocalHost(folder), side, rate_per_s, seconds, emit)


def _sides(paths: list[Path], data: Path | None, folder: Path, emit: Emit) -> list[Side]:
    """What is to run, on the user's samples, else on a bundle's golden inputs, else on generated ones."""
    samples = folder / "samples"
    places = [locate(p) for p in paths]
    emit(Progress("reading the model", paths[0].name))
    inputs, *others = (_inputs(place, folder) for place in places)
    for other in others:
        names, theirs = ([i.name for i in side] for side in (inputs, other))
        if set(names) != set(theirs):
            raise ModelError(
                f"The two take different inputs: {', '.join(names)} and {', '.join(theirs)}.",
                "Only models with the same inputs can be measured against each other.",
            )
    golden = next((p for p in paths if is_bundle(p)), None)
    if data is not None:
        save_samples(load_data(data, inputs), samples)
    elif golden is not None:
        feeds = read_bundle(golden).golden("inputs")
        save_samples(check_samples(from_feeds(feeds), inputs, "the bundle's golden inputs"), samples)
    elif places[0].model.suffix == ".onnx":
        with closing(Maker(folder)) as maker:
            inspect(maker, paths[0], samples, _GENERATED_SAMPLES)
    else:
        raise DataError(f"Inputs for '{paths[0].name}' cannot be made up.", "Give some with --data.")
    return [_side(p, place, samples) for p, place in zip(paths, places, strict=True)]


def _inputs(place: Place, folder: Path) -> tuple[TensorInfo, ...]:
    """What the model takes; asked of a trial, because loading a model may crash or never end."""
    with closing(LocalHost(folder).start()) as child:
        try:
            answer = ask(child, Describe(place.backend.name, str(place.model)))
        except TrialError as error:
            raise ModelError(
                f"Loading '{place.model.name}' {error.message}.", "The file may be damaged."
            ) from None
    if not isinstance(answer, Described):
        raise ModelError(reason(answer), "Check the file with its own runtime.")
    return answer.inputs


def _side(path: Path, place: Place, samples: Path) -> Side:
    return Side(path.name, Load(place.backend.name, str(place.model), dict(place.options), str(samples)))
