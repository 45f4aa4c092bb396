import pytest

from edgeopt.hw import cgroup

V2 = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n"
V1 = (
    "31 23 0:28 / /sys/fs/cgroup/cpu,cpuacct rw shared:1 - cgroup cgroup rw,cpu,cpuacct\n"
    "32 23 0:29 / /sys/fs/cgroup/memory rw shared:2 - cgroup cgroup rw,memory\n"
)
MIB = 2**20


def test_no_group_no_limit(machine):
    assert cgroup.cpu_quota(machine()) is None
    assert cgroup.memory_limit(machine()) is None


@pytest.mark.parametrize("text", ["max 100000", "0 100000", "-1 100000", "150000 0", "", "x y", "100000 x"])
def test_what_is_no_quota(machine, text):
    assert cgroup.cpu_quota(machine({"/sys/fs/cgroup/cpu.max": text})) is None


def test_the_tightest_group_on_the_way_up_counts(machine):
    host = machine(
        {
            "/proc/self/cgroup": "0::/a.slice/b.service\n",
            "/proc/self/mountinfo": V2,
            "/sys/fs/cgroup/a.slice/cpu.max": "200000 100000\n",
            "/sys/fs/cgroup/a.slice/b.service/cpu.max": "350000 100000\n",
            "/sys/fs/cgroup/other/cpu.max": "1000 100000\n",
            "/sys/fs/cgroup/a.slice/memory.max": f"{100 * MIB}\n",
            "/sys/fs/cgroup/a.slice/memory.current": f"{90 * MIB}\n",
            "/sys/fs/cgroup/a.slice/memory.stat": f"inactive_file {30 * MIB}\n",
            "/sys/fs/cgroup/a.slice/b.service/memory.high": f"{60 * MIB}\n",
            "/sys/fs/cgroup/a.slice/b.service/memory.current": f"{10 * MIB}\n",
        }
    )
    assert cgroup.cpu_quota(host) == (2.0, "/sys/fs/cgroup/a.slice/cpu.max")
    assert cgroup.memory_limit(host) == cgroup.MemoryLimit(
        60 * MIB, 40 * MIB, "/sys/fs/cgroup/a.slice/b.service/memory.high"
    )


def test_version_1(machine):
    host = machine(
        {
            "/proc/self/cgroup": "4:memory:/job\n3:cpu,cpuacct:/job\n0::/\n",
            "/proc/self/mountinfo": V1,
            "/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "50000\n",
            "/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
            "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
            "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            "/sys/fs/cgroup/memory/job/memory.limit_in_bytes": f"{64 * MIB}\n",
            "/sys/fs/cgroup/memory/job/memory.usage_in_bytes": f"{32 * MIB}\n",
            "/sys/fs/cgroup/memory/job/memory.stat": f"cache 1\ntotal_inactive_file {8 * MIB}\n",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        }
    )
    assert cgroup.cpu_quota(host) == (0.5, "/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us")
    assert cgroup.memory_limit(host) == cgroup.MemoryLimit(
        64 * MIB, 40 * MIB, "/sys/fs/cgroup/memory/job/memory.limit_in_bytes"
    )


def test_a_container_that_sees_the_path_of_its_machine(machine):
    """Docker with version 1: the group's path is the machine's, the mount shows the group as its root."""
    mount = V1.replace("0:28 / ", "0:28 /docker/abc ")
    host = machine(
        {
            "/proc/self/cgroup": "3:cpu,cpuacct:/docker/abc/inner\n",
            "/proc/self/mountinfo": mount,
            "/sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_quota_us": "300000\n",
            "/sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_period_us": "100000\n",
        }
    )
    assert cgroup.cpu_quota(host) == (3.0, "/sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_quota_us")


def test_a_group_outside_of_the_namespace_leaves_the_mount(machine):
    host = machine(
        {
            "/proc/self/cgroup": "0::/../../x\n",
            "/proc/self/mountinfo": V2,
            "/sys/fs/cgroup/cpu.max": "400000 100000\n",
        }
    )
    assert cgroup.cpu_quota(host) == (4.0, "/sys/fs/cgroup/cpu.max")


def test_more_used_than_allowed_leaves_nothing_and_not_less(machine):
    host = machine({"/sys/fs/cgroup/memory.max": f"{MIB}\n", "/sys/fs/cgroup/memory.current": f"{2 * MIB}\n"})
    limit = cgroup.memory_limit(host)
    assert limit is not None
    assert limit.remaining_bytes == 0


@pytest.mark.parametrize(
    ("mounts", "version"),
    [(V1, 1), (V2, 2), (V1 + V2, 1), ("30 24 0:26 / /proc rw - proc proc rw\n", None), ("", None)],
)
def test_versions(machine, mounts, version):
    told = cgroup.version(machine({"/proc/self/mountinfo": mounts}))
    assert (told[0] if told else None) == version


def test_the_cpuset_of_the_group_itself_counts(machine):
    """The kernel keeps it inside those of the groups above."""
    host = machine(
        {
            "/proc/self/cgroup": "0::/a.slice\n",
            "/proc/self/mountinfo": V2,
            "/sys/fs/cgroup/cpuset.cpus.effective": "0-7\n",
            "/sys/fs/cgroup/a.slice/cpuset.cpus.effective": "2-3\n",
        }
    )
    assert cgroup.cpuset(host) == (2, 3)
    assert cgroup.cpuset(machine({"/sys/fs/cgroup/cpuset/cpuset.cpus": "1\n", "/proc/self/mountinfo": ""})) == ()


def test_the_cpuset_of_version_1(board):
    assert cgroup.cpuset(board("container-cgroup1")) == (0, 1, 2, 3)
