import msgspec
import pytest

from edgeopt.hw.device import Device, Identity, Runtime, State, fingerprint, kind_of
from edgeopt.hw.probe import probe

PARTS = {"host", "cpu", "limits", "memory", "accelerators", "drivers", "runtimes"}


@pytest.fixture
def device(board):
    return probe(board("amd-zen4"))


def changed(device, section, **values):
    return msgspec.structs.replace(
        device, **{section: msgspec.structs.replace(getattr(device, section), **values)}
    )


def different(one, other):
    before, after = fingerprint(one), fingerprint(other)
    return {part for part in before if before[part] != after[part]}


def test_its_parts_have_names(device):
    assert set(fingerprint(device)) == PARTS
    assert all(len(digest) == 64 for digest in fingerprint(device).values())


def test_it_is_the_same_after_a_way_over_the_wire(device):
    again = msgspec.json.decode(msgspec.json.encode(device), type=Device)
    assert fingerprint(again) == fingerprint(device)


def test_what_changes_from_minute_to_minute_does_not_change_it(device):
    memory = device.memory
    volatile = msgspec.structs.replace(
        changed(
            changed(
                device, "memory", available_bytes=memory.available_bytes // 2, usable_bytes=1, swap_free_bytes=0
            ),
            "host",
            kernel="99.0",
            python="3.99",
        ),
        state=State(worth_measuring=False, load_1m=9.0, temperatures_c={"cpu": 99.0}),
        identity=Identity("other-host", "f" * 32),
        sources={},
        unavailable={},
        accelerators=tuple(
            msgspec.structs.replace(
                each,
                memory_free_bytes=1,
                temperature_c=80.0,
                utilization_percent=99.0,
                clock_hz=1,
                power_w=5.0,
                note="busy",
                runtime_installed=not each.runtime_installed,
                power_limit_w=77.0,
            )
            for each in device.accelerators
        ),
    )
    assert different(device, volatile) == set()


def test_a_reboot_that_leaves_a_little_less_memory_does_not_change_it(device):
    total = 16 * 2**30 - 700 * 2**20
    one = changed(device, "memory", total_bytes=total)
    assert different(one, changed(device, "memory", total_bytes=total - 9 * 2**20)) == set()
    assert different(one, changed(device, "memory", total_bytes=2 * total)) == {"memory"}


def test_tools_that_do_not_run_models_do_not_change_it(device):
    runtimes = (*device.runtimes, *(Runtime(name, "1") for name in ("onnx", "onnxscript")))
    assert different(device, msgspec.structs.replace(device, runtimes=runtimes)) == set()


@pytest.mark.parametrize(
    ("section", "values", "part"),
    [
        ("host", {"board": "another board"}, "host"),
        ("host", {"virtual_machine": "kvm"}, "host"),
        ("cpu", {"model": "another CPU"}, "cpu"),
        ("cpu", {"simd": ("avx2",)}, "cpu"),
        ("limits", {"usable_cores": 1}, "limits"),
        ("limits", {"cgroup_memory_bytes": 2**29}, "limits"),
    ],
)
def test_what_decides_how_a_model_runs_changes_its_part_alone(device, section, values, part):
    assert different(device, changed(device, section, **values)) == {part}


def test_drivers_and_runtimes_are_parts_of_their_own(device):
    first, *others = device.accelerators
    driver = msgspec.structs.replace(device, accelerators=(msgspec.structs.replace(first, driver="9.9"), *others))
    assert different(device, driver) == {"drivers"}
    runtime = msgspec.structs.replace(device.runtimes[0], version="9.9")
    newer = msgspec.structs.replace(device, runtimes=(runtime, *device.runtimes[1:]))
    assert different(device, newer) == {"runtimes"}


def test_which_of_equal_cores_are_allowed_does_not_matter_but_of_which_kind_does(board):
    device = probe(board("arm-sve2"))
    fast, slow = device.clusters[0], device.clusters[-1]
    slow_cpus = [int(n) for n in slow.cpus.replace("-", ",").split(",")]
    pinned = [changed(device, "limits", affinity=str(cpu), affinity_cores=1) for cpu in slow_cpus[:2]]
    assert different(*pinned) == set()
    fast_one = changed(device, "limits", affinity=fast.cpus.split("-")[0], affinity_cores=1)
    assert different(pinned[0], fast_one) == {"limits"}


def test_devices_are_of_one_kind_if_all_parts_of_their_fingerprints_agree(device):
    busy = msgspec.structs.replace(
        device, identity=Identity("other"), state=State(worth_measuring=False), sources={}
    )
    assert kind_of(busy) == kind_of(device)
    assert len(kind_of(device)) == 12
    wider = changed(device, "limits", usable_cores=device.limits.usable_cores + 1)
    newer = msgspec.structs.replace(device, runtimes=(*device.runtimes, Runtime("other", "2.0")))
    assert len({kind_of(each) for each in (device, wider, newer)}) == 3
