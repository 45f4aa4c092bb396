import errno
import os
import struct
import subprocess
import sys
import threading

import pytest

from edgeopt.hw.device import Unavailable
from edgeopt.hw.host import LocalHost, RecordedHost
from edgeopt.measure.instruments.counters import EVENTS, Counters, difference, memory_bytes_estimate, open_counters

SOFTWARE = {"task_clock_ns", "page_faults", "context_switches", "cpu_migrations"}
PARANOID = "proc/sys/kernel/perf_event_paranoid"
MIB = 2**20
# Modules are imported as the user who may read them.
AS_NOBODY = """
import ctypes, os, platform, msgspec
from edgeopt.measure.instruments.counters import open_counters
os.setuid(65534)
found = open_counters()
print(getattr(found, "reason", None) or [found.user_only, *sorted(found.read()), *found.missing.values()])
"""
needs_perf = pytest.mark.skipif(
    isinstance(open_counters(), Unavailable), reason="this kernel, or what contains it, permits no perf event"
)


class Kernel:
    """A stand-in for perf_event_open: it plants errors, and each reading gets what a test has told before."""

    def __init__(self):
        self.writers, self.flags, self.descriptors = {}, {}, []
        self.refuse = lambda _name, _user_only: 0

    def __call__(self, attr):
        kind, size, config, _, _, read_format, flags, _, _, _ = struct.unpack("=IIQQQQQIIQ", attr)
        assert (size, read_format, flags & 2) == (64, 3, 2)  # with both times, and inherited by threads
        name = next(name for name, event in EVENTS.items() if (event.kind, event.config) == (kind, config))
        if number := self.refuse(name, bool(flags & 32)):
            raise OSError(number, "perf_event_open")
        reader, self.writers[name] = os.pipe()
        self.flags[name] = flags
        self.descriptors.append(reader)
        return reader

    def tell(self, **readings):
        """Value, time enabled, time running; what is not named has not moved on."""
        for name, writer in self.writers.items():
            os.write(writer, struct.pack("=QQQ", *readings.get(name, (0, 0, 0))))


@pytest.fixture
def kernel():
    made = Kernel()
    yield made
    for writer in made.writers.values():
        os.close(writer)


@pytest.fixture
def opened(kernel, tmp_path):
    """Opens counters of that kernel, with its kernel.perf_event_paranoid."""
    found = []

    def make(paranoid=0):
        file = tmp_path / PARANOID
        file.parent.mkdir(parents=True)
        file.write_text(f"{paranoid}\n")
        found.append(open_counters(kernel, RecordedHost(tmp_path)))
        return found[-1]

    yield make
    for each in found:
        if isinstance(each, Counters):
            each.close()


def test_everything_is_counted_where_it_may_be(kernel, opened):
    counters = opened()
    assert (counters.missing, counters.user_only) == ({}, False)
    kernel.tell(**dict.fromkeys(EVENTS, (100, 10, 10)))
    before = counters.read()
    kernel.tell(**dict.fromkeys(EVENTS, (350, 20, 20)))
    assert difference(before, counters.read()) == dict.fromkeys(EVENTS, 250)


def test_a_counter_that_shares_its_place_is_scaled_by_its_time(kernel, opened):
    counters = opened()
    kernel.tell(cycles=(1000, 100, 100), instructions=(500, 100, 50))
    before = counters.read()
    assert (before["cycles"], before["instructions"]) == (1000, 1000)
    # In the second half of the time the counter of instructions ran for a quarter of it.
    kernel.tell(cycles=(2000, 200, 200), instructions=(700, 200, 75))
    assert difference(before, counters.read())["instructions"] == 800


def test_a_counter_that_had_no_turn_is_absent_and_later_stands_for_all_its_time(kernel, opened):
    counters = opened()
    kernel.tell(cycles=(50, 10, 10), branch_misses=(0, 10, 0))
    assert "branch_misses" not in counters.read()
    kernel.tell(cycles=(100, 20, 20), branch_misses=(30, 20, 5))
    assert counters.read()["branch_misses"] == 120


def test_without_rights_only_what_happens_outside_of_the_kernel(kernel, opened):
    kernel.refuse = lambda _name, user_only: 0 if user_only else errno.EACCES
    counters = opened(paranoid=2)
    assert counters.user_only
    assert counters.missing.keys() == {"context_switches", "cpu_migrations"}
    assert "sysctl kernel.perf_event_paranoid=1" in counters.missing["context_switches"]
    assert all(flags & (32 | 64) == 96 for flags in kernel.flags.values())


def test_a_virtual_machine_without_hardware_counters_still_has_those_of_the_kernel(kernel, opened):
    kernel.refuse = lambda name, _user_only: 0 if name in SOFTWARE else errno.ENOENT
    counters = opened()
    assert counters.missing.keys() == EVENTS.keys() - SOFTWARE
    assert "virtual machine" in counters.missing["cycles"]


@pytest.mark.parametrize(
    ("number", "paranoid", "words"),
    [
        (errno.EACCES, 3, "sudo sysctl kernel.perf_event_paranoid=2"),
        (errno.EPERM, 1, "--cap-add PERFMON"),
        (errno.ENOSYS, 1, "built without perf events"),
        (errno.EMFILE, 1, "too many open files"),
        (errno.EBUSY, 1, "the kernel refused: Device or resource busy"),
    ],
)
def test_where_nothing_may_be_counted_the_reason_says_what_to_do(kernel, opened, number, paranoid, words):
    kernel.refuse = lambda _name, _user_only: number
    found = opened(paranoid)
    assert isinstance(found, Unavailable)
    assert words in found.reason


@pytest.mark.parametrize(
    ("system", "machine", "words"), [("linux", "sparc64", "sparc64"), ("darwin", "arm64", "this is darwin")]
)
def test_other_systems_are_named(monkeypatch, system, machine, words):
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr("platform.machine", lambda: machine)
    found = open_counters()
    assert isinstance(found, Unavailable)
    assert words in found.reason


def test_closed_counters_give_their_files_back(kernel, opened):
    opened().close()
    for descriptor in kernel.descriptors:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [({"llc_load_misses": 10, "cache_misses": 99}, 640), ({"cache_misses": 2}, 128), ({}, None)],
)
def test_the_estimate_of_what_came_from_memory(counts, expected):
    assert memory_bytes_estimate(counts) == expected


@needs_perf
def test_this_kernel_counts_what_a_later_thread_does():
    counters = open_counters()
    before = counters.read()

    def touch():
        memory = bytearray(32 * MIB)
        memory[::4096] = b"x" * len(memory[::4096])

    thread = threading.Thread(target=touch)
    thread.start()
    thread.join()
    counted = difference(before, counters.read())
    counters.close()
    # Each page of 4 KiB faults once, where the kernel gives no huge pages.
    assert counted["page_faults"] >= 16
    assert counted["task_clock_ns"] > 1e6
    assert set(counted) == EVENTS.keys() - counters.missing.keys()


@needs_perf
@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can become another user")
def test_this_kernel_tells_a_user_without_rights_what_to_do():
    level = int(LocalHost(cache_folder=None).read("/" + PARANOID))
    done = subprocess.run([sys.executable, "-c", AS_NOBODY], capture_output=True, text=True, check=True)
    if level <= 1:
        assert done.stdout.startswith("[False")
    else:
        assert f"kernel.perf_event_paranoid is {level}" in done.stdout
