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
            "The new format (MLProgram, from macOS 12 on) takes more operators; the old one loads faster",
            search=("MLProgram", "NeuralNetwork"),
        ),
    ] = ""
    MLComputeUnits: Annotated[
        Literal["ALL", "CPUOnly", "CPUAndGPU", "CPUAndNeuralEngine"],
        about("What CoreML may run on", search=("ALL", "CPUAndGPU", "CPUAndNeuralEngine")),
    ] = "ALL"
    RequireStaticInputShapes: Annotated[
        bool,
        about(
            "Takes only nodes whose shapes are known; others would be compiled anew at every size",
            search=(False, True),
        ),
    ] = False
    EnableOnSubgraphs: Annotated[bool, about("Takes nodes in the bodies of Loop, Scan and If as well")] = False
    SpecializationStrategy: Annotated[
        Literal["Default", "FastPrediction"],
        about("Quicker runs for a longer load, from macOS 15 on", search=("Default", "FastPrediction")),
    ] = "Default"
    AllowLowPrecisionAccumulationOnGPU: Annotated[bool, about("Sums in half precision on the GPU")] = False
    ProfileComputePlan: Annotated[bool, about("Writes to the log which unit runs what")] = False
    ModelCacheDirectory: Annotated[
        str,
        about(
            "Folder in which compiled models are kept; empty: nowhere. It knows a model by its path, so empty "
            "it when the file changes"
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
