import pytest

from edgeopt.hw.sensors import clock_files, cpu_ticks, mean_clock_hz, temperature_c

CPUS = "/sys/devices/system/cpu"


def test_ticks_with_and_without_steal(machine):
    assert cpu_ticks(machine({"/proc/stat": "cpu  10 0 20 60 5 0 0 5 9 9\ncpu0 1 2 3 4\n"})) == (100, 65, 5)
    assert cpu_ticks(machine({"/proc/stat": "cpu  10 0 20 60\n"})) == (90, 60, 0)


@pytest.mark.parametrize(
    "text", ["", "cpu", "cpu 1 2 3", "cpu 1 2 x 4", "cpu 1 2 -3 4", "cpu ² ² ² ²", "cpu" + " 9" * 3]
)
def test_what_are_no_ticks(machine, text):
    assert cpu_ticks(machine({"/proc/stat": text})) is None


def test_of_very_many_cores_some_speak_for_all(machine):
    files = {f"{CPUS}/cpu{n}/cpufreq/scaling_cur_freq": f"{1000 + n}000" for n in range(64)}
    host = machine(files | {f"{CPUS}/cpufreq/policy0/scaling_cur_freq": "1"})
    chosen = clock_files(host)
    assert len(chosen) == 16
    assert chosen[0] == f"{CPUS}/cpu0/cpufreq/scaling_cur_freq"
    assert mean_clock_hz(host, chosen) == pytest.approx(1.03e9, rel=0.01)


def test_absurd_clocks_and_temperatures_are_none(machine):
    host = machine({"/a": "9" * 20, "/b": "-5", "/c": "0", "/d": "-274000", "/e": "45250"})
    assert mean_clock_hz(host, ("/a", "/b", "/c")) is None
    assert temperature_c(host, "/d") is temperature_c(host, "/a") is temperature_c(host, "/none") is None
    assert temperature_c(host, "/e") == 45.25
