"""`edgeopt-agent run`: the agent itself."""

import asyncio
import faulthandler
import logging
import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from edgeopt.cli.console import JsonFlag, execute
from edgeopt.cli.progress import as_called
from edgeopt.errors import EdgeoptError, MissingExtraError, UsageError, legible
from edgeopt.events import Emit, Progress
from edgeopt.views.blocks import Block, WordsBlock
from edgeopt_agent.cli.options import ConfigOption, DataDirOption
from edgeopt_agent.config import configured
from edgeopt_agent.http.early import RateLimit
from edgeopt_agent.own_commands import in_own_commands
from edgeopt_agent.settings import MAX_SOAK_S, Level, Settings, Tls, on_data_dir
from edgeopt_agent.systemd import delay_restart

# What the service cannot do without; uvloop is used where it is there.
MODULES = ("starlette", "uvicorn", "websockets", "prometheus_client", "cryptography")
# A part of a package that is not there is an error, so the package goes before it.
GRPC_MODULES = ("grpc", "google", "google.protobuf")
MQTT_MODULES = ("aiomqtt", "paho")
DESCRIPTORS = 4096


class Ran(msgspec.Struct, frozen=True):
    data_dir: str


def run(  # noqa: PLR0913, PLR0917 - the options of a command
    data_dir: DataDirOption = None,
    config: ConfigOption = None,
    host: Annotated[
        str | None,
        typer.Option(
            help="Address to listen on; other than loopback needs a token and a trusted key.",
            show_default="127.0.0.1",
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(help="Port to listen on; 0: any free port.", min=0, max=65535, show_default="8080"),
    ] = None,
    grpc_port: Annotated[
        int | None,
        typer.Option(help="Port for gRPC inference; 0: off.", min=0, max=65535, show_default="0"),
    ] = None,
    soak_seconds: Annotated[
        float | None,
        typer.Option(
            help="Soak time of a new release, in seconds.",
            min=0,
            max=MAX_SOAK_S,
            show_default="600",
        ),
    ] = None,
    soak_requests: Annotated[
        int | None,
        typer.Option(help="Minimum requests during the soak.", min=0, show_default="100"),
    ] = None,
    tls: Annotated[
        Tls | None,
        typer.Option(help="Use HTTPS: auto (except on loopback), on or off.", show_default="auto"),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option(help="Certificate to use instead of the agent's own (PEM, with chain).")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Private key of --tls-cert (PEM, no password).")] = None,
    log_level: Annotated[Level | None, typer.Option(help="Log level.", show_default="info")] = None,
    json: JsonFlag = False,
) -> None:
    """Run the agent: control, inference, metrics and telemetry on one port.

    \b
    No configuration is needed. A restarted agent serves the same releases as before. SIGTERM or
    Ctrl-C finishes the requests in flight and ends the agent within five seconds.

    \b
    Examples:
      edgeopt-agent run
      edgeopt-agent run --port 9000 --data-dir ./agent-data --soak-seconds 60
      edgeopt-agent run --config agent.toml          SIGHUP reads the file again
      edgeopt-agent run --grpc-port 8001             inference over gRPC too
    """

    def settings_now() -> Settings:
        options: dict[str, object] = {"data_dir": data_dir, "host": host, "port": port, "log_level": log_level}
        options |= {"soak_s": soak_seconds, "soak_requests": soak_requests, "grpc_port": grpc_port}
        options |= {"tls": tls, "tls_cert": tls_cert, "tls_key": tls_key}
        return configured(config, options).settings

    def work(emit: Emit) -> Ran:
        try:
            return start(emit)
        except EdgeoptError:
            delay_restart()
            raise

    def start(emit: Emit) -> Ran:
        os.umask(0o077)  # releases, logs and the journal are for their owner alone
        faulthandler.enable()  # the journal then says where it crashed
        if any(find_spec(module) is None for module in MODULES):
            raise MissingExtraError("agent", "The agent")
        settings = settings_now()
        if (settings.tls_cert is None) != (settings.tls_key is None) or (
            settings.tls == "off" and settings.tls_cert is not None
        ):
            raise UsageError(
                "--tls-cert and --tls-key must be given together, and not with --tls off.",
                "Give both files, or neither to use the agent's own certificate.",
            )
        if settings.grpc_port and any(find_spec(module) is None for module in GRPC_MODULES):
            raise MissingExtraError("agent", "gRPC")
        if settings.mqtt is not None and any(find_spec(module) is None for module in MQTT_MODULES):
            raise MissingExtraError("fleet", "MQTT")
        if settings.announce and find_spec("zeroconf") is None:
            raise MissingExtraError("fleet", "Announcing the agent (`announce`)")
        handler = logging.StreamHandler()
        handler.setFormatter(_Lines("%(asctime)s %(levelname)-7s %(message)s"))
        _limit_refusals()
        logging.basicConfig(level=settings.log_level.upper(), handlers=[handler])
        _serve(settings, lambda live_port: _report_live(settings, live_port, json, emit), settings_now)
        return Ran(str(settings.data_dir))

    execute("run", work, show, json)


def _limit_refusals() -> None:
    """Writes refused orders to the log by rate: a client of the broker can send any number."""
    for name in ("edgeopt_agent.mqtt.orders", "edgeopt_agent.mqtt.link.ignored"):
        logging.getLogger(name).addFilter(RateLimit())


class _Lines(logging.Formatter):
    """A message is one line, whatever names are in it; a traceback keeps its lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the library's name
        record.message = legible(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: ANN401, N802 - the library's
        return "\n".join(map(legible, super().formatException(ei).split("\n")))


def _serve(settings: Settings, on_live: Callable[[int], None], reload: Callable[[], Settings]) -> None:
    from edgeopt_agent import service

    _raise_descriptor_limit()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(service.run(settings, on_live, reload))


def _raise_descriptor_limit() -> None:
    """Connections and workers need more open files than the 256 or 1024 that shells start with."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if find_spec("uvloop") is None:
        return None
    import uvloop

    return uvloop.new_event_loop


def _report_live(settings: Settings, port: int, json: bool, emit: Emit) -> None:
    """Reports where the agent listens, where its state is, whom it trusts and what to do next."""
    from edgeopt_agent.certificate import present, uses_tls
    from edgeopt_agent.data_dir import DataDir
    from edgeopt_agent.tokens import token_files
    from edgeopt_agent.trust import trust_of

    shown = f"[{settings.host}]" if ":" in settings.host else settings.host
    secured = uses_tls(settings)
    url = f"{'https' if secured else 'http'}://{shown}:{port}"
    known_by = present(settings.data_dir).fingerprint if secured else ""
    grpc_address = f"{shown}:{settings.grpc_port}" if settings.grpc_port else ""
    if json:
        emit(Progress("live", url))
        if grpc_address:
            emit(Progress("grpc", grpc_address))
        if known_by:
            emit(Progress("certificate", known_by))
        return
    add = on_data_dir("edgeopt-agent trust add KEY.pub", settings.data_dir)
    trust = {
        "unsigned": f"unsigned: accepts any bundle, from this device only ({add})",
        "signed": "accepts only bundles signed by a trusted key",
    }[trust_of(DataDir(settings.data_dir).trust)]
    typer.echo(f"edgeopt-agent listens at {url}, {as_called(legible(trust))}")
    if grpc_address:
        typer.echo(f"  gRPC:           {grpc_address}{' with TLS' if secured else ''}")
    typer.echo(f"  data folder:    {legible(str(settings.data_dir))}")
    if known_by:
        typer.echo(f"  fingerprint:    {known_by}")
    if token_files(DataDir(settings.data_dir).tokens):
        tokens = on_data_dir("edgeopt-agent token list", settings.data_dir)
        typer.echo(f"  access:         every request needs a token ({as_called(tokens)})")
    deploy = in_own_commands("edgeopt-agent deploy BUNDLE", settings)
    typer.echo(f"  deploy with:    {as_called(deploy)}")


def show(_result: Ran) -> list[Block]:
    return [WordsBlock("Stopped cleanly.")]
