import pytest

from edgeopt.hw import topology
from edgeopt.hw.topology import Core

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
