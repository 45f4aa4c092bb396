"""Null models for the screen and the race, and searches that several tests look at."""

import shutil
from contextlib import ExitStack
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from edgeopt.bench.contender import enter
from edgeopt.bench.host import LocalHost
from edgeopt.bench.messages import Load
from edgeopt.bundle.manifest import file_digest
from edgeopt.data import Samples, save_samples
from edgeopt.data.regimes.levels import Levels
from edgeopt.data.split import split
from edgeopt.judging.goals import Goal
from edgeopt.search.optimize import optimize
from edgeopt.search.outcome import Candidate
from edgeopt.search.racing.ground import Ground
from edgeopt.search.racing.screen import Entry, screen
from edgeopt.search.racing.standard import Standard
from tests.conftest import still


class Track:
    """A baseline on null models, and entries that run against it; all real child processes."""

    def __init__(self, folder, stack, null_model, floor_db=30.0, baseline_ms=4.0, quiet=0):
        """`quiet`: so many of the samples are a hundredth as loud."""
        self.stack, self.null_model = stack, null_model
        x = np.random.default_rng(0).random((8, 8), np.float32)
        x[8 - quiet :] *= np.float32(0.01)
        samples = Samples({"x": x}, {"x": 2})
        save_samples(samples, folder / "samples")
        host = LocalHost(folder)
        self.ground = Ground(host, folder, folder / "samples")
        load = Load("null", str(null_model("baseline", latency_ms=baseline_ms)), {}, str(folder / "samples"))
        self.baseline = enter(host, "baseline", load)
        stack.callback(self.baseline.close)
        chosen, goal = split(8, True), Goal(floor=floor_db, budget="")
        reference = self.ground.outputs(self.baseline, chosen.check)
        self.standard = Standard(chosen, goal, reference, Levels(samples))

    def enter(self, name, timeout_s=20.0, **faults) -> Entry:
        path = self.null_model(name, **{"latency_ms": 4.0, **faults})
        # The race looks recipes up by name; the number of threads, which null ignores, tells entries apart.
        entry = screen(
            self.ground, self.standard, Candidate("source", "null", {"threads": len(name)}), path, timeout_s
        )
        self.stack.callback(lambda: entry.contender and entry.contender.close())
        return entry


@pytest.fixture
def track(tmp_path, null_model):
    with ExitStack() as stack:
        yield Track(tmp_path, stack, null_model)


def search(model, folder, older=None, **options):
    """One search with everything that tests ask of it; a bundle may be there already, damaged."""
    said = []
    digest = file_digest(model)
    out = folder / "out.edgeopt"
    if older is not None:
        shutil.copytree(older, out)
        (out / "model/conv.onnx").write_bytes(b"damaged")
    outcome = optimize(model, out, emit=said.append, **options)
    return SimpleNamespace(
        outcome=outcome, out=out, said=said, model=model, unchanged=file_digest(model) == digest
    )


def ready_search(model, make_folder, **options):
    """A search in which everything was made in time: as short as the machine, busy or not, lets it be."""
    for time_limit_s in (4, 12, 36):
        found = search(model, make_folder(), time_limit_s=time_limit_s, **options)
        if not any("not ready within" in (variant.failure or "") for variant in found.outcome.variants):
            break
    return found


@pytest.fixture(scope="session")
def with_data(tmp_path_factory, conv_model, conv_data, quick_profile):
    folder = partial(tmp_path_factory.mktemp, "with-data")
    return ready_search(conv_model, folder, data=conv_data, profile=quick_profile)


@pytest.fixture(scope="session")
def without_data(tmp_path_factory, conv_model, quick_profile):
    return ready_search(conv_model, partial(tmp_path_factory.mktemp, "without-data"), profile=quick_profile)


@pytest.fixture(scope="session")
def nothing_wins(tmp_path_factory, relu_model, quick_profile, conv_bundle):
    """A model of one node, with no runtime option to turn; in the place of an older, damaged bundle."""
    profile = tmp_path_factory.mktemp("still") / "still.toml"
    profile.write_text(still(quick_profile.read_text()))
    folder = partial(tmp_path_factory.mktemp, "nothing")
    return ready_search(relu_model, folder, older=conv_bundle, profile=profile)
