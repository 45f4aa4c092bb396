"""Rules of how backends and other target devices run quantized files, from the runtimes' own documents and code.

Of the backends that edgeopt cannot run where it is tested, this is all it knows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgeopt.errors import UsageError
from edgeopt.graph.passes.base import plural
from edgeopt.profiles import TargetProfile
from edgeopt.quant.inventory import Inventory, inventory_of
from edgeopt.quant.records import TargetVerdict

FALLS_BACK, NO_GAIN, SLOWER, FAILS = "falls back", "no gain", "slower", "fails"
_SIXTEEN = frozenset({"uint16", "int16"})


@dataclass(frozen=True, slots=True)
class Rule:
    backends: tuple[str, ...]
    applies: Callable[[Inventory], bool]
    verdict: str
    reason: str
    """A sentence that may contain `{operators}`, `{opset}` and `{inputs}`; the remedy may contain `{shapes}`."""
    remedy: str
    architectures: tuple[str, ...] = ()
    """Architectures that the rule applies to; empty: all."""


def _is_wide(file: Inventory) -> bool:
    return bool(_SIXTEEN & set(file.activation_types))


def _is_mixed(file: Inventory) -> bool:
    return "uint8" in file.activation_types and "int8" in file.weight_types


def _has_operators(file: Inventory) -> bool:
    return bool(file.integer_operators)


_OPEN = "Fix them when you quantize: {shapes}"
_PAIRS = "Quantize with pairs around floats: --method int8"

RULES: tuple[Rule, ...] = (
    # TensorRT, "Working with Quantized Types": symmetric, signed; its ONNX parser wants zero points of zero.
    Rule(
        ("onnxruntime-tensorrt",),
        lambda file: file.shifted or "uint8" in file.activation_types,
        FALLS_BACK,
        "TensorRT supports only symmetric signed eight-bit activations, so layers with other "
        "activations run outside of it.",
        "Quantize for it: --profile gpu-tensorrt --backend onnxruntime-tensorrt",
    ),
    # The same page lists INT8, INT4, FP8 and FP4.
    Rule(
        ("onnxruntime-tensorrt",),
        _is_wide,
        FALLS_BACK,
        "TensorRT has no sixteen-bit integers.",
        "Use int8 or fp16 for these layers.",
    ),
    Rule(
        ("onnxruntime-tensorrt", "onnxruntime-qnn", "onnxruntime-coreml", "onnxruntime-xnnpack"),
        lambda file: file.packed > 0,
        FALLS_BACK,
        "MatMulNBits is specific to ONNX Runtime, and this provider does not support it.",
        "Use --method w8 with blocks in DequantizeLinear, or int8.",
    ),
    # TensorRT's ONNX parser: operators.md has neither; QNN: onnxruntime-qnn pull request 494 says that QLinearConv
    # fell back in silence, and dynamic quantization has no counterpart there.
    Rule(
        ("onnxruntime-tensorrt", "onnxruntime-qnn"),
        _has_operators,
        FALLS_BACK,
        "Integer operators ({operators}) run on the CPU there; this provider needs float operators "
        "between QuantizeLinear and DequantizeLinear.",
        _PAIRS,
    ),
    # onnxruntime pull request 22066: QNN rejects nodes with open shapes; issue 11073: NNAPI and CoreML likewise.
    Rule(
        ("onnxruntime-qnn", "onnxruntime-coreml"),
        lambda file: bool(file.open_inputs),
        FALLS_BACK,
        "This provider takes fixed shapes only, and those of {inputs} are open.",
        _OPEN,
    ),
    # OpenVINO, "NPU Device": models are compiled for static shapes.
    Rule(
        ("openvino-npu",),
        lambda file: bool(file.open_inputs),
        FAILS,
        "The NPU compiles for fixed shapes only, and those of {inputs} are open.",
        _OPEN,
    ),
    # onnxruntime, providers/coreml: neither QuantizeLinear nor DequantizeLinear is among its operators.
    Rule(
        ("onnxruntime-coreml",),
        lambda file: file.is_quantized,
        FALLS_BACK,
        "CoreML's provider supports neither quantized operators nor DequantizeLinear: these layers "
        "run on the CPU.",
        "Use --method fp16 there.",
    ),
    # onnxruntime, providers/xnnpack/detail/utils.cc: "we do not handle u8s8".
    Rule(
        ("onnxruntime-xnnpack",),
        _is_mixed,
        FALLS_BACK,
        "XNNPACK needs activations and weights of the same sign, and this file has uint8 activations "
        "with int8 weights.",
        "Quantize with int8 activations: a profile with activation_type = 'int8'.",
    ),
    # The same file: its quantized operators are Conv, ConvTranspose, pools, Softmax and Resize.
    Rule(
        ("onnxruntime-xnnpack",),
        lambda file: file.quantized_matrices > 0,
        FALLS_BACK,
        "XNNPACK has no quantized matrix products; they run on ONNX Runtime's own CPU kernels.",
        "That costs little: both run on the CPU.",
    ),
    # onnxruntime issue 24807: no CUDA kernel for QLinearConv and its like; issue 7745: MatMulInteger goes to the
    # host and back. docs/OperatorKernels.md has QuantizeLinear and DequantizeLinear for CUDA.
    Rule(
        ("onnxruntime-cuda",),
        _has_operators,
        FALLS_BACK,
        "CUDA's provider has no kernels for {operators}; they run on the CPU, with copies between devices.",
        "Use --method fp16 there, or TensorRT with pairs around floats.",
    ),
    Rule(
        ("onnxruntime-cuda",),
        lambda file: file.pairs > 0 and not file.integer_operators,
        NO_GAIN,
        "CUDA's provider rounds and then multiplies in float: the error of eight bits without the speed.",
        "Use --method fp16 there, or TensorRT, which takes the pairs.",
    ),
    # onnxruntime, docs of the DirectML provider: "supports up to ONNX opset 20".
    Rule(
        ("onnxruntime-directml",),
        lambda file: file.opset > 20,
        FALLS_BACK,
        "DirectML supports operators up to opset 20, and this file has opset {opset}.",
        "Use a scheme that needs no newer opset: int8, int8-dynamic, or fp16.",
    ),
    # onnxruntime, js/web/docs/webgpu-operators.md and providers/webgpu: DequantizeLinear alone.
    Rule(
        ("onnxruntime-webgpu",),
        lambda file: bool(file.pairs or file.integer_operators),
        FALLS_BACK,
        "WebGPU's provider reads eight-bit weights but does not quantize activations, which runs on the CPU.",
        "Quantize the weights alone (--method w8, w4), or use fp16.",
    ),
    # onnxruntime, core/mlas: products of sixteen-bit integers have no kernel on the CPU.
    Rule(
        ("onnxruntime-cpu", "openvino-cpu", "openvino-gpu", "openvino-npu", "onnxruntime-directml"),
        _is_wide,
        NO_GAIN,
        "Products of sixteen-bit activations are computed in float there.",
        "Use int8, or keep these layers float.",
    ),
    # onnxruntime, docs on quantization: "S8S8 with QOperator will be slow on x86-64 CPUs and should be avoided".
    Rule(
        ("onnxruntime-cpu",),
        lambda file: _has_operators(file) and "int8" in file.activation_types,
        SLOWER,
        "Integer operators with int8 activations have no fast kernels on x86.",
        "Quantize with uint8 activations, or with pairs around floats.",
        architectures=("x86_64",),
    ),
)


def findings(backend: str, architectures: tuple[str, ...], file: Inventory) -> tuple[Rule, ...]:
    """Returns the rules that apply to a file on this backend, with their sentences filled in."""
    words = {
        "operators": ", ".join(file.integer_operators[:3]),
        "opset": file.opset,
        "inputs": ", ".join(f"'{name}'" for name in list(file.open_inputs)[:3]),
        "shapes": " ".join(f"--shape {name}={shape}" for name, shape in file.open_inputs.items()),
    }
    found = []
    for rule in RULES:
        elsewhere = rule.architectures and not set(rule.architectures) & set(architectures)
        if backend in rule.backends and not elsewhere and rule.applies(file):
            found.append(replace(rule, reason=rule.reason.format(**words), remedy=rule.remedy.format(**words)))
    return tuple(found)


FINE, SATURATES = "fine", "saturates"


def check_targets(model_path: Path, targets: Sequence[str]) -> tuple[TargetVerdict, ...]:
    """Returns the assessments for these targets, in their order; raises a UsageError for an unknown target."""
    from edgeopt.graph.model import load
    from edgeopt.profiles.targets import find

    profiles = [find(name).profile for name in targets]
    if not profiles:
        raise UsageError("No target to check.", "Name targets: --check-targets cpu-avx2,arm-dotprod")
    file = inventory_of(load(model_path).ir)
    rows: list[TargetVerdict] = []
    for name, profile in zip(targets, profiles, strict=True):
        found = [
            TargetVerdict(name, rule.verdict, rule.reason, rule.remedy)
            for rule in findings(profile.backends.order[0], profile.match.architectures, file)
        ]
        if _adds_in_sixteen_bits(profile) and file.wide_products:
            found.insert(0, _saturating(name, file))
        rows += found or [TargetVerdict(name, FINE, _why_fine(profile, file))]
    return tuple(rows)


def _adds_in_sixteen_bits(profile: TargetProfile) -> bool:
    """Whether the target adds pairs of 8-bit products in 16 bits, for which its profile requires 7-bit weights."""
    on_x86 = profile.backends.order[0].endswith("-cpu") and "aarch64" not in profile.match.architectures
    return on_x86 and profile.quantization.reduce_range


def _saturating(target: str, file: Inventory) -> TargetVerdict:
    reason = (
        f"{len(file.wide_products)} of {plural(file.quantized_products, 'product')} may overflow: without VNNI, "
        f"pairs of products with weights of eight bits are added in 16 bits ('{file.wide_products[0]}')."
    )
    remedy = f"Quantize with weights of seven bits, as --profile {target} does, or measure the accuracy there."
    return TargetVerdict(target, SATURATES, reason, remedy)


def _why_fine(profile: TargetProfile, file: Inventory) -> str:
    backend = profile.backends.order[0]
    if not file.is_quantized:
        return "Nothing in it is quantized."
    if not file.quantized_products:
        return f"Only weights are stored in few bits, which {backend} takes."
    products = plural(file.quantized_products, "product")
    if not _adds_in_sixteen_bits(profile):
        return f"{products} in few bits, as {backend} takes them, added in 32 bits."
    narrow = plural(file.quantized_products - file.computed_products, "product")
    return f"{narrow} with weights of seven bits, which cannot overflow. {computed_factors(file)}".rstrip()


def computed_factors(file: Inventory) -> str:
    """Returns a sentence about products that may overflow if pairs are added in 16 bits, or an empty text."""
    if not file.computed_products:
        return ""
    products = plural(file.computed_products, "product")
    return f"{products} of two computed factors may overflow: measure the accuracy there."
