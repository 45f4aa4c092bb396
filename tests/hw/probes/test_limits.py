import pytest

from edgeopt.hw.probes.limits import probe, usable_cores


@pytest.mark.parametrize(
    ("affinity", "quota", "expected"),
    [(8, None, 8), (8, 1.5, 1), (8, 0.2, 1), (8, 4.0, 4), (2, 4.0, 2), (8, 3.99, 3)],
)
def test_threads_stay_below_the_quota(affinity, quota, expected):
    assert usable_cores(affinity, quota) == expected


def test_a_container(board):
    facts = probe(board("container-cgroup2"))
    limits = facts.section
    assert (limits.affinity_cores, limits.cgroup_cores) == (4, 1.5)
    assert limits.cgroup_memory_bytes == 512 * 2**20
    assert facts.sources["limits.cgroup_cores"] == "/sys/fs/cgroup/cpu.max"
    assert "rounded down" in facts.sources["limits.usable_cores"]


def test_no_container_no_limit(board):
    limits = probe(board("raspberry-pi-4")).section
    assert (limits.cgroup_cores, limits.cgroup_memory_bytes) == (None, None)


def test_a_narrow_affinity_mask_counts(machine):
    host = machine({"/sys/devices/system/cpu/online": "0-7"}, calls={"os.sched_getaffinity(0)": [2, 5]})
    assert probe(host).section.usable_cores == 2


def test_all_cpus_where_there_is_no_affinity(machine):
    facts = probe(machine({"/sys/devices/system/cpu/online": "0-7"}))
    assert facts.section.affinity_cores == 8
    assert facts.sources["limits.affinity_cores"] == "/sys/devices/system/cpu/online"
