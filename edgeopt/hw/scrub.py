"""What a recording must not hold: serial numbers, identifiers, addresses, host names, the user's own folder."""

import json
import re

from edgeopt.hw.user_folders import home_folder

_PRIVATE_FILE = re.compile(
    r"serial|uuid|machine-id|boot_id|hostname|asset_tag|(^|/)(cmdline|environ)$", re.IGNORECASE
)
_SERIAL_LINE = re.compile(r'(?m)^([^":\n]*serial[^":\n]*:).*$', re.IGNORECASE)
_KEYS = r'[^"\n]*(?:serial|uuid|udid|host_?name|machine_name|user_name)[^"\n]*'
_PRIVATE_KEY = re.compile(_KEYS, re.IGNORECASE)
_JSON_KEY = re.compile(rf'("{_KEYS}"\s*:\s*)"[^"\n]*"', re.IGNORECASE)
_ADDRESS = re.compile(r"\b(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}\b", re.IGNORECASE)
_UUID = re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.IGNORECASE)
_NO_ADDRESS, _NO_UUID = "00:00:00:00:00:00", "00000000-0000-0000-0000-000000000000"


def is_private(path: str) -> bool:
    """Whether the whole file is left out."""
    return _PRIVATE_FILE.search(path) is not None


def scrubbed(path: str, text: str) -> str:
    """The text without what tells one machine, or one person, from another."""
    if path.endswith("/mountinfo"):
        # Only where the control groups are matters; the rest names servers, users and their folders.
        text = "".join(line for line in text.splitlines(keepends=True) if " - cgroup" in line)
    if path.startswith("/proc/") and path.endswith("/status"):
        text = "".join(line for line in text.splitlines(keepends=True) if "_allowed" in line)
    text = _SERIAL_LINE.sub(r"\1", text)
    text = _JSON_KEY.sub(r'\1""', text)
    text = _UUID.sub(_NO_UUID, _ADDRESS.sub(_NO_ADDRESS, text))
    for home in _homes():
        text = text.replace(home, "/home/user")
    return text


def scrubbed_names(names: tuple[str, ...], host_name: object) -> tuple[str, ...]:
    """Without those that hold the host's name, as volume groups often do."""
    if not isinstance(host_name, str) or len(host_name) < 3:
        return names
    own = re.compile(rf"\b{re.escape(host_name.partition('.')[0])}\b", re.IGNORECASE)
    return tuple(name for name in names if not own.search(name))


def scrubbed_data(value: object) -> object:
    if isinstance(value, str):
        return scrubbed("", value)
    if isinstance(value, list):
        return [scrubbed_data(entry) for entry in value]
    if isinstance(value, dict):
        return {key: "" if _PRIVATE_KEY.fullmatch(key) else scrubbed_data(entry) for key, entry in value.items()}
    return value


def _homes() -> tuple[str, ...]:
    if (folder := home_folder()) is None:
        return ()
    home = str(folder)
    # JSON contains Windows' folders with doubled backslashes.
    return tuple(dict.fromkeys((home, json.dumps(home)[1:-1]))) if len(home) > len("/root") else ()
