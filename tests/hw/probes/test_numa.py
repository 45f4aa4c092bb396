import pytest

from edgeopt.hw.device import NumaNode, Unavailable
from edgeopt.hw.probes.numa import probe

NODE = "/sys/devices/system/node/node0"


def test_two_sockets(board):
    facts = probe(board("xeon-amx"))
    assert facts.section == (
        NumaNode(0, "0-3", 131920256 * 1024, (10, 21)),
        NumaNode(1, "8-11", 131920256 * 1024, (21, 10)),
    )
    assert facts.sources["numa.memory_bytes"].endswith("node*/meminfo")


def test_a_mask_where_there_is_no_list(machine):
    (node,) = probe(machine({f"{NODE}/cpumap": "000000fc,00000000,00fc0000\n"})).section
    assert node == NumaNode(0, "18-23,66-71")


def test_memory_without_cpus_is_a_node_too(machine):
    (node,) = probe(machine({f"{NODE}/cpulist": "\n", f"{NODE}/meminfo": "Node 0 MemTotal: 16 kB\n"})).section
    assert node == NumaNode(0, "", 16384)


@pytest.mark.parametrize("text", ["10 x", "10 21", "0", "-1", "", "99999"])
def test_absurd_distances_are_left_out(machine, text):
    (node,) = probe(machine({f"{NODE}/cpulist": "0", f"{NODE}/distance": text})).section
    assert node.distances == ()


def test_nothing_told(board):
    answer = probe(board("raspberry-pi-2"))
    assert isinstance(answer, Unavailable)
    assert "/sys/devices/system/node" in answer.reason


def test_windows_says_why_not(board):
    assert "Windows" in probe(board("windows-11")).reason
