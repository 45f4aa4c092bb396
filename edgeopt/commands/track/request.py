"""Request of `edgeopt track`."""

from pathlib import Path
from typing import Annotated

import msgspec

from edgeopt.options import argument, option


class TrackRequest(msgspec.Struct, frozen=True):
    records: Annotated[
        tuple[Path, ...],
        argument(
            "Lines of --json in a file (-: stdin), bundles, or folders of results of a lab.", metavar="RECORDS..."
        ),
    ]
    to: Annotated[
        str,
        option(
            "Tracking URI of MLflow: http://HOST:PORT, or a folder with MLFLOW_ALLOW_FILE_STORE=true.",
            metavar="URI",
        ),
    ]
    experiment: Annotated[
        str, option("Experiment that the runs are logged to; it is created if it is missing.", metavar="NAME")
    ] = "edgeopt"
