"""A search that is killed at any moment, or has no room, loses nothing: no half bundle, no process left, no damage
to what is kept for the next one."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import uuid
from contextlib import ExitStack

import psutil
import pytest

from edgeopt.bundle.manifest import file_digest
from edgeopt.bundle.read import read_bundle
from edgeopt.bundle.runtime.check import check
from edgeopt.events import ignore
from edgeopt.pipeline.cache.store import Store

MARK = "EDGEOPT_TEST_MARK"


class Run:
    """`edgeopt optimize` in a process of its own, with folders for its bundle, temporary files and its cache."""

    def __init__(self, rest_of, ends, folder, arguments, older=None, cache=None, out=None):
        self._rest_of, self._ends = rest_of, ends
        self.mark = uuid.uuid4().hex
        self.cache = cache or folder / "cache"
        self.folder, self.temporary = folder, folder / "temporary"
        self.out = out or folder / "bundles/out.edgeopt"
        self.out.parent.mkdir(parents=True, exist_ok=True)
        self.temporary.mkdir(parents=True, exist_ok=True)
        if older is not None:
            shutil.copytree(older, self.out)
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
            "TMPDIR": str(self.temporary),
            "EDGEOPT_CACHE": str(self.cache),
            "EDGEOPT_CACHE_LIMIT": "50MB",
            MARK: self.mark,
        }
        command = [sys.executable, "-m", "edgeopt", "optimize", *arguments, "-o", str(self.out), "--json"]
        self.begin = time.monotonic()
        self.process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def wait(self):
        self.stdout, self.stderr = self._rest_of(self.process, 120)
        return self.process.returncode

    def signal_at(self, moment_s, number):
        """Sends a signal so many seconds after the start, unless it has ended by then."""
        try:
            self.process.wait(max(0.0, self.begin + moment_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.process.send_signal(number)
        return self.wait()

    def comes_to(self, phase):
        """Reads what it tells until it begins this phase; whether it does."""
        return any(json.loads(line).get("phase") == phase for line in self.process.stdout)

    def children(self):
        """Every process with the mark of this run in its environment."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == self.mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return found

    def assert_all_ended(self):
        left = [process.cmdline() for process in self.children() if not self._ends(process.pid)]
        assert not left, f"still there: {left}"

    def hidden(self):
        """What lies beside the bundle, and in the temporary folder."""
        return [p.name for p in self.out.parent.iterdir() if p != self.out] + [
            p.name for p in self.temporary.iterdir()
        ]

    def close(self):
        for process in self.children():
            process.kill()
        self.process.communicate()


@pytest.fixture
def start(tmp_path, rest_of, ends, conv_model, conv_data, short_profile, make_cache):
    with ExitStack() as stack:

        def begin(name, *more, older=None, **places):
            arguments = [conv_model, "--data", conv_data, "--profile", short_profile, *more]
            if "cache" not in places:
                make_cache(tmp_path / name / "cache")
            run = Run(rest_of, ends, tmp_path / name, [str(a) for a in arguments], older, **places)
            stack.callback(run.close)
            return run

        yield begin


def kinds_in_sound_cache(folder, to):
    """What is kept there, after taking all of it out again; nothing that can be seen may be less than whole."""
    said = []
    store = Store(folder / "searches", said.append)
    entries = store.entries()
    for entry in entries:
        assert store.get(*entry.name.split("-"), to / entry.name) is not None
    assert said == []
    assert len(entries) == len([p for p in store.folder.iterdir() if not p.name.startswith(".")])
    return [entry.kind for entry in entries]


def test_killed_while_it_is_proved_a_search_leaves_nothing_and_is_resumed(
    start, conv_model, conv_bundle, tmp_path, monkeypatch
):
    monkeypatch.setenv("EDGEOPT_CACHE_LIMIT", "50MB")
    digest = file_digest(conv_model)
    run = start("run", older=conv_bundle)
    assert run.comes_to("proving")
    run.process.send_signal(signal.SIGKILL)
    run.wait()
    run.assert_all_ended()
    assert run.hidden(), "the kill left nothing to sweep"
    assert (run.out / "manifest.json").read_bytes() == (conv_bundle / "manifest.json").read_bytes()
    check(run.out, ignore)
    kinds_in_sound_cache(run.cache, tmp_path / "killed")
    assert file_digest(conv_model) == digest
    again = start("run", "--resume", cache=run.cache)
    assert again.wait() == 0, again.stderr
    assert again.hidden() == []
    check(again.out, ignore)
    assert "bundle" in kinds_in_sound_cache(run.cache, tmp_path / "resumed")
    assert [p.name for p in (run.cache / "searches").glob(".*")] == []


@pytest.mark.slow
def test_killed_at_some_moments_a_wave(start, conv_model, conv_bundle, tmp_path, monkeypatch):
    waves, at_once = 4, 5
    monkeypatch.setenv("EDGEOPT_CACHE_LIMIT", "50MB")
    cache = tmp_path / "cache"
    digest = file_digest(conv_model)
    full = start("full")
    assert full.wait() == 0, full.stderr
    length_s = time.monotonic() - full.begin
    assert full.hidden() == []
    moments = random.Random(2026)  # noqa: S311 - the moments must be the same in every run
    for wave in range(waves):
        # Every second one replaces an older bundle, and what the others keep just now.
        more = [{"older": conv_bundle} if k % 2 else {} for k in range(at_once)]
        runs = [
            start(f"{wave}-{k}", *(["--fresh"] if k % 2 else []), cache=cache, **more[k]) for k in range(at_once)
        ]
        planned = sorted((moments.uniform(0.1, 0.9) * length_s, k) for k in range(at_once))
        for moment_s, k in planned:
            runs[k].signal_at(moment_s, signal.SIGKILL)
        for k, run in enumerate(runs):
            run.assert_all_ended()
            if k % 2 or run.out.exists():
                assert read_bundle(run.out).deployment.name == "conv"
                check(run.out, ignore)
        kinds_in_sound_cache(cache, tmp_path / f"out-of-{wave}")
    assert file_digest(conv_model) == digest
    left = [run for run in runs if run.hidden()]
    assert left, "no kill left anything to sweep"
    outcomes = []
    for turn in range(2):
        again = start(left[0].folder.name, "--resume", cache=cache)
        assert again.wait() == 0, again.stderr
        assert again.hidden() == []
        check(again.out, ignore)
        assert "bundle" in kinds_in_sound_cache(cache, tmp_path / f"after-{turn}")
        outcomes.append(json.loads(again.stdout.splitlines()[-1])["data"])
    first, second = outcomes
    assert second["from_cache"] or first["verdict"] == "undecided", "a busy machine decides nothing"
    assert [p.name for p in (cache / "searches").glob(".*")] == []


@pytest.mark.slow
def test_cancelled_twice_while_it_is_proved_the_older_bundle_stays(start, conv_bundle, tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEOPT_CACHE_LIMIT", "50MB")
    for turn in range(5):  # a proof that is clear at its first look may be over before the signal is there
        run = start(f"run-{turn}", older=conv_bundle)
        assert run.comes_to("proving")
        run.process.send_signal(signal.SIGINT)
        if run.comes_to("stopping"):
            break
    run.process.send_signal(signal.SIGINT)
    assert run.wait() == 130
    last = json.loads(run.stdout.splitlines()[-1])
    assert (last["event"], last["code"]) == ("error", "cancelled")
    assert "Traceback" not in run.stderr
    run.assert_all_ended()
    assert run.hidden() == []
    assert (run.out / "manifest.json").read_bytes() == (conv_bundle / "manifest.json").read_bytes()
    assert "bundle" not in kinds_in_sound_cache(run.cache, tmp_path / "kept")


def test_a_full_disk_is_one_sentence_and_the_older_bundle_stays(start, full_disk, conv_bundle):
    folder, fill = full_disk
    shutil.copytree(conv_bundle, folder / "bundles/out.edgeopt")
    fill()
    run = start("run", cache=folder / "cache", out=folder / "bundles/out.edgeopt")
    assert run.wait() == 3
    told = [json.loads(line) for line in run.stdout.splitlines()]
    assert (told[-1]["event"], told[-1]["code"]) == ("error", "disk-full")
    assert told[-1]["message"] == f"The disk is full: there is no room for '{run.out}'."
    assert "Traceback" not in run.stderr
    run.assert_all_ended()
    check(run.out, ignore)
    assert run.hidden() == []
    assert (run.out / "manifest.json").read_bytes() == (conv_bundle / "manifest.json").read_bytes()
