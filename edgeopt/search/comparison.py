"""What `edgeopt bench` measures: models or bundles on the same inputs, whoever brings these."""

from contextlib import closing
from pathlib import Path

from edgeopt.backends.base import TensorInfo
from edgeopt.bench.contest import ask, reason
from edgeopt.bench.duel import Duel, Side, duel
from edgeopt.bench.host import LocalHost
from edgeopt.bench.messages import Describe, Described, Load
from edgeopt.bundle.read import is_bundle, read_bundle
from edgeopt.data import check_samples, from_feeds, load_data, save_samples
from edgeopt.errors import DataError, ModelError, TrialError
from edgeopt.events import Emit, Progress
from edgeopt.runtime.session import Place, locate
from edgeopt.search.variants import Maker, inspect
from edgeopt.search.workspace import workspace

_GENERATED_SAMPLES = 16


def bench(subject: Path, against: Path | None, data: Path | None, rounds: int, emit: Emit) -> Duel:
    """Measures a model or bundle, alone or against another, in turns on the same inputs."""
    with workspace() as folder:
        samples = folder / "samples"
        paths = [p for p in (subject, against) if p is not None]
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
        return duel([_side(p, place, samples) for p, place in zip(paths, places, strict=True)], rounds, emit)


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
