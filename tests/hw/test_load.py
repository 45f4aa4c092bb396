import os
import sys

import pytest

from edgeopt.hw.host import LocalHost, call_key
from edgeopt.hw.load import LoadSampler, process_memory_bytes

MIB = 2**20
MEMINFO = f"MemTotal: {8 * 2**20} kB\nMemFree: {2**20} kB\nMemAvailable: {6 * 2**20} kB\n"
CPU = "/sys/devices/system/cpu"


class Changing:
    """A recorded machine whose files a test changes between two samples."""

    def __init__(self, recorded):
        self._recorded = recorded

    def write(self, path, text):
        (self._recorded.root / path.lstrip("/")).write_text(text)

    def __getattr__(self, name):
        return getattr(self._recorded, name)


@pytest.fixture
def changing(machine):
    return lambda files, **tables: Changing(machine(files, **tables))


def stat(user, idle, iowait=0, steal=0):
    return f"cpu  {user} 0 0 {idle} {iowait} 0 0 {steal} 0 0\ncpu0 0 0 0 0\n"


def test_load_is_what_all_cores_did_since_the_sample_before(changing):
    host = changing({"/proc/stat": stat(100, 900)})
    sampler = LoadSampler(host)
    first = sampler.sample()
    assert first.load_percent is None
    assert "tick" in first.unavailable["load_percent"]
    for user, idle, iowait, steal, wanted in (
        (125, 975, 0, 0, 25.0),
        (125, 975, 100, 0, 0.0),
        (125, 975, 100, 50, 100.0),
    ):
        host.write("/proc/stat", stat(user, idle, iowait, steal))
        assert sampler.sample().load_percent == wanted
    # No tick has gone by: the last value still holds.
    assert sampler.sample().load_percent == 100.0
    assert "load_percent" not in sampler.sample().unavailable


def test_idle_time_that_steps_back_gives_no_impossible_load(changing):
    host = changing({"/proc/stat": stat(100, 900, 50)})
    sampler = LoadSampler(host)
    host.write("/proc/stat", stat(160, 900, 0))
    assert sampler.sample().load_percent == 100.0


def test_memory_of_the_machine(machine):
    sample = LoadSampler(machine({"/proc/meminfo": MEMINFO})).sample()
    assert (sample.memory_used_bytes, sample.memory_total_bytes) == (2 * 2**30, 8 * 2**30)


def test_a_kernel_that_tells_no_available_memory_leaves_that_to_psutil(machine):
    calls = {call_key("psutil", "virtual_memory"): {"total": 4 * 2**30, "available": 2**30}}
    sample = LoadSampler(machine({"/proc/meminfo": "MemTotal: 4194304 kB\n"}, calls=calls)).sample()
    assert (sample.memory_used_bytes, sample.memory_total_bytes) == (3 * 2**30, 4 * 2**30)


@pytest.mark.parametrize("limit", [512 * MIB, 64 * 2**30])
def test_memory_of_a_container_that_is_limited_to_less(machine, limit):
    files = {
        "/proc/meminfo": MEMINFO,
        "/proc/self/cgroup": "0::/\n",
        "/proc/self/mountinfo": "30 24 0:26 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw\n",
        "/sys/fs/cgroup/memory.max": f"{limit}\n",
        "/sys/fs/cgroup/memory.current": f"{300 * MIB}\n",
        "/sys/fs/cgroup/memory.stat": f"inactive_file {100 * MIB}\n",
    }
    sample = LoadSampler(machine(files)).sample()
    if limit < 8 * 2**30:
        assert (sample.memory_used_bytes, sample.memory_total_bytes) == (200 * MIB, limit)
    else:
        assert (sample.memory_used_bytes, sample.memory_total_bytes) == (2 * 2**30, 8 * 2**30)


def test_the_clock_is_the_mean_of_the_cores(machine):
    files = {f"{CPU}/cpu{k}/cpufreq/scaling_cur_freq": f"{mhz}000\n" for k, mhz in enumerate((600, 1800, 2400))}
    files[f"{CPU}/cpuidle/x"] = ""
    assert LoadSampler(machine(files)).sample().clock_hz == 1.6e9


def test_a_server_with_many_cores_is_sampled_by_some_of_them(machine):
    files = {f"{CPU}/cpu{k}/cpufreq/scaling_cur_freq": "1000000\n" for k in range(200)}
    read = []

    class Counting(Changing):
        def read(self, path):
            read.append(path)
            return self._recorded.read(path)

    sampler = LoadSampler(Counting(machine(files)))
    read.clear()
    assert sampler.sample().clock_hz == 1e9
    assert 8 <= sum("cpufreq" in path for path in read) <= 16


def test_the_hottest_sensor_of_the_cpu_counts(machine):
    zones = (("acpitz", 99_000), ("cpu-thermal", 51_500), ("soc-thermal", 48_000), ("gpu-thermal", 77_000))
    files = {}
    for k, (kind, milli) in enumerate(zones):
        files |= {
            f"/sys/class/thermal/thermal_zone{k}/type": kind,
            f"/sys/class/thermal/thermal_zone{k}/temp": str(milli),
        }
    assert LoadSampler(machine(files)).sample().temperature_c == 51.5


@pytest.mark.parametrize(("chip", "wanted"), [("k10temp", 64.25), ("coretemp", 64.25), ("nvme", None)])
def test_sensors_of_a_pc(machine, chip, wanted):
    folder = "/sys/class/hwmon/hwmon3"
    files = {
        f"{folder}/name": f"{chip}\n",
        f"{folder}/temp1_input": "64250\n",
        f"{folder}/temp10_input": "40000\n",
    }
    sample = LoadSampler(machine(files)).sample()
    assert sample.temperature_c == wanted
    assert ("temperature_c" in sample.unavailable) == (wanted is None)


@pytest.mark.parametrize("text", ["-256000", "", "hot", "999000"])
def test_a_sensor_that_is_off_is_not_believed(machine, text):
    zone = "/sys/class/thermal/thermal_zone0"
    sample = LoadSampler(machine({f"{zone}/type": "CPU-therm", f"{zone}/temp": text})).sample()
    assert sample.temperature_c is None
    assert "plausible" in sample.unavailable["temperature_c"]


def test_where_nothing_is_known_everything_has_a_reason(machine):
    sample = LoadSampler(machine()).sample()
    values = {name: getattr(sample, name) for name in sample.__struct_fields__ if name != "unavailable"}
    assert all(value is None for value in values.values())
    assert sample.unavailable.keys() == values.keys()
    assert all(sample.unavailable.values())


def test_without_proc_psutil_tells(machine):
    calls = {
        call_key("psutil", "cpu_times"): {"user": 10.0, "system": 5.0, "idle": 85.0},
        call_key("psutil", "virtual_memory"): {"total": 4 * 2**30, "available": 2**30},
        call_key("psutil", "cpu_freq"): {"current": 2400.0, "min": 0.0, "max": 0.0},
    }
    sample = LoadSampler(machine(calls=calls)).sample()
    assert (sample.memory_used_bytes, sample.memory_total_bytes) == (3 * 2**30, 4 * 2**30)
    assert sample.clock_hz == 2.4e9
    assert "tick" in sample.unavailable["load_percent"]


@pytest.mark.parametrize("name", ["raspberry-pi-5", "container-cgroup2", "amd-zen4"])
def test_recorded_boards_can_be_sampled(board, name):
    sample = LoadSampler(board(name)).sample()
    assert 0 < sample.memory_used_bytes < sample.memory_total_bytes


@pytest.mark.skipif(sys.platform != "linux", reason="reads this machine's /proc")
def test_this_machine():
    sampler = LoadSampler(LocalHost(cache_folder=None))
    before = os.times().user
    while os.times().user - before < 0.1:
        pass
    sample = sampler.sample()
    assert 0 < sample.load_percent <= 100
    assert 0 < sample.memory_used_bytes < sample.memory_total_bytes


@pytest.mark.skipif(sys.platform != "linux", reason="reads this machine's /proc")
def test_the_memory_of_a_process_and_of_none():
    own = process_memory_bytes(os.getpid())
    ballast = bytearray(os.urandom(1)) * (64 * MIB)
    assert process_memory_bytes(os.getpid()) - own > 48 * MIB
    del ballast
    assert process_memory_bytes(2**22 + 1) is None
