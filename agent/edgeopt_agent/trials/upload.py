"""The upload of a bundle that the agent has searched for: one PUT, to a place that `put_to` allows."""

import http.client
from collections.abc import Sequence
from pathlib import Path

from edgeopt.errors import printable
from edgeopt_agent.bundle_urls import BundleUrl, allowed, read_url, shown
from edgeopt_agent.deployments.download import PASSING, Link, TransferError, connected_to, network_of
from edgeopt_agent.deployments.refused import RefusedError, StepError

_TAKEN = frozenset({200, 201, 204})


def check_place(url: str, prefixes: Sequence[str]) -> BundleUrl:
    """Returns the parts of the address; raises RefusedError for one that the settings do not allow."""
    try:
        place = read_url(url)
    except ValueError as error:
        message = f"'{printable(shown(url)[:200])}' is not an address for bundles: {error}."
        raise RefusedError(
            400, "bad-url", message, "Pass a URL such as https://host/bundles/model.edgeopt"
        ) from None
    if not allowed(place, prefixes):
        nowhere = "" if prefixes else " (it allows no place at all)"
        raise RefusedError(
            403,
            "place-not-allowed",
            f"The agent does not upload to {shown(url)}: `put_to` does not allow it{nowhere}.",
            f'In agent.toml on the device: put_to = ["{shown(url).rpartition("/")[0]}/"]',
        )
    return place


def put(file: Path, url: str, prefixes: Sequence[str], timeout_s: float, link: Link) -> None:
    """Uploads the file; TransferError where another try may succeed, StepError where none can."""
    place = check_place(url, prefixes)
    with network_of(place):
        raw = connected_to(place, timeout_s, link)
    kind = http.client.HTTPSConnection if place.scheme == "https" else http.client.HTTPConnection
    connection = kind(place.host, place.port, timeout=timeout_s)
    connection.sock = raw
    headers = {
        "Content-Type": "application/zip",
        "Content-Length": str(file.stat().st_size),
        "Connection": "close",
        "User-Agent": "edgeopt-agent",
    }
    try:
        with network_of(place), file.open("rb") as content:
            connection.request("PUT", place.target, body=content, headers=headers)
            answer = connection.getresponse()
    finally:
        connection.close()
    if answer.status in PASSING or answer.status >= http.client.INTERNAL_SERVER_ERROR:
        raise TransferError(f"{shown(url)} answers {answer.status} {printable(answer.reason)} to PUT")
    if answer.status not in _TAKEN:
        raise StepError(
            f"{shown(url)} answers {answer.status} {printable(answer.reason)} to PUT. The web server must take "
            "uploads there.",
            fault=False,
        )
