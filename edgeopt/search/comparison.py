"""What `edgeopt bench` measures: models or bundles on the same inputs, whoever brings these."""

from contextlib import closing
from pathlib import Path

from edgeopt.backends import BACKENDS
from edgeopt.backends.base import Available
from edgeopt.bench.duel import Duel, Side, duel
from edgeopt.bench.messages import Load
from edgeopt.bundle.read import is_bundle, read_bundle
from edgeopt.data import check_samples, from_feeds, load_data, save_samples
from edgeopt.errors import MissingExtraError
from edgeopt.events import Emit
from edgeopt.runtime.session import load
from edgeopt.search.variants import Maker, inspect
from edgeopt.search.workspace import workspace

ROUNDS = 15
_GENERATED_SAMPLES = 16


def bench(subject: Path, against: Path | None, data: Path | None, rounds: int, emit: Emit) -> Duel:
    """Measures a model or bundle, alone or against another, in turns on the same inputs."""
    with workspace() as folder:
        samples = folder / "samples"
        paths = [p for p in (subject, against) if p is not None]
        with load(paths[0]) as session:
            inputs = session.inputs
        golden = next((p for p in paths if is_bundle(p)), None)
        if data is not None:
            save_samples(load_data(data, inputs), samples)
        elif golden is not None:
            feeds = read_bundle(golden).golden("inputs")
            save_samples(check_samples(from_feeds(feeds), inputs, "the bundle's golden inputs"), samples)
        else:
            with closing(Maker(folder)) as maker:
                inspect(maker, paths[0], samples, _GENERATED_SAMPLES)
        return duel([_side(p, samples) for p in paths], rounds, emit)


def _side(path: Path, samples: Path) -> Side:
    if is_bundle(path):
        return Side(path.name, Load("bundle", str(path), {}, str(samples)))
    for backend in BACKENDS:
        if path.name.endswith(backend.formats) and isinstance(backend.available(), Available):
            return Side(path.name, Load(backend.name, str(path), {}, str(samples)))
    raise MissingExtraError("cpu", f"Running '{path.name}'")
