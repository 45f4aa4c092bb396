"""Null models for the screen and the race, and searches that several tests look at."""

import shutil
import time
from contextlib import ExitStack
from functools import partial
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from edgeopt.backends.base import TensorInfo
from edgeopt.bundle.manifest import file_digest
from edgeopt.commands.optimize import optimize
from edgeopt.data.judging.goals import Goal
from edgeopt.data.levels import Levels
from edgeopt.data.samples import Samples, save_samples
from edgeopt.data.split import split
from edgeopt.measure import rounds
from edgeopt.pipeline.builders.messages import Inspected
from edgeopt.pipeline.builders.variants import Variants
from edgeopt.pipeline.context import SearchResources, open_context
from edgeopt.pipeline.goal import SearchGoal
from edgeopt.pipeline.inspect import Search, SearchData, prepare
from edgeopt.pipeline.notes import SearchNotes
from edgeopt.pipeline.objectives import ResourceLimits, objective_named
from edgeopt.pipeline.outcome import Candidate, VariantReport
from edgeopt.pipeline.plans.space import StartOptions
from edgeopt.pipeline.request import OptimizeRequest
from edgeopt.pipeline.runner import AccuracyReference, TrialRunner
from edgeopt.pipeline.screen import CandidatePool, PoolEntry, screen
from edgeopt.pipeline.stopping import SearchClock, Stop, StopControl
from edgeopt.profiles.targets import profile_for
from edgeopt.workers.host import LocalHost
from tests.conftest import still, this_device, write_onnx


class Track:
    """A baseline on null models, and entries that run against it; all real child processes."""

    def __init__(self, folder, stack, null_model, floor_db=30.0, baseline_ms=2.0, quiet=0):
        """`quiet`: so many of the samples are a hundredth as loud."""
        self.stack, self.null_model = stack, null_model
        x = np.random.default_rng(0).random((8, 8), np.float32)
        x[8 - quiet :] *= np.float32(0.01)
        samples = Samples({"x": x}, {"x": 2})
        save_samples(samples, folder / "samples")
        host = LocalHost(folder)
        self.runner = TrialRunner(host, folder, folder / "samples")
        self.samples, self.said = samples, []
        self.notes = SearchNotes(self.said.append)
        self.path = null_model("baseline", latency_ms=baseline_ms)
        self.baseline = self.runner.enter("baseline", "null", self.path)
        stack.callback(self.baseline.close)
        chosen, goal = split(8, False), Goal(floor=floor_db, budget="")
        outputs = self.runner.outputs(self.baseline, chosen.check)
        self.reference = AccuracyReference(chosen, goal, outputs, Levels(samples))

    def ending(self, limit_s=60.0) -> StopControl:
        """Of a search that has so much time from now on."""
        return StopControl(Stop(), SearchClock(time.monotonic(), limit_s), self.baseline, self.said.append)

    def resources(self, ending) -> SearchResources:
        return SearchResources(self.runner, self.notes, ending, self.baseline)

    def entrants(self, ending, limits=ResourceLimits(), maximum=40) -> CandidatePool:  # noqa: B008 - it never changes
        """Nobody yet; the candidates are the baseline's model with the option `latency_ms` of null models."""
        variants = Variants()
        variants.enter(VariantReport("source", "as it came", 100), self.path)
        profile = profile_for(this_device(), None, None)
        few = msgspec.structs.replace(profile.search, max_candidates=maximum)
        search = self.search(self.path, msgspec.structs.replace(profile, search=few), limits)
        found = CandidatePool(search, self.resources(ending), variants)
        self.stack.callback(found.close)
        return found

    def search(self, out, profile, limits=ResourceLimits()) -> Search:  # noqa: B008 - it never changes
        """Of the baseline's model, which is to become faster."""
        source, goal = Candidate("source", "null"), SearchGoal(objective_named("latency"), limits)
        ports = (TensorInfo("x", "float32", ("batch", 8)),), (TensorInfo("y", "float32", ("batch", 8)),)
        facts = Inspected(*ports, "0" * 64, 1, {}, 100)
        data = SearchData(self.samples, of_user=False, split=self.reference.split)
        return Search(
            request=OptimizeRequest(self.path, out),
            goal=goal,
            device=this_device(),
            profile=profile,
            facts=facts,
            starts=StartOptions({}),
            data=data,
            reference=self.reference,
            baseline=source,
            limit_s=9.0,
        )

    def enter(self, name, timeout_s=20.0, **faults) -> PoolEntry:
        path = self.null_model(name, **{"latency_ms": 2.0, **faults})
        # The race looks recipes up by name; the number of threads, which null ignores, tells entries apart.
        entry = screen(
            self.runner, self.reference, Candidate("source", "null", {"threads": len(name)}), path, timeout_s
        )
        self.stack.callback(lambda: entry.contender and entry.contender.close())
        return entry


@pytest.fixture
def long_slices(monkeypatch):
    """For a verdict that is the same however busy the machine is."""
    monkeypatch.setattr(rounds, "SHORTEST_SLICE_MS", 24.0)


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


@pytest.fixture(scope="session")
def shuffle_detector(models):
    """A detector as ShuffleNet builds them: split channels, three convolutions, a shuffle; boxes and scores."""
    random, nodes, weights = np.random.default_rng(5), [], {}

    def op(kind, *inputs, outputs=1, **attributes):
        names = [f"v{len(nodes)}_{k}" for k in range(outputs)]
        nodes.append((kind, list(inputs), names, attributes))
        return names[0] if outputs == 1 else names

    def weight(array):
        name = f"w{len(weights)}"
        weights[name] = array
        return name

    def conv(x, taken, given, size=1, stride=1, group=1, act=True):
        shape = (given, taken // group, size, size)
        kernel = random.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))
        names = [weight(array.astype(np.float32)) for array in (kernel, random.standard_normal(given) * 0.1)]
        y = op("Conv", x, *names, strides=[stride] * 2, pads=[size // 2] * 4, group=group, kernel_shape=[size] * 2)
        return op("Relu", y) if act else y

    def branch(x, taken, given, stride):
        x = conv(conv(x, taken, given), given, given, 3, stride, given, act=False)
        return conv(x, given, given)

    def shuffle(x, channels, side):
        five, four = (weight(np.int64([1, *c, side, side])) for c in ([2, channels // 2], [channels]))
        return op("Reshape", op("Transpose", op("Reshape", x, five), perm=[0, 2, 1, 3, 4]), four)

    x, side = conv("image", 3, 24, 3, 2), 32
    heads = []
    for taken, given, units in ((24, 96, 2), (96, 192, 3)):
        half, side = given // 2, side // 2
        left = conv(conv(x, taken, taken, 3, 2, taken, act=False), taken, half)
        x = shuffle(op("Concat", left, branch(x, taken, half, 2), axis=1), given, side)
        for _ in range(units):
            left, right = op("Split", x, axis=1, outputs=2)
            x = shuffle(op("Concat", left, branch(right, half, half, 1), axis=1), given, side)
        # Not split: the whole goes through a depthwise convolution, and on through one that mixes all channels.
        x = conv(conv(x, given, given, 3, 1, given, act=False), given, given)
        x = conv(shuffle(x, given, side), given, given, act=False)
        x = op("Add", x, conv(x, given, given))
        rows = weight(np.int64([1, -1, 6]))
        heads.append(op("Reshape", op("Transpose", conv(x, given, 18, act=False), perm=[0, 2, 3, 1]), rows))
    boxes, scores = op("Split", op("Concat", *heads, axis=1), weight(np.int64([4, 2])), axis=2, outputs=2)
    nodes.append(("Identity", [boxes], ["boxes"], {}))
    nodes.append(("Softmax", [scores], ["scores"], {"axis": -1}))
    outputs = {"boxes": [1, 960, 4], "scores": [1, 960, 2]}
    return write_onnx(models / "shuffle.onnx", nodes, weights, {"image": [1, 3, 64, 64]}, outputs)


@pytest.fixture
def shuffle_model(write_model):
    """Two convolutions with a shuffle of 16 channels between them."""
    random = np.random.default_rng(0)
    text = """g (float[1,3,16,16] x) => (float[1,16,16,16] y) {
        a = Conv<pads = [1, 1, 1, 1]>(x, w)  b = Relu(a)  p = Reshape(b, five)
        q = Transpose<perm = [0, 2, 1, 3, 4]>(p)  s = Reshape(q, four)  y = Conv(s, v) }"""
    weights = {"w": random.standard_normal((16, 3, 3, 3)), "v": random.standard_normal((16, 16, 1, 1))}
    shapes = {"five": np.int64([1, 2, 8, 16, 16]), "four": np.int64([1, 16, 16, 16])}
    return write_model(text, **{name: array.astype(np.float32) for name, array in weights.items()}, **shapes)


@pytest.fixture
def prepared(tmp_path, quick_profile):
    """What `prepare` finds; everything that it started ends with the test."""
    with ExitStack() as stack:

        def work(model, said=None, **options):
            said = [] if said is None else said
            settings = OptimizeRequest(model, tmp_path / "out.edgeopt", **{"profile": quick_profile, **options})
            (tmp_path / "work").mkdir()
            place = open_context(tmp_path / "work", stack, said.append)
            found, baseline = prepare(settings, place, stack)
            warnings, samples = place.notes.kept, found.data.samples
            return SimpleNamespace(found=found, baseline=baseline, samples=samples, warnings=warnings)

        yield work
