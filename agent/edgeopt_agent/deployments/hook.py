"""`hooks/before-commit`: a program of the device's owner that has the last word on a release that has soaked."""

import asyncio
import os
import signal
import stat
from contextlib import suppress
from pathlib import Path

from edgeopt.workers.host import outer_environment
from edgeopt_agent.data_dir import DataDir
from edgeopt_agent.deployments.record import Record, Soaked
from edgeopt_agent.deployments.refused import StepError
from edgeopt_agent.deployments.site import Site

_TAIL_BYTES = 4096
_MAX_REASON = 300


def hook_of(data: DataDir) -> Path:
    return data.base / "hooks" / "before-commit"


def unusable(hook: Path) -> tuple[str, str]:
    """Returns why the hook cannot run and what to do; empty if it can run, or if there is no hook."""
    try:
        found = hook.stat()
    except FileNotFoundError:
        return "", ""
    except OSError as error:
        return f"{hook} cannot be read: {error.strerror}.", "Make it readable for the agent's user."
    if found.st_uid != hook.parents[1].stat().st_uid:
        return f"{hook} does not belong to the agent's user.", f"chown it to the owner of {hook.parents[1]}."
    if stat.S_IMODE(found.st_mode) & 0o022:
        return f"Others may write {hook}.", f"chmod go-w '{hook}'"
    if not stat.S_ISREG(found.st_mode) or not found.st_mode & stat.S_IXUSR:
        return f"{hook} is not executable.", f"chmod u+x '{hook}'"
    return "", ""


async def ask_hook(site: Site, record: Record, soaked: Soaked) -> None:
    """Runs the hook, if there is one; raises StepError where it does not agree within its time."""
    hook = hook_of(site.data)
    if not hook.exists():
        return
    wrong, advice = unusable(hook)
    if wrong:
        raise StepError(f"{wrong} {advice}", fault=False)
    limit_s = site.settings.hook_timeout_s
    try:
        process = await asyncio.create_subprocess_exec(
            str(hook),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            cwd=site.data.root,
            env={**outer_environment(), **_facts(site, record, soaked)},
        )
    except OSError as error:
        raise StepError(f"The hook before-commit could not be started: {error.strerror}.", fault=False) from None
    assert process.stdout is not None  # noqa: S101 - asked for above
    reading = asyncio.create_task(_last_line(process.stdout))
    try:
        async with asyncio.timeout(limit_s):
            code = await process.wait()
    except TimeoutError:
        raise StepError(f"The hook before-commit took longer than {limit_s:g} s.", fault=False) from None
    finally:
        with suppress(ProcessLookupError):  # also what it left running
            os.killpg(process.pid, signal.SIGKILL)
        line = await reading
        await process.wait()
    if code:
        raise StepError(line or f"The hook before-commit ended with exit code {code}.", fault=False)


def _facts(site: Site, record: Record, soaked: Soaked) -> dict[str, str]:
    return {
        "EDGEOPT_RELEASE": record.release,
        "EDGEOPT_RELEASE_DIR": str(site.data.release(record.release)),
        "EDGEOPT_NAME": record.name,
        "EDGEOPT_PREVIOUS": record.old or "",
        "EDGEOPT_SOAK_SECONDS": f"{soaked.elapsed_s:.3f}",
        "EDGEOPT_SOAK_REQUESTS": str(soaked.requests),
        "EDGEOPT_SOAK_ERRORS": str(soaked.errors),
    }


async def _last_line(stream: asyncio.StreamReader) -> str:
    """Reads to the end, whatever comes: a hook never waits for its output to be read."""
    tail = b""
    while piece := await stream.read(_TAIL_BYTES):
        tail = (tail + piece)[-_TAIL_BYTES:]
    lines = tail.decode(errors="replace").strip().splitlines()
    return "".join(c if c.isprintable() else "?" for c in lines[-1].strip())[:_MAX_REASON] if lines else ""
