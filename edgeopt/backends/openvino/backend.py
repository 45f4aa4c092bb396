"""A backend made of a device of OpenVINO: what all of them have in common."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from edgeopt.backends.base import Available, Backend, Coverage, Feeds, Kernels, Options, Session
from edgeopt.backends.openvino.coverage import device_coverage
from edgeopt.backends.openvino.opening import load_session
from edgeopt.backends.openvino.options import Aim, SharedOptions
from edgeopt.backends.openvino.times import device_times_ms
from edgeopt.backends.options import read_options
from edgeopt.hw.device import Unavailable

Chosen = TypeVar("Chosen", bound=SharedOptions)


@dataclass(frozen=True, slots=True)
class Target(Generic[Chosen]):
    """What differs from device to device."""

    name: str
    title: str
    device: str
    """Whose operators it covers, in OpenVINO's words."""
    options: type[Chosen]
    aim: Callable[[Chosen], Aim]
    available: Callable[[], Available | Unavailable]
    tells_times: bool = False
    tells_kernels: bool = True


def backend_of(target: Target[Chosen]) -> Backend:
    def chosen_of(options: Options) -> Chosen:
        return read_options(target.options, options, target.name)

    def load(path: Path, options: Options, *, strict: bool = False, custom_ops: tuple[str, ...] = ()) -> Session:
        chosen = chosen_of(options)
        return load_session(path, target.aim(chosen), chosen, strict=strict, custom_ops=custom_ops)

    def times(path: Path, options: Options, feeds: Feeds, custom_ops: tuple[str, ...] = ()) -> dict[str, float]:
        return device_times_ms(path, target.aim(chosen_of(options)), feeds, custom_ops)

    def timed(
        path: Path,
        options: Options,
        feeds: Feeds,
        runs: int = 20,
        custom_ops: tuple[str, ...] = (),
        limit_s: float = 5.0,
    ) -> Kernels:
        from edgeopt.backends.openvino.op_times import op_times

        chosen = chosen_of(options)
        return op_times(path, target.aim(chosen), chosen, feeds, runs, custom_ops, limit_s)

    def supports(path: Path) -> Coverage:
        return device_coverage(path, target.device)

    return Backend(
        name=target.name,
        title=target.title,
        formats=(".onnx", ".xml"),
        available=target.available,
        supports=supports,
        load=load,
        times=times if target.tells_times else None,
        op_times=timed if target.tells_kernels else None,
        options=target.options,
        package="openvino",
        converts_within=True,
    )
