import pytest

from edgeopt.hw.device import Cluster, Unavailable
from edgeopt.hw.probes.clusters import probe

CPUS = "/sys/devices/system/cpu"
GHZ = 10**9


def test_p_and_e_cores(board):
    facts = probe(board("intel-hybrid"))
    assert facts.section == (
        Cluster("performance", "0-3", 2, 4, "Golden Cove", None, 4_400_000_000),
        Cluster("efficiency", "4-7", 4, 4, "Gracemont", None, 3_300_000_000),
    )
    assert facts.sources["clusters"] == "/sys/devices/cpu_core/cpus, /sys/devices/cpu_atom/cpus"


def test_big_middle_and_little(board):
    assert probe(board("arm-sve2")).section == (
        Cluster("prime", "8", 1, 1, "Cortex-X3", 1024, 2_914_000_000),
        Cluster("performance", "4-7", 4, 4, "Cortex-A715", 762, 2_367_000_000),
        Cluster("efficiency", "0-3", 4, 4, "Cortex-A510", 268, 1_704_000_000),
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("raspberry-pi-5", Cluster("all", "0-3", 4, 4, "Cortex-A76", 1024, 2_400_000_000)),
        ("amd-zen4", Cluster("all", "0-11", 6, 12, None, None, 5_000_000_000)),
        ("xeon-amx", Cluster("all", "0-3,8-11", 8, 8, None, None, 4_100_000_000)),
        ("riscv-rvv", Cluster("all", "0-7", 8, 8, None, None, 1_600_000_000)),
    ],
)
def test_equal_cores_are_one_cluster(board, name, expected):
    assert probe(board(name)).section == (expected,)


def test_the_low_power_cores_of_a_core_ultra(machine):
    files = {
        f"{CPUS}/online": "0-5",
        "/sys/devices/cpu_core/cpus": "0-1",
        "/sys/devices/cpu_atom/cpus": "2-5",
        "/proc/cpuinfo": "processor : 0\nvendor_id : GenuineIntel\ncpu family : 6\nmodel : 170\nflags : avx2\n",
    }
    for cpu, clock in enumerate((4_800_000, 4_800_000, 3_800_000, 3_800_000, 2_500_000, 2_500_000)):
        files[f"{CPUS}/cpu{cpu}/cpufreq/cpuinfo_max_freq"] = str(clock)
    rows = probe(machine(files)).section
    assert [(row.name, row.cpus, row.model) for row in rows] == [
        ("performance", "0-1", "Redwood Cove"),
        ("efficiency", "2-3", "Crestmont"),
        ("low-power", "4-5", "Crestmont"),
    ]


def test_a_mac(board):
    facts = probe(board("macos-m2"))
    assert [row.name for row in facts.section] == ["performance", "efficiency"]
    assert facts.sources["clusters"] == "sysctl hw.perflevel*"


def test_a_capacity_that_is_missing_for_one_core_counts_for_none(machine):
    files = {f"{CPUS}/online": "0-1", f"{CPUS}/cpu0/cpu_capacity": "1024", f"{CPUS}/cpu1/cpu_capacity": "0"}
    (row,) = probe(machine(files)).section
    assert row.capacity is None


def test_nothing_told(machine):
    assert isinstance(probe(machine()), Unavailable)


def test_windows_says_why_not(board):
    assert "Windows" in probe(board("windows-11")).reason
