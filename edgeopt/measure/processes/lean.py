"""OpenVINO without what only `openvino.convert_model` needs, which is half of the time that importing it takes."""

import sys


def leave_out_the_converter() -> None:
    """For processes of edgeopt's own, before they import it: a user's process may want to convert models too."""
    # None makes an import fail as if the module were missing; OpenVINO works without it.
    sys.modules.setdefault("openvino.tools.ovc", None)  # type: ignore[arg-type]
