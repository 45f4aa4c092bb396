import pytest

from edgeopt.hw.device import Clock, Unavailable
from edgeopt.hw.probes.clock import probe

CPUS = "/sys/devices/system/cpu"
MHZ = 10**6


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("intel-hybrid", Clock(400 * MHZ, 4400 * MHZ, 1200 * MHZ, "powersave", "intel_pstate", turbo=True)),
        ("xeon-amx", Clock(800 * MHZ, 4100 * MHZ, 2900 * MHZ, "performance", "intel_pstate", turbo=False)),
        ("amd-zen2", Clock(1400 * MHZ, 2700 * MHZ, 2700 * MHZ, "schedutil", "acpi-cpufreq", turbo=True)),
        ("raspberry-pi-5", Clock(1500 * MHZ, 2400 * MHZ, None, "ondemand", "cpufreq-dt")),
        ("arm-sve2", Clock(324 * MHZ, 2914 * MHZ, None, "sched_pixel", "exynos_cpufreq")),
        ("windows-11", Clock(base_hz=2611 * MHZ)),
    ],
)
def test_recorded_machines(board, name, expected):
    facts = probe(board(name))
    assert facts.section == expected
    told = ("min_hz", "max_hz", "base_hz", "governor", "driver", "turbo")
    assert {f"clock.{fact}" for fact in told if getattr(expected, fact) is not None} == set(facts.sources)


def test_a_guest_tells_only_what_stands_in_its_name(board):
    facts = probe(board("container-cgroup1"))
    assert facts.section == Clock(base_hz=2100 * MHZ)
    assert facts.sources["clock.base_hz"] == "/proc/cpuinfo: model name"
    assert "cpufreq" in facts.unavailable["clock.max_hz"]


def test_clusters_with_governors_of_their_own(machine):
    files = {f"{CPUS}/online": "0-1"}
    files |= {
        f"{CPUS}/cpu{cpu}/cpufreq/scaling_governor": name for cpu, name in enumerate(("powersave", "schedutil"))
    }
    assert probe(machine(files)).section.governor == "powersave + schedutil"


def test_turbo_by_the_folder_of_a_cpu(machine):
    files = {f"{CPUS}/online": "0", f"{CPUS}/cpu0/cpufreq/cpb": "0\n"}
    facts = probe(machine(files))
    assert facts.section.turbo is False
    assert facts.sources["clock.turbo"] == f"{CPUS}/cpu0/cpufreq/cpb"


def test_absurd_clocks_are_left_out(machine):
    folder = f"{CPUS}/cpu0/cpufreq"
    files = {f"{CPUS}/online": "0", f"{folder}/cpuinfo_max_freq": "0", f"{folder}/cpuinfo_min_freq": "9" * 30}
    assert isinstance(probe(machine(files)), Unavailable)
    crossed = {
        f"{CPUS}/online": "0",
        f"{folder}/cpuinfo_max_freq": "1000000",
        f"{folder}/cpuinfo_min_freq": "2000000",
    }
    assert probe(machine(crossed)).section == Clock(max_hz=1000 * MHZ)


def test_an_intel_mac(machine):
    told = "hw.cpufrequency: 2600000000\nhw.cpufrequency_max: 2600000000\nhw.cpufrequency_min: 2600000000\n"
    host = machine(calls={"platform.system()": "Darwin"}, run={"sysctl hw machdep.cpu": told})
    assert probe(host).section == Clock(2600 * MHZ, 2600 * MHZ, 2600 * MHZ)


def test_apple_silicon_says_why_not(board):
    assert "macOS" in probe(board("macos-m2")).reason
