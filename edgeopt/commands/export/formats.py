"""Every form, one file each; `edgeopt export --list` and the app show them in this order."""

from edgeopt.commands.export.base import Format
from edgeopt.commands.export.cpp import FORMAT as CPP
from edgeopt.commands.export.docker import FORMAT as DOCKER
from edgeopt.commands.export.onnx import FORMAT as ONNX
from edgeopt.commands.export.openvino_ir import FORMAT as OPENVINO_IR
from edgeopt.commands.export.runner import FORMAT as RUNNER
from edgeopt.commands.export.triton import FORMAT as TRITON

FORMATS: tuple[Format, ...] = (ONNX, OPENVINO_IR, RUNNER, DOCKER, TRITON, CPP)
