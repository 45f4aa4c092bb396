"""OpenVINO's AUTO: it chooses the device by itself, among those that are here or those that it is given."""

from typing import Annotated, Literal

import msgspec

from edgeopt.backends.openvino.backend import Target, backend_of
from edgeopt.backends.openvino.options import Aim, Priority, SharedOptions, chosen, shared_config
from edgeopt.backends.openvino.placement import package_available
from edgeopt.backends.options import Threads, about

_DEVICE = r"(CPU|GPU(\.\d+){0,2}|NPU)"


class AutoOptions(SharedOptions, frozen=True):
    devices: Annotated[
        str,
        msgspec.Meta(pattern=rf"^({_DEVICE}(,{_DEVICE})*)?$"),
        about("Devices by priority, such as 'GPU,CPU'; empty: all except the NPU"),
    ] = ""
    performance_hint: Annotated[
        Literal["latency", "throughput", "cumulative_throughput"],
        about(
            "Optimize for latency, for throughput on one device, or on all devices",
            search=("latency", "throughput"),
        ),
    ] = "latency"
    startup_fallback: Annotated[bool, about("The CPU runs the model until the chosen device has loaded it")] = True
    runtime_fallback: Annotated[bool, about("Reruns failed requests on another device")] = True
    schedule: Annotated[
        Literal["", "device_priority", "round_robin"],
        about("With 'cumulative_throughput': first device first, or round robin"),
    ] = ""
    bind_buffer: Annotated[bool | None, about("Binds buffers to requests of the device")] = None
    model_priority: Annotated[Priority, about("Priority for the better device")] = ""
    threads: Annotated[Threads, about("Threads on the CPU; 0: the runtime's default")] = 0


def auto_aim(options: AutoOptions) -> Aim:
    config = shared_config(options) | chosen(
        PERFORMANCE_HINT=options.performance_hint.upper(),
        ENABLE_STARTUP_FALLBACK=options.startup_fallback,
        ENABLE_RUNTIME_FALLBACK=options.runtime_fallback,
        SCHEDULE_POLICY=options.schedule.upper() or None,
        DEVICE_BIND_BUFFER=options.bind_buffer,
        MODEL_PRIORITY=options.model_priority.upper() or None,
        DEVICE_PROPERTIES={"CPU": {"INFERENCE_NUM_THREADS": options.threads}} if options.threads else None,
    )
    device = f"AUTO:{options.devices}" if options.devices else "AUTO"
    wanted = options.devices.split(",", 1)[0] or "AUTO"
    return Aim(device, wanted, config, {"ENABLE_STARTUP_FALLBACK": False, "ENABLE_RUNTIME_FALLBACK": False})


BACKEND = backend_of(
    Target(
        "openvino-auto",
        "OpenVINO, a device of its own choice (AUTO)",
        "CPU",  # which it falls back to
        AutoOptions,
        auto_aim,
        package_available,
        tells_kernels=False,
    )
)
