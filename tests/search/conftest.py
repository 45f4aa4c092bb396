"""Null models for the screen and the race, and searches that several tests look at."""

import shutil
import time
from contextlib import ExitStack
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from edgeopt.backends.base import TensorInfo
from edgeopt.bundle.manifest import file_digest
from edgeopt.data.judging.goals import Goal
from edgeopt.data.regimes.levels import Levels
from edgeopt.data.samples import Samples, save_samples
from edgeopt.data.split import split
from edgeopt.hw.probe import probe
from edgeopt.measure.host import LocalHost
from edgeopt.search.aim import Aim
from edgeopt.search.clock import Clock
from edgeopt.search.delivering.delivery import Delivery
from edgeopt.search.delivering.golden import Golden
from edgeopt.search.delivering.proving import Proving, Rivals
from edgeopt.search.delivering.report import Case
from edgeopt.search.limits import Limits
from edgeopt.search.making.made import Variants
from edgeopt.search.making.messages import Inspected
from edgeopt.search.notes import Notes
from edgeopt.search.objectives import objective_named
from edgeopt.search.optimize import optimize
from edgeopt.search.outcome import Candidate, VariantReport
from edgeopt.search.place import Place
from edgeopt.search.racing.baseline import Baseline
from edgeopt.search.racing.entrants import Entering, Entrants
from edgeopt.search.racing.ground import Ground
from edgeopt.search.racing.screen import Entry, screen
from edgeopt.search.racing.space import Starts
from edgeopt.search.racing.standard import Standard
from edgeopt.search.stopping import Ending, Stop
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
        self.samples, self.said = samples, []
        self.notes = Notes(self.said.append)
        self.path = null_model("baseline", latency_ms=baseline_ms)
        self.baseline = self.ground.enter("baseline", "null", self.path)
        stack.callback(self.baseline.close)
        chosen, goal = split(8, False), Goal(floor=floor_db, budget="")
        reference = self.ground.outputs(self.baseline, chosen.check)
        self.standard = Standard(chosen, goal, reference, Levels(samples))

    def ending(self, limit_s=60.0) -> Ending:
        """Of a search that has so much time from now on."""
        return Ending(Stop(), Clock(time.monotonic(), limit_s), self.baseline, self.said.append)

    def entrants(self, ending, limits=Limits(), most=40) -> Entrants:  # noqa: B008 - it never changes
        """Nobody yet; the candidates are the baseline's model with the option `latency_ms` of null models."""
        variants = Variants()
        variants.enter(VariantReport("source", "as it came", 100), self.path)
        place = Place(None, self.ground, None, self.notes)
        source = Baseline(Candidate("source", "null"), self.baseline)
        entering = Entering(place, self.standard, limits, source, Starts({}), most, None, ending)
        found = Entrants(entering, variants)
        self.stack.callback(found.close)
        return found

    def delivery(self, out, profile) -> Delivery:
        """Of the baseline's model, which is to become faster."""
        source, objective = Candidate("source", "null"), objective_named("latency")
        ports = (TensorInfo("x", "float32", ("batch", 8)),), (TensorInfo("y", "float32", ("batch", 8)),)
        facts, goal = Inspected(*ports, "0" * 64, 1, {}, 100), self.standard.goal
        proving = Proving(self.standard, objective, Rivals(self.path, 100, source, None), self.samples, None)
        golden = Golden(self.standard.split, self.samples, None, None)
        case = Case(self.path, out, goal, objective, None, facts, probe(), profile, source, 9.0, 0, None)
        return Delivery(Aim(objective, Limits()), case, proving, golden, None, single_file=False)

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
