import msgspec
import pytest

from edgeopt.hw.device import Accelerator, Cpu, Device, HostFacts, Limits, Memory, Runtime
from edgeopt.hw.probe import agree, probe


@pytest.fixture
def device():
    """A device with these accelerators and runtimes."""

    def make(accelerators=(), runtimes=(), unavailable=None):
        return Device(
            HostFacts("Linux", "6.12", "x86_64", "3.12"),
            Cpu(None, None, "avx2", (), None, 1),
            Limits(1, None, None, 1),
            Memory(2**30, 2**30, 2**30),
            accelerators=tuple(accelerators),
            runtimes=tuple(runtimes),
            unavailable=unavailable or {},
        )

    return make


def openvino(**devices):
    return Runtime("openvino", "2025.3.0", devices={"CPU": "Intel", **devices})


def test_an_npu_that_openvino_does_not_see(device):
    npu = Accelerator("npu", "Intel NPU (Lunar Lake)", vendor="Intel", runtime="openvino")
    (found,) = agree(device([npu], [openvino()])).accelerators
    assert found.note == (
        "OpenVINO 2025.3.0 does not see it: install Intel's user-space driver for the NPU (linux-npu-driver)."
    )
    assert agree(device([npu], [openvino(NPU="Intel(R) AI Boost")])).accelerators == (npu,)


def test_the_first_thing_in_the_way_is_enough(board):
    npu = probe(board("intel-core-ultra")).accelerators[1]
    assert "No permission to open" in npu.note
    assert "OpenVINO" not in npu.note


def test_openvino_names_what_the_kernel_does_not(device):
    gpu = Accelerator("gpu", "Intel GPU 0x56a0", vendor="Intel")
    agreed = agree(device([gpu], [openvino(GPU="Intel(R) Arc(TM) A770 Graphics (dGPU)")]))
    assert agreed.accelerators[0].name == "Intel(R) Arc(TM) A770 Graphics (dGPU)"
    assert "OpenVINO" in agreed.sources["accelerators.gpu.0.name"]


def test_an_npu_that_only_openvino_sees(device):
    agreed = agree(device([], [openvino(NPU="Intel(R) AI Boost")], {"npu": "none found", "gpu": "no driver"}))
    (npu,) = agreed.accelerators
    assert (npu.kind, npu.name, npu.runtime_installed) == ("npu", "Intel(R) AI Boost", True)
    assert agreed.unavailable == {"gpu": "no driver"}
    assert agreed.sources["accelerators.npu"]


def test_a_distribution_whose_files_another_one_overwrote(device):
    gpu = Accelerator("gpu", "NVIDIA L4", vendor="NVIDIA", runtime="onnxruntime-gpu", runtime_installed=True)
    broken = Runtime("onnxruntime-gpu", "1.22.0", ("CPUExecutionProvider",))
    whole = msgspec.structs.replace(broken, providers=("CUDAExecutionProvider", "CPUExecutionProvider"))
    assert "has no CUDAExecutionProvider" in agree(device([gpu], [broken])).accelerators[0].note
    assert agree(device([gpu], [whole])).accelerators == (gpu,)


def test_nothing_to_hold_against_each_other_changes_nothing(device):
    plain = device([Accelerator("gpu", "AMD GPU", vendor="AMD")])
    assert agree(plain) == plain
