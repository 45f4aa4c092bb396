import pytest

from edgeopt.hw.probes.host import architecture, container, probe, virtual_machine
from edgeopt.hw.probes.host import board as board_of


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


DMI = "/sys/class/dmi/id"


@pytest.mark.parametrize(
    ("vendor", "product", "expected"),
    [
        ("QEMU", "Standard PC (Q35 + ICH9, 2009)", "qemu"),
        ("Amazon EC2", "c7i.large", "kvm"),
        ("Amazon EC2", "c7i.metal-24xl", None),
        ("VMware, Inc.", "VMware7,1", "vmware"),
        ("innotek GmbH", "VirtualBox", "virtualbox"),
        ("Microsoft Corporation", "Virtual Machine", "hyper-v"),
        ("Microsoft Corporation", "Surface Pro 9", None),
        ("Xen", "HVM domU", "xen"),
        ("Dell Inc.", "OptiPlex 7090", None),
    ],
)
def test_firmware_tells_a_virtual_machine(machine, vendor, product, expected):
    host = machine({f"{DMI}/sys_vendor": f"{vendor}\n", f"{DMI}/product_name": f"{product}\n"})
    found = virtual_machine(host)
    assert (found.name if found else None) == expected


@pytest.mark.parametrize(
    ("files", "expected", "source"),
    [
        ({"/proc/device-tree/hypervisor/compatible": "linux,kvm\0"}, "kvm", "hypervisor/compatible"),
        ({"/proc/device-tree/compatible": "linux,dummy-virt\0"}, "qemu", "device-tree/compatible"),
        ({"/sys/hypervisor/type": "xen\n"}, "xen", "/sys/hypervisor/type"),
        ({"/proc/sys/kernel/osrelease": "5.15.153.1-microsoft-standard-WSL2"}, "hyper-v", "osrelease"),
        ({"/proc/cpuinfo": "flags : fpu hypervisor"}, "unnamed hypervisor", "cpuinfo"),
        (
            {
                "/proc/cpuinfo": "flags : fpu hypervisor",
                "/sys/devices/system/clocksource/clocksource0/available_clocksource": "tsc kvm-clock \n",
            },
            "kvm",
            "available_clocksource",
        ),
    ],
)
def test_other_signs_of_a_virtual_machine(machine, files, expected, source):
    found = virtual_machine(machine(files))
    assert found.name == expected
    assert source in found.source


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"/proc/cpuinfo": "flags : fpu sse2"},
        # The first domain of Xen is the one that has the hardware.
        {"/sys/hypervisor/type": "xen", "/proc/xen/capabilities": "control_d"},
        {f"{DMI}/sys_vendor": "\0\1\2", "/proc/device-tree/hypervisor/compatible": "\0"},
    ],
)
def test_without_a_sign_there_is_none(machine, files):
    assert virtual_machine(machine(files)) is None


def test_a_mac_says_it_itself(machine):
    calls = {"platform.system()": "Darwin"}
    assert virtual_machine(machine(calls=calls, run={"sysctl -n kern.hv_vmm_present": "1\n"})).name == "apple"
    assert virtual_machine(machine(calls=calls, run={"sysctl -n kern.hv_vmm_present": "0\n"})) is None


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"/.dockerenv": ""}, "docker"),
        ({"/run/.containerenv": ""}, "podman"),
        ({"/run/systemd/container": "systemd-nspawn\n"}, "systemd-nspawn"),
        ({"/proc/1/environ": "PATH=/bin\0container=lxc\0"}, "lxc"),
        ({"/proc/self/cgroup": "0::/kubepods.slice/kubepods-burstable.slice"}, "kubernetes"),
        ({"/proc/1/cgroup": "12:cpu:/docker/0123abc\n"}, "docker"),
        ({"/proc/sys/kernel/osrelease": "5.15.153.1-microsoft-standard-WSL2"}, "wsl"),
        ({"/proc/self/cgroup": "0::/user.slice/user-1000.slice"}, None),
        ({}, None),
    ],
)
def test_signs_of_a_container(machine, files, expected):
    found = container(machine(files))
    assert (found.name if found else None) == expected


def test_a_virtual_machine_made_of_a_containers_image_is_no_container(machine):
    links = {
        'os.readlink("/proc/self/ns/pid")': "pid:[4026531836]",
        'os.readlink("/proc/self/ns/uts")': "uts:[4026531838]",
    }
    assert container(machine({"/.dockerenv": ""}, calls=links)) is None
    links['os.readlink("/proc/self/ns/uts")'] = "uts:[4026532201]"
    assert container(machine({"/.dockerenv": ""}, calls=links)).name == "docker"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"/proc/device-tree/model": "Raspberry Pi 5 Model B Rev 1.0\0"}, "Raspberry Pi 5 Model B Rev 1.0"),
        ({"/sys/firmware/devicetree/base/model": "NVIDIA Jetson\0"}, "NVIDIA Jetson"),
        ({f"{DMI}/sys_vendor": "Dell Inc.", f"{DMI}/product_name": "XPS 13"}, "Dell Inc. XPS 13"),
        ({f"{DMI}/sys_vendor": "HP", f"{DMI}/product_name": "HP EliteBook 840"}, "HP EliteBook 840"),
        (
            {
                f"{DMI}/sys_vendor": "LENOVO",
                f"{DMI}/product_name": "21HMCTO1WW",
                f"{DMI}/product_version": "ThinkPad X1 Carbon Gen 11",
            },
            "LENOVO ThinkPad X1 Carbon Gen 11",
        ),
        (
            {
                f"{DMI}/sys_vendor": "System manufacturer",
                f"{DMI}/product_name": "System Product Name",
                f"{DMI}/board_vendor": "ASUSTeK COMPUTER INC.",
                f"{DMI}/board_name": "PRIME X570-P",
            },
            "ASUSTeK COMPUTER INC. PRIME X570-P",
        ),
        ({f"{DMI}/product_name": "To Be Filled By O.E.M."}, None),
        ({"/proc/device-tree/model": "\x01\x02"}, None),
        ({}, None),
    ],
)
def test_the_boards_name(machine, files, expected):
    found = board_of(machine(files))
    assert (found.name if found else None) == expected


def test_the_registry_of_windows_names_the_board(board):
    found = board_of(board("windows-11"))
    assert found.name == "LENOVO ThinkPad X1 Carbon Gen 11"
    assert "reg query" in found.source
