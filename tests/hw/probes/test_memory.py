from edgeopt.hw.probes.memory import probe

MIB = 2**20


def test_a_container_leaves_less(board):
    facts = probe(board("container-cgroup2"))
    assert facts.section.total_bytes == 64000000 * 1024
    # 512 MiB allowed, 200 used, 80 of these are file pages that the kernel drops on demand.
    assert facts.section.usable_bytes == (512 - 200 + 80) * MIB
    assert facts.sources["memory.usable_bytes"] == "/sys/fs/cgroup/memory.max"


def test_without_a_limit_all_that_is_available_is_usable(board):
    memory = probe(board("raspberry-pi-4")).section
    assert memory.usable_bytes == memory.available_bytes == 3300000 * 1024


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
