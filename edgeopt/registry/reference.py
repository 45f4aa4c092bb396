"""Addresses of bundles in a registry: `oci://HOST/REPOSITORY:TAG` or `oci://HOST/REPOSITORY@sha256:…`."""

import ipaddress
import re

import msgspec

from edgeopt.errors import UsageError, printable

SCHEME = "oci://"
DEFAULT_TAG = "latest"
_NAME = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
# The grammar of https://github.com/opencontainers/distribution-spec/blob/main/spec.md#pulling-manifests
_REFERENCE = re.compile(
    rf"oci://(?P<host>(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{{1,5}})?)/(?P<repository>{_NAME}(?:/{_NAME})*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_LONGEST = 1024


class RegistryReference(msgspec.Struct, frozen=True):
    host: str
    """Name and port of the registry."""
    repository: str
    tag: str = ""
    digest: str = ""
    """Digest of the manifest: `sha256:` and 64 digits."""

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{SCHEME}{self.host}/{self.repository}{tag}" + (f"@{self.digest}" if self.digest else "")

    @property
    def version(self) -> str:
        """Name of the manifest in the registry: the digest, otherwise the tag."""
        return self.digest or self.tag or DEFAULT_TAG

    @property
    def is_loopback(self) -> bool:
        """Whether the registry is on this device, where HTTP needs no TLS."""
        name = self.host if self.host.endswith("]") else self.host.rpartition(":")[0] or self.host
        try:
            return ipaddress.ip_address(name.strip("[]")).is_loopback
        except ValueError:
            return name == "localhost"


def is_reference(text: str) -> bool:
    return text.startswith(SCHEME)


def read_reference(text: str) -> RegistryReference:
    """Returns the parts of an address; raises UsageError for one that no registry can have."""
    found = _REFERENCE.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None:
        raise UsageError(
            f"'{printable(text)[:200]}' is not the address of a bundle in a registry.",
            "Write oci://HOST/REPOSITORY:TAG or oci://HOST/REPOSITORY@sha256:…; the repository is in lower case.",
        )
    return RegistryReference(**{name: value or "" for name, value in found.groupdict().items()})
