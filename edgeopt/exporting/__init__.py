"""A bundle in other forms, one file each: what does not know edgeopt runs these."""

from edgeopt.exporting.base import Format
from edgeopt.exporting.cpp import FORMAT as CPP
from edgeopt.exporting.docker import FORMAT as DOCKER
from edgeopt.exporting.onnx import FORMAT as ONNX
from edgeopt.exporting.openvino_ir import FORMAT as OPENVINO_IR
from edgeopt.exporting.runner import FORMAT as RUNNER
from edgeopt.exporting.triton import FORMAT as TRITON

FORMATS: tuple[Format, ...] = (ONNX, OPENVINO_IR, RUNNER, DOCKER, TRITON, CPP)
