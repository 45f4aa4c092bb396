"""From a file to a session, with a program for each bucket where some are asked for."""

from functools import partial
from pathlib import Path

from edgeopt.backends.base import refuse_fallback
from edgeopt.backends.openvino.model import core_with, read_model
from edgeopt.backends.openvino.options import Aim, SharedOptions
from edgeopt.backends.openvino.placement import places
from edgeopt.backends.openvino.session import OpenVinoSession


def load_session(
    path: Path, aim: Aim, options: SharedOptions, *, strict: bool, custom_ops: tuple[str, ...]
) -> OpenVinoSession:
    runtime = core_with(custom_ops)
    read = partial(read_model, path, runtime, {} if options.mmap else {"ENABLE_MMAP": False})
    model = read()
    known = None if aim.device == "CPU" else places(runtime, model, aim)
    if strict:
        aim = aim._replace(config={**aim.config, **aim.strict_config})
    session: OpenVinoSession
    if options.buckets:
        # Cutting and filling needs numpy; to ask what backends there are does not.
        from edgeopt.backends.openvino.bucketed import bucketed

        session = bucketed(runtime, read, model, aim, options, known)
    else:
        session = OpenVinoSession(runtime, read, model, aim, dict(options.shapes), known)
    if strict:
        refuse_fallback(session.placement, path)
    return session
