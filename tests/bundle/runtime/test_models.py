import contextlib
import threading

import numpy as np
import psutil
import pytest

import edgeopt
from edgeopt.errors import ConstraintError, ModelError, OverloadError, UsageError, WorkerError

pytestmark = pytest.mark.processes


def row(number=1.0):
    return np.full((1, 8), number, np.float32)


def workers():
    found = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):  # it ends just now
            if "isolated.worker" in " ".join(child.cmdline()):
                found.append(child)
    return found


@pytest.fixture(scope="module")
def one_bytes(tmp_path_factory):
    """What one worker with a null model takes on this machine."""
    path = tmp_path_factory.mktemp("one") / "one.null.json"
    path.write_text('{"inputs": [], "outputs": [{"name": "y", "dtype": "float32", "shape": [1]}]}')
    with edgeopt.load(path, isolate=True) as session:
        session.run({})
        return session.memory_bytes


@pytest.fixture
def named(null_model):
    return lambda *names: {name: null_model(name) for name in names}


def loaded(models):
    return {name for name, each in models.statistics().models.items() if each.loaded}


def test_ten_models_answer_eight_threads_on_room_for_three(named, one_bytes):
    names = [f"m{k}" for k in range(10)]
    paths = named(*names)
    with edgeopt.load(paths["m0"]) as plain:
        wanted = [plain.run(row(k))["y"] for k in range(5)]
    wrong, maximum = [], []
    with edgeopt.Models(paths, budget_bytes=int(3.6 * one_bytes), wait_limit_s=170) as models:

        def work(seed):
            numbers = np.random.default_rng(seed)
            for k in range(5):
                name = names[numbers.integers(10)]
                try:
                    if not np.array_equal(models.run(name, row(k))["y"], wanted[k]):
                        wrong.append((name, k))
                except Exception as error:  # noqa: BLE001 - told by the test
                    wrong.append((name, error))
                maximum.append(len(workers()))

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        now = models.statistics()
        assert now.memory_bytes <= now.budget_bytes
        assert sum(each.requests for each in now.models.values()) == 40
        assert sum(each.evictions for each in now.models.values()) > 0
    assert not wrong
    # One more than fits: it is measured when it is loaded, and makes room then.
    assert max(maximum) <= 4
    assert not workers()


def test_nothing_is_loaded_before_it_is_used(named):
    with edgeopt.Models(named("a", "b"), budget_bytes=2**40) as models:
        assert not workers()
        models.run("a", row())
        assert loaded(models) == {"a"}
        assert len(workers()) == 1


def test_memory_is_what_the_worker_takes(named):
    with edgeopt.Models(named("a"), budget_bytes=2**40) as models:
        models.run("a", row())
        (worker,) = workers()
        now = models.statistics()
        assert abs(now.memory_bytes - worker.memory_info().rss) < 0.05 * now.memory_bytes


def test_the_least_recently_used_is_evicted(named, one_bytes):
    with edgeopt.Models(named("a", "b", "c"), budget_bytes=int(2.6 * one_bytes)) as models:
        for name in ("a", "b", "a", "c"):
            models.run(name, row())
        assert loaded(models) == {"a", "c"}
        assert models.statistics().models["b"].evictions == 1


def test_a_pinned_model_stays_though_it_is_the_oldest(named, one_bytes):
    with edgeopt.Models(named("a", "b", "c"), budget_bytes=int(2.6 * one_bytes), pinned=["a"]) as models:
        for name in ("a", "b", "c", "b", "c"):
            models.run(name, row())
        assert loaded(models) == {"a", "c"}
        assert models.statistics().models["a"].loads == 1


def test_a_model_in_use_is_not_evicted_for_another(named, one_bytes):
    models = edgeopt.Models(named("a", "b"), budget_bytes=int(1.6 * one_bytes), wait_limit_s=0.05)
    with models, models.lease("a") as session:
        with pytest.raises(OverloadError, match=r"no room for 'b' within 0\.05 s: in use are a"):
            models.run("b", row())
        assert session.run(row())["y"].shape == (1, 8)


def test_a_request_waits_until_a_lease_ends(named, one_bytes):
    with edgeopt.Models(named("a", "b"), budget_bytes=int(1.6 * one_bytes)) as models:
        answers = []
        waiting = threading.Thread(target=lambda: answers.append(models.run("b", row())))
        with models.lease("a"):
            waiting.start()
            assert not answers
        waiting.join(60)
        assert len(answers) == 1
        assert loaded(models) == {"b"}


@pytest.mark.parametrize("share", [0.5, 1e-6])
def test_a_model_that_cannot_fit_is_refused_and_leaves_no_worker(named, one_bytes, share):
    with edgeopt.Models(named("a"), budget_bytes=int(share * one_bytes)) as models:
        with pytest.raises(ConstraintError, match=r"'a' needs \d+ MiB, more than the budget"):
            models.run("a", row())
        assert not workers()


def test_a_pinned_model_that_takes_the_room_is_named_as_the_reason(named, one_bytes):
    with edgeopt.Models(named("a", "b"), budget_bytes=int(1.6 * one_bytes), pinned=["a"]) as models:
        models.run("a", row())
        with pytest.raises(ConstraintError, match="pinned models take"):
            models.run("b", row())


def test_a_crash_is_one_error_and_the_model_goes_on(null_model):
    path = null_model("a", crash="run")
    with edgeopt.Models({"a": path}, budget_bytes=2**40) as models:
        with models.lease("a"):
            null_model("a")
            with pytest.raises(WorkerError, match="crashed"):
                models.run("a", row())
        assert models.run("a", row())["y"].shape == (1, 8)


def test_a_model_that_fails_to_load_leaves_the_others_usable(null_model):
    paths = {"bad": null_model("bad", fail="load"), "good": null_model("good")}
    with edgeopt.Models(paths, budget_bytes=2**40) as models:
        with pytest.raises(ModelError, match="planted"):
            models.run("bad", row())
        assert models.run("good", row())["y"].shape == (1, 8)


def test_what_is_not_there_is_named(named, tmp_path):
    with edgeopt.Models(named("image"), budget_bytes=2**40) as models:
        with pytest.raises(UsageError, match="no model 'imge'") as raised:
            models.run("imge", row())
        assert raised.value.hint == "Did you mean 'image'?"
        with pytest.raises(UsageError, match="already"):
            models.add("image", tmp_path)
        with pytest.raises(UsageError, match="no model or bundle at"):
            models.add("other", tmp_path / "none")
    with pytest.raises(UsageError, match="closed"):
        models.run("image", row())
    with pytest.raises(UsageError, match="above zero"):
        edgeopt.Models(budget_bytes=0)
