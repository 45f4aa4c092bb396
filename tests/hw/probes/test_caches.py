import pytest

from edgeopt.hw.device import Cache, Unavailable
from edgeopt.hw.probes.caches import probe

CACHE = "/sys/devices/system/cpu/cpu0/cache/index0"
KIB, MIB = 1 << 10, 1 << 20


def test_unlike_cores_have_unlike_caches(board):
    facts = probe(board("intel-hybrid"))
    assert facts.section == (
        Cache(1, "data", 48 * KIB, 2, 2),
        Cache(1, "data", 32 * KIB, 4, 1),
        Cache(1, "instruction", 64 * KIB, 4, 1),
        Cache(1, "instruction", 32 * KIB, 2, 2),
        Cache(2, "unified", 2 * MIB, 1, 4),
        Cache(2, "unified", 1280 * KIB, 2, 2),
        Cache(3, "unified", 10 * MIB, 1, 8),
    )
    assert facts.sources["caches"] == "/sys/devices/system/cpu/cpu*/cache"


def test_a_last_level_for_each_socket(board):
    assert probe(board("xeon-amx")).section[-1] == Cache(3, "unified", 23040 * KIB, 2, 4)


def test_hyper_threads_share(board):
    assert Cache(2, "unified", 1 * MIB, 6, 2) in probe(board("amd-zen4")).section


def test_levels_without_sizes_are_no_caches_but_a_reason(board):
    answer = probe(board("arm-sve2"))
    assert isinstance(answer, Unavailable)
    assert "L1, L2, L3" in answer.reason
    assert "no sizes" in answer.reason


def one(**files):
    usual = {"level": "1", "type": "Data", "size": "32K", "shared_cpu_list": "0"}
    told = {name: text for name, text in (usual | files).items() if text is not None}
    return {"/sys/devices/system/cpu/online": "0"} | {f"{CACHE}/{name}": text for name, text in told.items()}


def test_a_mask_where_there_is_no_list(machine):
    assert probe(machine(one(shared_cpu_list=None, shared_cpu_map="1"))).section == (
        Cache(1, "data", 32768, 1, 1),
    )


@pytest.mark.parametrize(
    "file",
    [
        {"level": "0"},
        {"level": "-1"},
        {"level": "99"},
        {"type": "Nonsense"},
        {"size": "0K"},
        {"size": "-1K"},
        {"size": f"{1 << 60}K"},
        {"size": None},
        {"shared_cpu_list": "7"},
        {"shared_cpu_list": "x"},
    ],
)
def test_absurd_files_are_no_caches(machine, file):
    assert isinstance(probe(machine(one(**file))), Unavailable)


def test_a_mac(board):
    assert Cache(2, "unified", 16 * MIB, 1, 4) in probe(board("macos-m2")).section


def test_nothing_told(machine):
    assert isinstance(probe(machine()), Unavailable)


def test_windows_says_why_not(board):
    assert "Windows" in probe(board("windows-11")).reason
