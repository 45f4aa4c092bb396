import pytest

from edgeopt.hw.device import Unavailable
from edgeopt.hw.probes.state import probe

FREQ = "/sys/devices/system/cpu/cpu0/cpufreq"
QUIET = {
    "/proc/loadavg": "0.05 0.10 0.12 1/200 4242\n",
    "/proc/stat": "cpu  1000 0 500 98000 100 0 10 0 0 0\ncpu0 1 0 0 1\ncpu1 1 0 0 1\n",
}


def state(host):
    return probe(host).section


def test_a_quiet_device_is_worth_measuring(machine):
    facts = probe(machine(QUIET, calls={"edgeopt.hw.processes.busiest()": []}))
    assert facts.section.worth_measuring
    assert facts.section.reasons == ()
    assert (facts.section.load_1m, facts.section.steal_percent, facts.section.busy) == (0.05, 0.0, ())
    assert facts.sources["state.busy"] == "/proc/*/stat"
    assert facts.unavailable["state.clock_hz"] == "the kernel has no cpufreq files"


@pytest.mark.parametrize(
    ("changes", "calls", "words"),
    [
        (
            {"/proc/loadavg": "1.50 1 1 3/200 42"},
            {},
            "load of the last minute is 1.5 on 2 cores, and 2 more threads run",
        ),
        (
            {"/proc/pressure/cpu": "some avg10=31.50 avg60=1 total=9\nfull avg10=0.00"},
            {},
            "waited for a core 32 %",
        ),
        ({"/proc/stat": "cpu  1000 0 500 8000 0 0 0 500\ncpu0 1"}, {}, "hypervisor gave 5.0 %"),
        ({f"{FREQ}/scaling_governor": "powersave", f"{FREQ}/scaling_driver": "acpi-cpufreq"}, {}, "'powersave'"),
        (
            {f"{FREQ}/cpuinfo_max_freq": "2400000", f"{FREQ}/scaling_max_freq": "1500000"},
            {},
            "limited to 1.50 GHz; the CPU supports 2.40 GHz",
        ),
        (
            {},
            {"edgeopt.hw.processes.busiest()": ["ffmpeg 180 %"]},
            "Other processes keep cores busy: ffmpeg 180 %",
        ),
        (
            {
                "/sys/class/thermal/thermal_zone0/type": "soc-thermal",
                "/sys/class/thermal/thermal_zone0/temp": "86000",
                "/sys/class/thermal/thermal_zone0/trip_point_0_type": "passive",
                "/sys/class/thermal/thermal_zone0/trip_point_0_temp": "85000",
            },
            {},
            "soc-thermal is at 86 °C; the device throttles it from 85 °C",
        ),
    ],
)
def test_each_reason_against_measuring(machine, changes, calls, words):
    found = state(machine(QUIET | changes, calls=calls))
    assert not found.worth_measuring
    assert len(found.reasons) == 1
    assert words in found.reasons[0]
    assert found.reasons[0].endswith(".")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"/proc/loadavg": "1.50 1 1 1/200 42"}, "but nothing else runs now"),
        (
            {"/sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count": "4"},
            "the core was throttled 4 times",
        ),
        ({"/proc/stat": "cpu  1000 0 500 8000 0 0 0 150\ncpu0 1\ncpu1 1"}, "hypervisor gave 1.6 %"),
        (
            {
                f"{FREQ}/scaling_governor": "performance",
                f"{FREQ}/cpuinfo_max_freq": "2400000",
                f"{FREQ}/scaling_max_freq": "2400000",
                f"{FREQ}/scaling_cur_freq": "1200000",
            },
            "1.20 GHz, below the 2.40 GHz",
        ),
    ],
)
def test_what_is_good_to_know_does_not_stand_against_it(machine, changes, words):
    found = state(machine(QUIET | changes))
    assert found.worth_measuring
    assert words in found.reasons[0]


def test_a_governor_that_leaves_the_choice_to_the_hardware_is_fine(machine):
    files = {f"{FREQ}/scaling_governor": "powersave", f"{FREQ}/scaling_driver": "intel_pstate"}
    assert state(machine(QUIET | files)).worth_measuring


def test_a_laptop_on_its_battery(board):
    found = state(board("amd-zen4"))
    assert (found.power_source, found.battery_percent, found.power_w) == ("battery", 72.0, 12.505)
    assert "runs on battery (72 % left)" in found.reasons[0]


def test_a_raspberry_pi_with_a_weak_supply(board):
    found = state(board("raspberry-pi-4"))
    assert found.throttled == ("the supply voltage is too low", "the firmware throttles the clock")
    assert not found.worth_measuring
    assert found.temperatures_c == {"cpu-thermal": 48.2}


def test_a_mac_tells_its_load(board):
    facts = probe(board("macos-m2"))
    assert (facts.section.load_1m, facts.sources["state.load_1m"]) == (1.43, "os.getloadavg()")


def test_windows_is_asked_how_busy_it_is(board, machine):
    assert state(board("windows-11")).power_source == "battery"
    calls = {"platform.system()": "Windows", "edgeopt.hw.processes.cores_busy_percent()": 61.0}
    assert "61 % busy" in state(machine(calls=calls)).reasons[0]


def test_what_nothing_tells_is_no_verdict(machine):
    answer = probe(machine())
    assert isinstance(answer, Unavailable)
    assert "no source for the load" in answer.reason


@pytest.mark.parametrize("text", ["", "nan 1 1 1/2 3", "-1 0 0 x/y", "1e999 1 1", "9" * 500, "\0\0\0"])
def test_absurd_numbers_are_no_load(machine, text):
    host = machine(
        {"/proc/loadavg": text, "/proc/stat": QUIET["/proc/stat"], "/proc/pressure/cpu": f"some avg10={text}"}
    )
    found = state(host)
    assert found.load_1m is None
    assert found.worth_measuring
