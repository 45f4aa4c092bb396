from edgeopt.hw import topology

CPUS = "/sys/devices/system/cpu"


def test_hyper_threads_of_a_core_are_counted_once(machine):
    host = machine(
        {f"{CPUS}/online": "0-3"}
        | {f"{CPUS}/cpu{cpu}/topology/thread_siblings_list": f"{cpu % 2},{cpu % 2 + 2}" for cpu in range(4)}
    )
    assert topology.physical_cores(host) == (2, f"{CPUS}/cpu*/topology")
    assert topology.logical_cores(host) == (4, f"{CPUS}/online")


def test_cpuinfo_is_used_where_sysfs_is_not_there(machine):
    pairs = [(0, 0), (0, 1), (0, 0), (0, 1), (1, 0)]
    text = "".join(
        f"processor : {cpu}\nphysical id : {package}\ncore id : {core}\n\n"
        for cpu, (package, core) in enumerate(pairs)
    )
    host = machine({"/proc/cpuinfo": text})
    assert topology.logical_cores(host) == (5, "/proc/cpuinfo: processor")
    assert topology.physical_cores(host) == (3, "/proc/cpuinfo: physical id, core id")


def test_the_libraries_are_asked_last(machine):
    host = machine(calls={"os.cpu_count()": 6, "psutil.cpu_count(false)": 3})
    assert topology.logical_cores(host) == (6, "os.cpu_count()")
    assert topology.physical_cores(host) == (3, "psutil.cpu_count(logical=False)")


def test_unknown_stays_unknown(machine):
    assert topology.logical_cores(machine()) is None
    assert topology.physical_cores(machine()) is None
