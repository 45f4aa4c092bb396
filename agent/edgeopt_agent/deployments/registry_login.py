"""Login of the agent at a registry: Basic, or a token as the distribution specification describes it.

A user name and a password are sent to the host of their entry in `registry_auth` only, and are read for each
login, so that a changed file needs no restart. Errors, which journal and log have, contain nothing of them.
"""

import base64
import os
import re
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

import msgspec

from edgeopt.decoding import thread_safe
from edgeopt.fleet.address import is_this_device
from edgeopt_agent.bundle_urls import BundleUrl, read_url
from edgeopt_agent.deployments.refused import StepError

MAX_TOKEN_BYTES = 1 << 20
"""Maximum size of an answer with a token."""
_LARGEST_FILE_BYTES = 1 << 20
_PARAMETER = re.compile(r'([a-z]+)="([^"]*)"', re.IGNORECASE)
_TOKEN = re.compile(r"[!-~]{1,32768}")
_OTHERS = 0o007
"""Permissions of users who are neither the file's owner nor in its group."""


class _Login(msgspec.Struct, frozen=True):
    auth: str = ""
    """User name and password, joined by a colon and encoded as base64."""


class _Logins(msgspec.Struct, frozen=True):
    """Logins by host, as in Docker's `config.json`."""

    auths: dict[str, _Login]


class _Answer(msgspec.Struct, frozen=True):
    token: str = ""
    access_token: str = ""


class RegistryLogin:
    """Authorization at one registry, obtained when it first refuses a request without one."""

    def __init__(self, registry: BundleUrl, file: Path | None) -> None:
        self._registry = registry
        self._file = file
        self._authorization = ""
        self._sent = False
        """Whether a user name and a password were used for the latest login."""

    def headers(self, place: BundleUrl) -> dict[str, str]:
        """Returns the header for a request; empty for any other host than the registry."""
        return {"Authorization": self._authorization} if self._authorization and self.is_at(place) else {}

    def is_at(self, place: BundleUrl) -> bool:
        return _origin(place) == _origin(self._registry)

    def token_request(self, challenges: Sequence[str]) -> "tuple[BundleUrl, dict[str, str]] | None":
        """Prepares the login that a registry asks for; returns the request for a token, None for Basic.

        Raises StepError if there is no login for it.
        """
        self._authorization = ""
        kinds = {each.partition(" ")[0].lower(): each for each in challenges}
        if "bearer" in kinds:
            return self._token_request(dict(_PARAMETER.findall(kinds["bearer"])))
        login = self._login_at(self._registry)
        self._sent = bool("basic" in kinds and login)
        if not self._sent:
            raise self.refused()
        self._authorization = f"Basic {login}"
        return None

    def _token_request(self, challenge: Mapping[str, str]) -> tuple[BundleUrl, dict[str, str]]:
        query = urlencode({each: challenge[each] for each in ("service", "scope") if challenge.get(each)})
        realm = challenge.get("realm", "")
        try:
            place = read_url(f"{realm}{'&' if '?' in realm else '?'}{query}")
        except ValueError as error:
            raise StepError(
                f"'{self._registry.host}' asks for a token of an address that cannot be used: {error}.",
                fault=False,
            ) from None
        login = self._login_at(place)
        secure = place.scheme == "https" or is_this_device(place.host)
        if not secure or not (login or self.is_at(place)):
            why = "which has no TLS" if not secure else f"for which {self._named_file()} has no entry"
            raise StepError(
                f"'{self._registry.host}' asks for a token of '{urlsplit(realm).netloc}', {why}.", fault=False
            )
        self._sent = bool(login)
        return place, {"Authorization": f"Basic {login}"} if login else {}

    def take_token(self, status: int, content: bytes) -> None:
        """Reads the answer to the request for a token; raises StepError if there is none in it."""
        if status in {401, 403}:
            raise self.refused()
        found = _Answer()
        if status == 200:
            with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                found = msgspec.json.decode(content, type=thread_safe(_Answer))
        token = found.token or found.access_token
        if not _TOKEN.fullmatch(token):
            raise StepError(f"'{self._registry.host}' gives no token: its server answers {status}.", fault=False)
        self._authorization = f"Bearer {token}"

    def refused(self) -> StepError:
        """Returns the error for a registry that refuses access."""
        named = self._named_file()
        why = f"the login in {named}" if self._sent else f"access, and {named} has no login for it"
        return StepError(f"'{self._registry.host}' refuses {why}.", fault=False)

    def _named_file(self) -> str:
        return f"'{self._file}' (`registry_auth`)" if self._file else "`registry_auth` in agent.toml"

    def _login_at(self, place: BundleUrl) -> str:
        """Returns the entry of a host in the file; empty if there is none."""
        logins = _read(self._file).auths if self._file else {}
        return next((each.auth for host, each in logins.items() if each.auth and _is_host(host, place)), "")


class RegistryRequest(NamedTuple):
    """Parts of a request that only registries need."""

    login: RegistryLogin
    accept: str = ""
    """Accepted media types; empty: all."""


def _origin(place: BundleUrl) -> tuple[str, str, int]:
    return place.scheme, place.host, place.port


def _is_host(entry: str, place: BundleUrl) -> bool:
    """Whether an entry such as `registry.example.com:5000` or `https://index.docker.io/v1/` names a host."""
    host = urlsplit(entry if "://" in entry else f"//{entry}").netloc
    try:
        found = read_url(f"{place.scheme}://{host}")
    except ValueError:
        return False
    return _origin(found) == _origin(place)


def _read(file: Path) -> _Logins:
    try:
        with file.open("rb") as opened:
            mode = stat.S_IMODE(os.fstat(opened.fileno()).st_mode)
            content = opened.read(_LARGEST_FILE_BYTES)
    except OSError as error:
        raise StepError(f"'{file}' (`registry_auth`) cannot be read: {error.strerror}.", fault=False) from None
    if mode & _OTHERS:
        raise StepError(
            f"Other users may open '{file}' (`registry_auth`), so its logins are not used. On the device: "
            f"chmod o= '{file}'",
            fault=False,
        )
    try:
        found = msgspec.json.decode(content, type=thread_safe(_Logins))
        for each in found.auths.values():
            base64.b64decode(each.auth, validate=True)
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise StepError(
            f"'{file}' (`registry_auth`) is not a file of logins: it must have the form of Docker's config.json, "
            '{"auths": {"HOST": {"auth": "…"}}}.',
            fault=False,
        ) from None
    return found
