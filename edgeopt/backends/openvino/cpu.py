"""OpenVINO on the processor."""

from edgeopt.backends.openvino.backend import Target, backend_of
from edgeopt.backends.openvino.options import OpenVinoOptions, cpu_aim
from edgeopt.backends.openvino.placement import package_available

BACKEND = backend_of(
    Target(
        "openvino-cpu",
        "OpenVINO, CPU",
        "CPU",
        OpenVinoOptions,
        cpu_aim,
        package_available,
    )
)
