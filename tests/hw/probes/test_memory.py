import pytest

from edgeopt.hw.probes.memory import probe

MIB = 2**20


def test_a_container_leaves_less(board):
    facts = probe(board("container-cgroup2"))
    assert facts.section.total_bytes == 64000000 * 1024
    # 512 MiB allowed, 200 used, 80 of these are file pages that the kernel drops on demand.
    assert facts.section.usable_bytes == (512 - 200 + 80) * MIB
    rule = "the smaller of the available memory (/proc/meminfo) and the rest of the container's limit"
    assert facts.sources["memory.usable_bytes"] == f"{rule} (/sys/fs/cgroup/memory.max)"


def test_without_a_limit_all_that_is_available_is_usable(board):
    memory = probe(board("raspberry-pi-4")).section
    assert memory.usable_bytes == memory.available_bytes == 3300000 * 1024


def test_swap_and_huge_pages(machine):
    text = "MemTotal: 100 kB\nMemAvailable: 40 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n"
    pages = "HugePages_Total: 8\nHugePages_Free: 6\nHugepagesize: 2048 kB\n"
    thp = "/sys/kernel/mm/transparent_hugepage/enabled"
    memory = probe(machine({"/proc/meminfo": text + pages, thp: "always [madvise] never\n"})).section
    assert (memory.swap_total_bytes, memory.swap_free_bytes) == (0, 0)  # no swap is a fact as well
    assert (memory.huge_page_bytes, memory.huge_pages_total, memory.huge_pages_free) == (2 * MIB, 8, 6)
    assert memory.transparent_huge_pages == "madvise"


def test_what_the_kernel_does_not_tell_has_a_reason(machine):
    text = "MemTotal: 100 kB\nMemAvailable: 40 kB\nSwapTotal: 4 kB\nSwapFree: 9 kB\nHugePages_Total: -1\n"
    facts = probe(machine({"/proc/meminfo": text}))
    assert facts.section.swap_total_bytes is facts.section.huge_pages_total is None
    assert {"memory.swap_total_bytes", "memory.huge_page_bytes", "memory.transparent_huge_pages"} == set(
        facts.unavailable
    )


@pytest.mark.parametrize("size", ["-5", "9" * 30, "x", ""])
def test_absurd_sizes_are_absent(machine, size):
    assert (
        "memory"
        in probe(machine({"/proc/meminfo": f"MemTotal: {size} kB\nMemAvailable: {size} kB\n"})).unavailable
    )


def test_a_mac_is_asked_through_psutil(board):
    facts = probe(board("macos-m2"))
    assert facts.section.total_bytes == 16 * 2**30
    assert facts.section.swap_free_bytes == 2**30
    assert facts.sources["memory.swap_free_bytes"] == "psutil.swap_memory()"


def test_old_kernels_tell_only_what_is_free(machine):
    memory = probe(machine({"/proc/meminfo": "MemTotal: 100 kB\nMemFree: 40 kB\n"})).section
    assert memory.available_bytes == 40 * 1024


def test_psutil_where_meminfo_cannot_be_read(machine):
    facts = probe(machine(calls={"psutil.virtual_memory()": {"total": 4096, "available": 1024, "percent": 75.0}}))
    assert (facts.section.total_bytes, facts.section.available_bytes) == (4096, 1024)
    assert facts.sources["memory.total_bytes"] == "psutil.virtual_memory()"


def test_unknown_has_a_reason_and_no_source(machine):
    facts = probe(machine({"/proc/meminfo": "MemTotal: 0 kB\n"}))
    assert "memory" in facts.unavailable
    assert facts.sources == {}
