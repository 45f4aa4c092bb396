import msgspec
import pytest

from edgeopt.hw.device import Accelerator, Cpu, Device, DeviceLimits, HostFacts, Runtime, SystemMemory
from edgeopt.profiles import shipped_profiles
from edgeopt.profiles.targets import DoesNotFit, Fits, fit

ORT = "onnxruntime"
CUDA = Runtime("onnxruntime-gpu", "1.31.0", ("TensorrtExecutionProvider", "CUDAExecutionProvider"))
NVIDIA = Accelerator("gpu", "GeForce RTX 4090", vendor="NVIDIA", apis=("cuda", "tensorrt"))


@pytest.fixture(scope="module")
def shipped():
    return {profile.name: profile for profile in shipped_profiles()}


@pytest.fixture
def machine():
    """A device with a processor alone; what is given is added to it."""

    def make(system="Linux", architecture="x86_64", simd=(), accelerators=(), runtimes=(), unavailable=None):
        return Device(
            host=HostFacts(system, "6.1", architecture, "3.12"),
            cpu=Cpu(None, None, "baseline", tuple(simd), 4, 8),
            limits=DeviceLimits(8, None, None, 8),
            memory=SystemMemory(2**33, 2**32, 2**32),
            accelerators=tuple(accelerators),
            runtimes=tuple(runtimes),
            unavailable=unavailable or {},
        )

    return make


def no(device, profile):
    answer = fit(device, profile)
    assert isinstance(answer, DoesNotFit)
    return answer.reason


@pytest.mark.parametrize(
    ("simd", "architecture", "target"),
    [
        (("sse4_2", "avx"), "x86_64", "cpu-avx"),
        (("sse4_2", "avx", "avx2", "fma", "avx-vnni"), "x86_64", "cpu-avx-vnni"),
        (("neon", "dotprod", "i8mm"), "aarch64", "arm-i8mm"),
        (("neon",), "armv7l", "mobile-cpu"),
        (("rvv",), "riscv64", "riscv-rvv"),
    ],
)
def test_a_processor_fits_by_its_instruction_sets(machine, shipped, simd, architecture, target):
    assert isinstance(fit(machine(architecture=architecture, simd=simd), shipped[target]), Fits)
    assert no(machine(architecture=architecture, simd=simd[:-1]), shipped[target]) == f"the CPU lacks {simd[-1]}"


def test_a_gpu_fits_with_the_runtime_that_drives_it(machine, shipped):
    answer = fit(machine(accelerators=[NVIDIA], runtimes=[CUDA]), shipped["gpu-cuda"])
    assert answer == Fits("GeForce RTX 4090 with ONNX Runtime's CUDAExecutionProvider")


def test_the_provider_that_lacks_is_named_with_what_brings_it(machine, shipped):
    said = "ONNX Runtime's CUDAExecutionProvider is not installed: pip install onnxruntime-gpu nvidia-ml-py"
    plain = Runtime(ORT, "1.31.0", ("CPUExecutionProvider",))
    assert no(machine(accelerators=[NVIDIA], runtimes=[plain]), shipped["gpu-cuda"]) == said
    assert no(machine(accelerators=[NVIDIA]), shipped["gpu-cuda"]) == said


def test_tensorrt_is_asked_for_beside_its_provider(machine, shipped):
    profile = shipped["gpu-tensorrt"]
    without = machine(accelerators=[NVIDIA], runtimes=[CUDA])
    assert no(without, profile).startswith("TensorRT is not installed: ")
    flavour = Runtime("tensorrt-cu12", "10.9")
    assert isinstance(fit(machine(accelerators=[NVIDIA], runtimes=[CUDA, flavour]), profile), Fits)


def test_a_runtime_that_could_not_be_asked(machine, shipped):
    silent = machine(
        accelerators=[NVIDIA],
        runtimes=[Runtime("onnxruntime-gpu", "1.31.0")],
        unavailable={"onnxruntime-gpu.providers": "libcudart.so.12 is missing"},
    )
    said = "whether ONNX Runtime's CUDAExecutionProvider is there is not known: libcudart.so.12 is missing"
    assert no(silent, shipped["gpu-cuda"]) == said


def test_no_accelerator_comes_with_the_reason_of_the_probe(machine, shipped):
    bare = machine(unavailable={"gpu": "no NVIDIA driver"})
    assert no(bare, shipped["gpu-cuda"]) == "this device has no GPU: no NVIDIA driver"
    assert no(machine(), shipped["npu-openvino"]) == "this device has no NPU"


def test_an_accelerator_of_another_maker(machine, shipped):
    amd = Accelerator("gpu", "Radeon RX 7900", vendor="AMD")
    said = "it has no GPU by NVIDIA, only Radeon RX 7900"
    assert no(machine(accelerators=[amd], runtimes=[CUDA]), shipped["gpu-cuda"]) == said
    assert isinstance(fit(machine(accelerators=[amd, NVIDIA], runtimes=[CUDA]), shipped["gpu-cuda"]), Fits)


def test_an_npu_is_no_gpu(machine, shipped):
    npu = Accelerator("npu", "Intel AI Boost", vendor="Intel")
    openvino = Runtime("openvino", "2026.4", devices={"CPU": "x", "NPU": "Intel AI Boost"})
    device = machine(accelerators=[npu], runtimes=[openvino])
    assert isinstance(fit(device, shipped["npu-openvino"]), Fits)
    assert no(device, shipped["gpu-openvino"]) == "this device has no GPU"


def test_what_stands_in_the_way_of_an_accelerator_is_said(machine, shipped):
    barred = msgspec.structs.replace(NVIDIA, note="This user may not open /dev/nvidia0.")
    device = machine(accelerators=[barred], runtimes=[CUDA])
    assert no(device, shipped["gpu-cuda"]) == "GeForce RTX 4090: This user may not open /dev/nvidia0"
    both = machine(accelerators=[barred, NVIDIA], runtimes=[CUDA])
    assert isinstance(fit(both, shipped["gpu-cuda"]), Fits)


def test_an_interface_that_a_profile_asks_for(machine, shipped):
    wanted = msgspec.structs.replace(
        shipped["gpu-cuda"].match,
        accelerator=msgspec.structs.replace(shipped["gpu-cuda"].match.accelerator, api="vulkan"),
    )
    profile = msgspec.structs.replace(shipped["gpu-cuda"], match=wanted)
    device = machine(accelerators=[NVIDIA], runtimes=[CUDA])
    assert no(device, profile) == "GeForce RTX 4090 cannot be driven by vulkan here"


@pytest.mark.parametrize(
    "runtime",
    [
        Runtime("openvino", "2026.4", ("CPU: Xeon", "GPU.0: Intel Arc A770")),
        Runtime("openvino", "2026.4", devices={"CPU": "Xeon", "GPU": "Intel Arc A770"}),
    ],
    ids=["among the providers", "by device"],
)
def test_a_device_of_openvino(machine, shipped, runtime):
    arc = Accelerator("gpu", "Intel Arc A770", vendor="Intel")
    assert isinstance(fit(machine(accelerators=[arc], runtimes=[runtime]), shipped["gpu-openvino"]), Fits)
    cpu_alone = Runtime("openvino", "2026.4", ("CPU: Xeon",))
    reason = no(machine(accelerators=[arc], runtimes=[cpu_alone]), shipped["gpu-openvino"])
    assert reason.startswith("OpenVINO's GPU device is not there: install")


def test_the_system_must_be_the_right_one(machine, shipped):
    apple = Accelerator("gpu", "Apple M2", vendor="Apple")
    coreml = Runtime(ORT, "1.31.0", ("CoreMLExecutionProvider", "CPUExecutionProvider"))
    mac = machine("Darwin", "aarch64", ("neon", "dotprod"), [apple], [coreml])
    assert isinstance(fit(mac, shipped["gpu-mps"]), Fits)
    assert no(mac, shipped["gpu-directml"]) == "it is for Windows, and this device runs macOS"
    assert no(machine(), shipped["gpu-mps"]) == "it is for macOS, and this device runs Linux"


def test_a_windows_adapter_of_any_maker(machine, shipped):
    directml = Runtime("onnxruntime-directml", "1.24", ("DmlExecutionProvider", "CPUExecutionProvider"))
    radeon = Accelerator("gpu", "AMD Radeon 780M", vendor="AMD")
    windows = machine("Windows", accelerators=[radeon], runtimes=[directml])
    assert isinstance(fit(windows, shipped["gpu-directml"]), Fits)
