"""ONNX Runtime on Apple's devices, through CoreML: processor, GPU and Neural Engine."""

from typing import Annotated, Literal

from edgeopt.backends.onnxruntime.backend import backend_of
from edgeopt.backends.onnxruntime.options import OrtOptions
from edgeopt.backends.onnxruntime.provider import Provider
from edgeopt.backends.options import about


class CoremlOptions(OrtOptions, frozen=True):
    ModelFormat: Annotated[
        Literal["", "NeuralNetwork", "MLProgram"],
        about(
            "MLProgram (from macOS 12 on) supports more operators; NeuralNetwork loads faster",
            search=("MLProgram", "NeuralNetwork"),
        ),
    ] = ""
    MLComputeUnits: Annotated[
        Literal["ALL", "CPUOnly", "CPUAndGPU", "CPUAndNeuralEngine"],
        about("Allowed compute units", search=("ALL", "CPUAndGPU", "CPUAndNeuralEngine")),
    ] = "ALL"
    RequireStaticInputShapes: Annotated[
        bool,
        about(
            "Only nodes with known shapes; others would be compiled again for each size",
            search=(False, True),
        ),
    ] = False
    EnableOnSubgraphs: Annotated[bool, about("Also runs nodes in the bodies of Loop, Scan and If")] = False
    SpecializationStrategy: Annotated[
        Literal["Default", "FastPrediction"],
        about("Faster runs, slower loading, from macOS 15 on", search=("Default", "FastPrediction")),
    ] = "Default"
    AllowLowPrecisionAccumulationOnGPU: Annotated[bool, about("Accumulates in half precision on the GPU")] = False
    ProfileComputePlan: Annotated[bool, about("Logs which unit runs each operator")] = False
    ModelCacheDirectory: Annotated[
        str,
        about(
            "Folder for compiled models; empty: none. Models are identified by path, so empty it when a file "
            "changes"
        ),
    ] = ""


PROVIDER = Provider(
    name="onnxruntime-coreml",
    title="ONNX Runtime, CoreML",
    key="CoreMLExecutionProvider",
    options=CoremlOptions,
    distributions=("onnxruntime",),
    systems=("Darwin",),
    extra="cpu",
)
BACKEND = backend_of(PROVIDER)
