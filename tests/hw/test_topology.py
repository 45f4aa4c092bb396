from pathlib import Path

import msgspec
import pytest

from edgeopt.errors import UsageError
from edgeopt.hw import topology
from edgeopt.hw.host import RecordedHost
from edgeopt.hw.probe import probe
from edgeopt.hw.topology import Core, cores_for

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


MHZ = 10**6


def cores(*kinds):
    """Cores of (how many, model, speed), numbered from 0."""
    found = []
    for count, model, speed in kinds:
        found += [Core(len(found) + place, model, speed) for place in range(count)]
    return tuple(found)


def shape(found):
    names = topology.kind_names(found)
    return [(name, len(group)) for name, group in zip(names, found, strict=True)]


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        # Raspberry Pi 5
        ([(4, "Cortex-A76", 1024)], [("all", 4)]),
        # Rockchip RK3588
        ([(4, "Cortex-A55", 530), (4, "Cortex-A76", 1024)], [("performance", 4), ("efficiency", 4)]),
        # Snapdragon 855: one of four equal cores is clocked higher
        (
            [(4, "Kryo-4XX-Silver", 384), (3, "Kryo-4XX-Gold", 871), (1, "Kryo-4XX-Gold", 1024)],
            [("prime", 1), ("performance", 3), ("efficiency", 4)],
        ),
        # Snapdragon 8 Elite: no small ones
        ([(6, "Oryon", 837), (2, "Oryon", 1024)], [("prime", 2), ("performance", 6)]),
        # Dimensity 9300: what is slow beside the fastest counts as small, whatever it is called
        (
            [(4, "Cortex-A720", 480), (3, "Cortex-X4", 890), (1, "Cortex-X4", 1024)],
            [("prime", 1), ("performance", 3), ("efficiency", 4)],
        ),
        # Two clusters of small cores: the fastest is nobody's helper
        ([(4, "Cortex-A53", 1024), (4, "Cortex-A53", 700)], [("performance", 4), ("efficiency", 4)]),
        # No clocks, no capacities: the model decides
        ([(4, "Cortex-A53", None), (2, "Cortex-A72", None)], [("performance", 2), ("efficiency", 4)]),
    ],
)
def test_arm(kinds, expected):
    assert shape(topology.kind_groups(cores(*kinds), x86=False)) == expected


def test_the_best_cores_of_an_x86_are_no_kind_of_their_own():
    ranked = cores(*((1, None, clock * MHZ) for clock in (5700, 5650, 5600, 5500, 5300, 5250, 5100, 5000)))
    assert shape(topology.kind_groups(ranked, x86=True)) == [("all", 8)]


def test_compact_cores_of_an_x86_are_efficiency_cores():
    strix = cores((4, None, 5100 * MHZ), (8, None, 3300 * MHZ))
    assert shape(topology.kind_groups(strix, x86=True)) == [("performance", 4), ("efficiency", 8)]


def test_one_unknown_clock_tells_nothing_about_kinds():
    assert len(topology.kind_groups(cores((4, None, 5000 * MHZ), (1, None, None)), x86=True)) == 1


def test_hybrids_by_their_counter_units(machine):
    host = machine({"/sys/devices/cpu_core/cpus": "0-3\n", "/sys/devices/cpu_atom/cpus": "4-5\n"})
    kinds = topology.of_hybrid(host)
    assert (kinds[0], kinds[5]) == ("performance", "efficiency")
    assert topology.of_hybrid(machine({"/sys/devices/cpu_atom/cpus": ""})) == {}


def test_parts_by_the_register_where_cpuinfo_leaves_cpus_out(machine):
    cpuinfo = "processor : 0\nCPU implementer : 0x41\nCPU part : 0xd05\n"
    register = "/sys/devices/system/cpu/cpu1/regs/identification/midr_el1"
    host = machine({"/proc/cpuinfo": cpuinfo, register: "0x00000000410fd4e0\n"})
    assert topology.arm_models(host, (0, 1)) == {0: "Cortex-A55", 1: "Cortex-X3"}


def test_a_part_that_stands_once_is_that_of_all(machine):
    cpuinfo = "processor : 0\n\nprocessor : 1\n\nCPU implementer : 0x41\nCPU part : 0xc0f\n"
    host = machine({"/proc/cpuinfo": cpuinfo})
    assert topology.arm_models(host, (0, 1)) == {0: "Cortex-A15", 1: "Cortex-A15"}


CPU = "/sys/devices/system/cpu/cpu0"


@pytest.mark.parametrize(
    ("text", "hz"),
    [
        ("4700000\n", 4_700_000_000),
        ("0", None),
        ("-1", None),
        ("1", None),
        ("99999999999", None),
        ("<unknown>", None),
        (None, None),
    ],
)
def test_what_no_clock_can_be_is_left_out(text, hz):
    assert topology.hertz(text, 1000) == hz


def test_base_clocks_of_the_driver_and_of_the_firmware(machine):
    both = {f"{CPU}/cpufreq/base_frequency": "2800000", f"{CPU}/acpi_cppc/nominal_freq": "2700"}
    assert topology.base_hz(machine(both), 0) == (2_800_000_000, f"{CPU}/cpufreq/base_frequency")


def test_a_firmware_that_leaves_the_base_clock_out_writes_zero(machine):
    path = f"{CPU}/acpi_cppc/nominal_freq"
    assert topology.base_hz(machine({path: "0\n"}), 0) is None
    assert topology.base_hz(machine({path: "3800\n"}), 0) == (3_800_000_000, path)


FAKEROOTS = Path(__file__).parents[1] / "fakeroots"


def device(board):
    return probe(RecordedHost(FAKEROOTS / board))


@pytest.mark.parametrize(
    ("board", "usable", "physical", "performance"),
    [
        ("raspberry-pi-5", 4, 4, (4, ())),
        ("amd-zen4", 12, 6, (6, ())),
        ("intel-hybrid", 8, 6, (2, (0, 1, 2, 3))),
        ("rockchip-rk3588", 8, 8, (4, (4, 5, 6, 7))),
        ("arm-sve2", 9, 9, (5, (8, 4, 5, 6, 7))),
        ("macos-m2", 8, 8, (4, (4, 5, 6, 7))),
        # A container's share of time counts, and is no set of cores.
        ("container-cgroup2", 1, 1, (1, ())),
        # The kinds of its cores are not known, their number is.
        ("windows-11", 16, 12, (12, ())),
    ],
)
def test_what_the_words_stand_for(board, usable, physical, performance):
    known = device(board)
    assert cores_for("usable", known) == (usable, ())
    assert cores_for("physical", known) == (physical, ())
    assert cores_for("performance", known) == performance


def test_only_the_cores_that_this_process_may_use():
    known = device("rockchip-rk3588")
    limits = msgspec.structs.replace(known.limits, affinity="2-5", affinity_cores=4, usable_cores=4)
    narrow = msgspec.structs.replace(known, limits=limits)
    assert cores_for("performance", narrow) == (2, (4, 5))
    assert cores_for("physical", narrow) == (4, ())


def test_where_no_fast_core_is_left_the_number_still_is():
    known = device("rockchip-rk3588")
    limits = msgspec.structs.replace(known.limits, affinity="0-1", affinity_cores=2, usable_cores=2)
    assert cores_for("performance", msgspec.structs.replace(known, limits=limits)) == (2, ())


def test_another_word():
    with pytest.raises(UsageError, match="Unknown choice of cores 'fast'"):
        cores_for("fast", device("raspberry-pi-5"))
