import pytest

from edgeopt.hw.probes.host import architecture, probe


def test_the_kernel_and_python(board):
    facts = probe(board("raspberry-pi-4"))
    assert facts.section.os == "Linux"
    assert facts.section.kernel == "6.6.31+rpt-rpi-v8"
    assert facts.section.python == "3.11.2"
    assert facts.sources["host.kernel"] == "/proc/sys/kernel/osrelease"


@pytest.mark.parametrize(
    ("told", "expected"),
    [("AMD64", "x86_64"), ("arm64", "aarch64"), ("armv8l", "armv7l"), ("s390x", "s390x")],
)
def test_each_architecture_has_one_name(machine, told, expected):
    assert architecture(machine(calls={"platform.machine()": told})) == (expected, "platform.machine()")


@pytest.mark.parametrize(
    ("cpuinfo", "expected"),
    [
        ("flags : fpu lm sse2", "x86_64"),
        ("flags : fpu sse2", "i686"),
        ("CPU architecture: 8", "aarch64"),
        ("CPU architecture: 7", "armv7l"),
        ("isa : rv64imafdc", "riscv64"),
        ("", "unknown"),
    ],
)
def test_a_recording_of_files_alone_tells_its_architecture(machine, cpuinfo, expected):
    assert architecture(machine({"/proc/cpuinfo": cpuinfo}))[0] == expected
