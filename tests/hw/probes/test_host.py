import pytest

from edgeopt.hw.probes.host import architecture, probe


def test_the_kernel_and_python(board):
    facts = probe(board("raspberry-pi-4"))
    assert facts.section.os == "Linux"
    assert facts.section.kernel == "6.6.31+rpt-rpi-v8"
    assert facts.section.python == "3.11.2"
    assert facts.sources["host.kernel"] == "/proc/sys/kernel/osrelease"


def test_the_system_around(board):
    container = probe(board("container-cgroup2"))
    assert container.section.distribution == "Alpine Linux v3.20"
    assert (container.section.libc, container.sources["host.libc"]) == ("musl", "/lib/ld-musl-*")
    assert (container.section.container, container.sources["host.container"]) == ("docker", "/.dockerenv")
    board_facts = probe(board("raspberry-pi-4"))
    assert board_facts.section.board == "Raspberry Pi 4 Model B Rev 1.4"
    assert board_facts.section.libc == "glibc 2.36"
    assert board_facts.section.container is board_facts.section.virtual_machine is None
    assert "hypervisor" in board_facts.unavailable["host.virtual_machine"]


@pytest.mark.parametrize(
    ("name", "distribution", "source"),
    [
        ("macos-m2", "macOS 15.1", "platform.mac_ver()"),
        ("windows-11", "Windows 11 (10.0.22631)", "platform.release()"),
    ],
)
def test_systems_without_os_release(board, name, distribution, source):
    facts = probe(board(name))
    assert (facts.section.distribution, facts.sources["host.distribution"]) == (distribution, source)


def test_android_tells_in_its_properties(machine):
    files = {"/system/build.prop": "# begin\nro.product.brand=x\nro.build.version.release=14\n"}
    assert probe(machine(files)).section.distribution == "Android 14"


def test_a_tree_with_cpuinfo_is_of_linux(machine):
    facts = probe(machine({"/proc/cpuinfo": "processor : 0"}))
    assert facts.section.os == "Linux"
    assert facts.section.kernel == "unknown"
    assert "host.kernel" not in facts.sources


@pytest.mark.parametrize(
    ("told", "expected"), [("AMD64", "x86_64"), ("arm64", "aarch64"), ("armv8l", "armv7l"), ("s390x", "s390x")]
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
