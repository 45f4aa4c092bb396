"""What `edgeopt probe` is asked."""

from pathlib import Path
from typing import Annotated

import msgspec

from edgeopt.errors import UsageError
from edgeopt.options import option


class Request(msgspec.Struct, frozen=True):
    """As it was written."""

    explain: Annotated[bool, option("Show where each fact comes from.")] = False
    record: Annotated[Path | None, option("Folder to write a recording of this machine to.", metavar="DIR")] = None
    root: Annotated[
        Path | None, option("Recording to read, or an unpacked tree of /proc and /sys.", metavar="DIR")
    ] = None
    device: Annotated[Path | None, option("Record to read, as printed by --json.", metavar="FILE.json")] = None
    deep: Annotated[
        bool, option("Also show the peak speed of runtimes and memory. The first --deep measures it (10 s).")
    ] = False
    again: Annotated[bool, option("Repeat the measurement of --deep.")] = False
    identify: Annotated[bool, option("Include the host name and machine id in the record.")] = False


def check(request: Request) -> None:
    """Raises UsageError for what does not go together."""
    named = {"--record": request.record, "--root": request.root, "--device": request.device}
    given = [flag for flag, path in named.items() if path is not None]
    if request.again and not request.deep:
        raise UsageError("--again needs --deep.", "Give both: --deep --again")
    if request.deep and given:
        raise UsageError(f"--deep and {given[0]} exclude each other.", "Run them one after the other.")
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} exclude each other.", "Give one of them.")
    if request.identify and (request.root or request.device):
        raise UsageError(f"{given[0]} has no identity of the machine, so --identify cannot be used.")
