"""Pools over a whole machine. The machines with several nodes and GPUs are recorded facts."""

import os

import msgspec
import numpy as np
import pytest

import edgeopt
from edgeopt.backends import backend_named
from edgeopt.bundle.runtime.pool.spread import PoolPart, cores_of, member_options, parts_of
from edgeopt.errors import UsageError
from edgeopt.hw.device import Accelerator, DeviceLimits, NumaNode
from edgeopt.hw.host import LocalHost

# Two nodes with two cores each; every core has two threads, as Linux numbers them.
MACHINE = ((0, 4), (1, 5), (2, 6), (3, 7))
NODES = (NumaNode(0, "0-1,4-5"), NumaNode(1, "2-3,6-7"))
CPU, CUDA = backend_named("onnxruntime-cpu"), backend_named("onnxruntime-cuda")
pytestmark = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="binds workers as Linux does")


@pytest.fixture(scope="module")
def device():
    """A machine of two nodes."""
    limits = DeviceLimits(affinity_cores=8, cgroup_cores=None, cgroup_memory_bytes=None, usable_cores=8)
    return msgspec.structs.replace(edgeopt.probe(), limits=limits, numa=NODES, accelerators=())


def with_gpus(device, *gpus):
    found = tuple(
        Accelerator("gpu", name, index=number, numa_node=node, apis=("cuda",))
        for number, (name, node) in enumerate(gpus)
    )
    return msgspec.structs.replace(device, accelerators=found)


def test_each_node_gets_a_member_on_its_cores(device):
    assert parts_of(device, MACHINE, CPU, None) == (
        PoolPart("cpus 0-1,4-5", (0, 1, 4, 5), 2),
        PoolPart("cpus 2-3,6-7", (2, 3, 6, 7), 2),
    )


def test_parts_are_of_whole_cores_and_begin_on_the_first_node(device):
    found = parts_of(device, MACHINE, CPU, 3)
    assert [part.cpus for part in found] == [(0, 1, 4, 5), (2, 6), (3, 7)]
    assert [part.cores for part in found] == [2, 1, 1]


def test_a_machine_of_one_node_gets_one_member_that_is_not_bound(device):
    one = msgspec.structs.replace(device, numa=())
    assert parts_of(one, MACHINE, CPU, None) == (PoolPart("cpus 0-7", (), 4),)


def test_nodes_that_do_not_hold_every_core_are_ignored(device):
    wrong = msgspec.structs.replace(device, numa=NODES[:1])
    assert len(parts_of(wrong, MACHINE, CPU, None)) == 1


def test_cores_that_the_process_may_not_use_are_left_out(device):
    assert [part.cpus for part in parts_of(device, ((1,), (2, 6)), CPU, None)] == [(1,), (2, 6)]


def test_a_limit_on_processor_time_divides_threads_and_binds_nobody(device):
    limits = msgspec.structs.replace(device.limits, cgroup_cores=3.0, usable_cores=3)
    limited = msgspec.structs.replace(device, limits=limits)
    assert parts_of(limited, MACHINE, CPU, 2) == (PoolPart("0", cores=2), PoolPart("1", cores=1))


@pytest.mark.parametrize("parts", [0, 5])
def test_more_parts_than_cores_are_refused(device, parts):
    with pytest.raises(UsageError, match="members"):
        parts_of(device, MACHINE, CPU, parts)


def test_each_gpu_gets_a_member_near_its_node(device):
    found = parts_of(with_gpus(device, ("A30", 1), ("A30", 0)), MACHINE, CUDA, None)
    assert found == (PoolPart("gpu 0", (2, 3, 6, 7), gpu=0), PoolPart("gpu 1", (0, 1, 4, 5), gpu=1))


def test_workers_of_unequal_gpus_are_not_bound_because_cuda_orders_them_otherwise(device):
    found = parts_of(with_gpus(device, ("T4", 0), ("H100", 1)), MACHINE, CUDA, None)
    assert found == (PoolPart("gpu 0", gpu=0), PoolPart("gpu 1", gpu=1))


def test_more_members_than_gpus_are_refused(device):
    with pytest.raises(UsageError, match="2 members cannot share 1 GPUs"):
        parts_of(with_gpus(device, ("T4", 0)), MACHINE, CUDA, 2)


def test_a_member_has_no_more_threads_than_its_part_has_cores():
    part = PoolPart("cpus 0-3", (0, 1, 2, 3), 2)
    assert member_options({"threads": 8, "allow_spinning": False}, part)["threads"] == 2
    assert member_options({"threads": 1}, part)["threads"] == 1
    assert member_options({}, part)["threads"] == 2
    assert member_options({}, PoolPart("gpu 1", gpu=1)) == {"device_id": 1}


def test_the_workers_run_on_their_cores_and_answer_as_the_bundle_does(bundle):
    cores = cores_of(LocalHost())
    if len(cores) < 2:
        pytest.skip("one core cannot be divided")
    image = np.random.default_rng(3).standard_normal((1, 3, 16, 16)).astype(np.float32)
    with edgeopt.load(bundle) as plain, edgeopt.Pool.spread(bundle, parts=2) as pool:
        expected = plain.run(image)
        workers = [member.session._loaded._worker.pid for member in pool._members]
        first, second = map(os.sched_getaffinity, workers)
        assert first.isdisjoint(second)
        assert first | second == {cpu for core in cores for cpu in core}
        futures = [pool.submit(image) for _ in range(20)]
        for future in futures:
            for name, values in future.result().items():
                np.testing.assert_allclose(values, expected[name], rtol=1e-4, atol=1e-5)


def test_a_cpu_that_this_process_may_not_use_is_refused():
    with pytest.raises(UsageError, match="CPU 4000 is not available"):
        edgeopt.Isolation(cpus=(4000,))
