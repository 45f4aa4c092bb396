"""Which of many like machines this is; asked only where a person wants it in the record."""

import re

from edgeopt.hw.device import Identity
from edgeopt.hw.host import Host

_FILES = ("/etc/machine-id", "/var/lib/dbus/machine-id")
_APPLE = ("ioreg", "-rd1", "-c", "IOPlatformExpertDevice")
_WINDOWS = ("reg", "query", r"HKLM\SOFTWARE\Microsoft\Cryptography", "/v", "MachineGuid")
_ID = re.compile(r"[0-9a-fA-F]{32}|[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")


def identity(host: Host) -> tuple[Identity, dict[str, str], dict[str, str]]:
    """It, the sources of what is known, and the reasons for what is not."""
    name = host.call("platform", "node")
    known_name = name if isinstance(name, str) and name else None
    number, source = _machine_id(host)
    facts = {"host_name": (known_name, "platform.node()"), "machine_id": (number, source)}
    return (
        Identity(known_name, number),
        {f"identity.{fact}": said_by for fact, (value, said_by) in facts.items() if value},
        {
            f"identity.{fact}": "the operating system does not report it"
            for fact, (value, _) in facts.items()
            if not value
        },
    )


def _machine_id(host: Host) -> tuple[str | None, str]:
    answers = [(host.read(path), path) for path in _FILES]
    system = host.call("platform", "system")
    if system in {"Darwin", "Windows"}:
        command = _APPLE if system == "Darwin" else _WINDOWS
        answers.append((host.run(command), " ".join(command)))
    for text, source in answers:
        if found := _ID.search(text or ""):
            return found[0], source
    return None, ""
