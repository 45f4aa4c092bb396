"""The functions of a backend for an execution provider."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from edgeopt.backends.base import Available, Backend, Coverage, Feeds, Kernels, Options, Session
from edgeopt.backends.onnxruntime.profile import provider_times
from edgeopt.backends.onnxruntime.provider import Provider
from edgeopt.backends.onnxruntime.provider import available as provider_available
from edgeopt.backends.onnxruntime.session import load_session
from edgeopt.errors import MissingError, pip_install
from edgeopt.hw.device import Unavailable


def backend_of(
    provider: Provider,
    available: Callable[[], Available | Unavailable] | None = None,
    supports: Callable[[Path], Coverage] | None = None,
) -> Backend:
    """Returns the backend of a provider; the CPU's has its own `available` and `supports`."""

    def require() -> None:
        if available is None:
            _require(provider)

    def load(path: Path, options: Options, *, strict: bool = False, custom_ops: tuple[str, ...] = ()) -> Session:
        require()
        return load_session(provider, path, options, strict, custom_ops)

    def times(path: Path, options: Options, feeds: Feeds, custom_ops: tuple[str, ...] = ()) -> dict[str, float]:
        require()
        return provider_times(provider, path, options, feeds, custom_ops)

    def timed(
        path: Path,
        options: Options,
        feeds: Feeds,
        runs: int = 20,
        custom_ops: tuple[str, ...] = (),
        limit_s: float = 5.0,
    ) -> Kernels:
        from edgeopt.backends.onnxruntime.op_times import op_times

        require()
        return op_times(provider, path, options, feeds, runs, custom_ops, limit_s)

    return Backend(
        name=provider.name,
        title=provider.title,
        formats=(".onnx",),
        available=available or partial(provider_available, provider),
        supports=supports or partial(_coverage, provider),
        load=load,
        options=provider.options,
        times=times,
        op_times=timed,
        package="onnxruntime",
        converts_within=provider.converts_within,
        device=provider.key,
        on_processor=provider.on_processor,
        channels_last=provider.channels_last,
        eight_bits=provider.eight_bits,
    )


def _require(provider: Provider) -> None:
    found = provider_available(provider)
    if isinstance(found, Unavailable):
        raise MissingError(
            f"The backend {provider.name} cannot be used here: {found.reason}.",
            f"Install it with: {pip_install(found.extra)}" if found.extra else "See: edgeopt backends",
        )


def _coverage(provider: Provider, path: Path) -> Coverage:
    """Returns the coverage that the runtime reports when it loads the model without rewriting it."""
    _require(provider)
    session = load_session(provider, path, {"graph_level": "none"}, strict=False, custom_ops=())
    placement = session.placement
    session.close()
    if placement is None:
        raise MissingError(
            "This version of ONNX Runtime does not tell where the nodes run.",
            "Install ONNX Runtime 1.24 or later.",
        )
    total = sum(placement.nodes.values())
    return Coverage(total - len(placement.fallen), total, placement.fallen)
