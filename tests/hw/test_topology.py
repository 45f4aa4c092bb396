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


def topology_files(cores, packages=()):
    """The lists that the kernel would show for CPUs grouped like this."""
    files = {}
    for name, groups in (("core_cpus_list", cores), ("package_cpus_list", packages)):
        for group in groups:
            files |= {f"{CPUS}/cpu{cpu}/topology/{name}": ",".join(map(str, group)) for cpu in group}
    return files


def test_sockets_and_threads(machine):
    cores = [(0, 4), (1, 5), (2, 6), (3, 7)]
    host = machine({f"{CPUS}/online": "0-7"} | topology_files(cores, [(0, 1, 4, 5), (2, 3, 6, 7)]))
    assert len(topology.sockets(host).cpus) == 2
    assert topology.threads_per_core(topology.cores(host)) == 2


def test_cores_that_are_switched_off_do_not_count(machine):
    """As with lscpu: they keep their folder, but not what is in it."""
    host = machine({f"{CPUS}/online": "0-1", f"{CPUS}/cpu2/online": "0"} | topology_files([(0,), (1,)], [(0, 1)]))
    assert topology.physical_cores(host)[0] == 2
    assert topology.logical_cores(host) == (2, f"{CPUS}/online")


def test_clusters_of_an_arm_device_tree_are_no_sockets(machine):
    cpuinfo = "".join(f"processor : {cpu}\nCPU implementer : 0x41\n\n" for cpu in range(4))
    files = {f"{CPUS}/online": "0-3", "/proc/cpuinfo": cpuinfo}
    files |= topology_files([(0,), (1,), (2,), (3,)], [(0, 1), (2, 3)])
    phone = topology.sockets(machine(files))
    assert len(phone.cpus) == 1
    assert "device tree" in phone.source


def test_an_arm_server_has_a_node_for_each_socket(machine):
    nodes = {f"/sys/devices/system/node/node{node}/cpulist": f"{node}" for node in range(2)}
    files = {f"{CPUS}/online": "0-1", "/proc/cpuinfo": "processor : 0\nCPU implementer : 0xc0\n"} | nodes
    assert len(topology.sockets(machine(files | topology_files([(0,), (1,)], [(0,), (1,)]))).cpus) == 2


def test_harts_without_core_ids_are_no_hyper_threads(machine):
    files = {f"{CPUS}/online": "0-1", f"{CPUS}/cpu0/topology/core_id": "-1"} | topology_files([(0, 1)])
    assert topology.physical_cores(machine(files))[0] == 1
    told = topology.physical_cores(machine(files | {f"{CPUS}/smt/active": "0"}))
    assert told[0] == 2
    assert "smt/active" in told[1]


def test_lists_that_contradict_each_other_tell_nothing(machine):
    lists = {
        f"{CPUS}/cpu{cpu}/topology/core_cpus_list": text for cpu, text in ((0, "0-1"), (1, "0-1"), (2, "1-2"))
    }
    assert topology.cores(machine({f"{CPUS}/online": "0-2"} | lists)) is None
    assert topology.cores(machine({f"{CPUS}/online": "0-31"} | topology_files([tuple(range(32))]))) is None


def test_a_list_of_more_cpus_than_a_kernel_can_have_is_not_believed(machine):
    host = machine({f"{CPUS}/online": "0-65535", "/proc/cpuinfo": "processor : 0\n\nprocessor : 1\n"})
    assert topology.online(host) == ((0, 1), "/proc/cpuinfo: processor")


def test_a_cpu_without_a_folder_makes_the_others_lists_worthless(machine):
    assert topology.cores(machine({f"{CPUS}/online": "0-2"} | topology_files([(0,), (1,)]))) is None
