"""A bundle in other forms, one file each: what does not know edgeopt runs these."""

from edgeopt.bundle.export.base import Format
from edgeopt.bundle.export.cpp import FORMAT as CPP
from edgeopt.bundle.export.docker import FORMAT as DOCKER
from edgeopt.bundle.export.onnx import FORMAT as ONNX
from edgeopt.bundle.export.openvino_ir import FORMAT as OPENVINO_IR
from edgeopt.bundle.export.runner import FORMAT as RUNNER
from edgeopt.bundle.export.triton import FORMAT as TRITON

FORMATS: tuple[Format, ...] = (ONNX, OPENVINO_IR, RUNNER, DOCKER, TRITON, CPP)
