"""How much may be kept."""

import os
import re
import shutil
from pathlib import Path

from edgeopt.errors import UsageError

VARIABLE = "EDGEOPT_CACHE_LIMIT"
USUAL_BYTES = 2_000_000_000
# Of what is free: a small device keeps its disk for what it is there for.
_SHARE = 0.1
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


def limit_bytes(folder: Path) -> int:
    """What `$EDGEOPT_CACHE_LIMIT` says (0: nothing is kept), or 2 GB, but a tenth of what is free at most."""
    told = os.environ.get(VARIABLE, "").strip()
    if told:
        return _bytes(told)
    place = next((one for one in (folder, *folder.parents) if one.exists()), folder)
    return min(USUAL_BYTES, int(_SHARE * shutil.disk_usage(place).free))


def _bytes(told: str) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmg]i?)?b?", told.lower())
    if found is None:
        raise UsageError(
            f"{VARIABLE} is '{told}', which is not a size.",
            "Give a size such as 500MB, or 0 to turn the cache off.",
        )
    return int(float(found[1]) * _UNITS[found[2] or ""])
