import sys

import pytest

from edgeopt.hw import arm_hwcap

# /proc/self/auxv of a process under qemu-aarch64 7.2 in user mode.
QEMU = bytes.fromhex(
    "030000000000000040004000000000000400000000000000380000000000000005000000000000000900000000000000"
    "060000000000000000100000000000000700000000000000001080005500000008000000000000000000000000000000"
    "0900000000000000c0185d00000000000b0000000000000000000000000000000c000000000000000000000000000000"
    "0d0000000000000000000000000000000e0000000000000000000000000000001000000000000000fbffffec00000000"
    "110000000000000064000000000000001900000000000000100a80005500000017000000000000000000000000000000"
    "1f00000000000000e70f8000550000001a00000000000000ff7f877f000000000f000000000000002c0a800055000000"
    "00000000000000000000000000000000"
)
WORDS = {"AT_HWCAP": 0xECFFFFFB, "AT_HWCAP2": 0x7F877FFF}
CALL = "edgeopt.hw.arm_hwcap.read()"


def test_words_of_a_recorded_vector():
    assert arm_hwcap.parse(QEMU) == WORDS


@pytest.mark.parametrize("length", [0, 7, 16, len(QEMU) - 5])
def test_cut_vector_is_read_as_far_as_it_goes(length):
    assert set(arm_hwcap.parse(QEMU[:length])) <= set(WORDS)


def test_flags_have_the_names_of_cpuinfo(machine):
    found = arm_hwcap.flags(machine(calls={CALL: WORDS}))
    assert found == {
        *("asimd", "asimdhp", "asimddp", "asimdfhm", "sve", "sve2"),
        *("svei8mm", "svebf16", "i8mm", "bf16", "sme"),
    }
    assert arm_hwcap.flags(machine(calls={CALL: {"AT_HWCAP": 0b11}})) == {"asimd"}


@pytest.mark.parametrize("answer", [None, [], {}, {"AT_HWCAP": "16"}, {"other": 3}])
def test_host_without_the_vector_has_no_flags(machine, answer):
    assert arm_hwcap.flags(machine(calls={CALL: answer})) == frozenset()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the vector as a file")
def test_vector_of_this_process_has_the_first_word():
    assert arm_hwcap.read()["AT_HWCAP"] > 0
