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


def test_a_container_with_control_groups_of_version_1(board):
    facts = probe(board("container-cgroup1"))
    limits = facts.section
    assert (limits.cgroup_cores, limits.usable_cores, limits.cgroup_version) == (1.5, 1, 1)
    assert limits.cgroup_memory_bytes == 512 * 2**20
    assert facts.sources["limits.cgroup_cores"] == "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us"


def test_which_cores_and_which_version(board):
    limits = probe(board("xeon-amx")).section
    assert (limits.affinity, limits.cgroup_version) == ("0-3,8-11", 2)


def test_the_status_of_the_process_where_the_call_is_missing(machine):
    files = {
        "/sys/devices/system/cpu/online": "0-7",
        "/proc/self/status": "Name:\tx\nCpus_allowed_list:\t2-3,60\n",
    }
    facts = probe(machine(files))
    assert (facts.section.affinity, facts.section.usable_cores) == ("2-3", 2)
    assert facts.sources["limits.affinity"] == "/proc/self/status: Cpus_allowed_list"


def test_the_cpuset_where_nothing_else_tells(machine):
    files = {"/sys/devices/system/cpu/online": "0-7", "/sys/fs/cgroup/cpuset.cpus.effective": "4-6\n"}
    facts = probe(machine(files))
    assert (facts.section.affinity, facts.section.usable_cores) == ("4-6", 3)
    assert "cpuset" in facts.sources["limits.usable_cores"]


def test_a_mask_that_names_no_cpu_that_is_on(machine):
    host = machine({"/sys/devices/system/cpu/online": "0-1"}, calls={"os.sched_getaffinity(0)": [5, -1, "x"]})
    assert probe(host).section.usable_cores == 2


def test_windows(board):
    facts = probe(board("windows-11"))
    assert (facts.section.affinity, facts.section.usable_cores) == ("0-15", 16)
    assert facts.sources["limits.affinity"] == "edgeopt.hw.windows_facts.affinity()"


def test_this_process_when_it_is_pinned():
    import subprocess
    import sys

    program = (
        "import os\n"
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "from edgeopt.hw.host import LocalHost\n"
        "from edgeopt.hw.probes.limits import probe\n"
        "limits = probe(LocalHost(None)).section\n"
        "print(limits.affinity_cores, limits.usable_cores)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "1"]
