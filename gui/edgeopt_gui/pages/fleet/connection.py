"""The connection to a fleet's broker, and the part that the settings store: everything except the password."""

import os
from dataclasses import dataclass, field

import msgspec

from edgeopt.decoding import thread_safe
from edgeopt.fleet.broker import Broker
from edgeopt.fleet.mqtt_client import broker_of, fleet_topics
from edgeopt.fleet.mqtt_topics import FLEET, PREFIX
from edgeopt.fleet.rollout_request import BrokerRequest
from edgeopt_gui.settings import Settings

_SETTING = "fleet.connection"
_PASSWORD = "EDGEOPT_BROKER_PASSWORD"  # noqa: S105 - the name of a variable
_FILES = ("password_file", "ca_file", "client_cert", "client_key")


@dataclass(frozen=True, slots=True)
class Connection:
    broker: str = ""
    fleet: str = FLEET
    prefix: str = PREFIX
    username: str = ""
    password: str = field(default="", repr=False)
    """Password that is never stored; jobs get it in their environment."""
    password_file: str = ""
    ca_file: str = ""
    client_cert: str = ""
    client_key: str = ""
    allow_plain: bool = False

    @property
    def arguments(self) -> tuple[str, ...]:
        """The options of the command line."""
        found = ["--broker", self.broker]
        if self.fleet != FLEET:
            found += ["--fleet", self.fleet]
        if self.prefix != PREFIX:
            found += ["--prefix", self.prefix]
        for name in ("username", *_FILES):
            if value := getattr(self, name):
                found += [f"--{name.replace('_', '-')}", value]
        return (*found, "--allow-plain") if self.allow_plain else tuple(found)

    @property
    def secrets(self) -> tuple[tuple[str, str], ...]:
        return ((_PASSWORD, self.password),) if self.password else ()

    def checked(self) -> Broker:
        """Returns the broker; raises UsageError if the address or the name of the fleet is invalid."""
        request = BrokerRequest(
            broker=self.broker, fleet=self.fleet, prefix=self.prefix, allow_plain=self.allow_plain
        )
        fleet_topics(request)
        return broker_of(request)


def known_connection(settings: Settings) -> Connection:
    """Returns the last connection, or else the one that the app's environment names."""
    try:
        return msgspec.json.decode(settings.text(_SETTING), type=thread_safe(Connection))
    except msgspec.DecodeError:
        username = os.environ.get("EDGEOPT_BROKER_USERNAME", "")
        return Connection(os.environ.get("EDGEOPT_BROKER", "").strip(), username=username)


def keep_connection(settings: Settings, connection: Connection) -> None:
    """Stores the connection in the settings, without its password."""
    kept = {name: value for name, value in msgspec.to_builtins(connection).items() if name != "password"}
    settings.keep(_SETTING, msgspec.json.encode(kept).decode())
