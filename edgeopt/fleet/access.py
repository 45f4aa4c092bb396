"""What it takes to use an agent, from where the user has put it."""

import os

from edgeopt.fleet.address import Address, parse
from edgeopt.fleet.tls import normal_fingerprint


def address_of(url: str, token: str = "", fingerprint: str = "") -> Address:
    """Of an agent, with the access token and fingerprint that were given or that the environment has."""
    token = token or os.environ.get("EDGEOPT_TOKEN", "").strip()
    plain = url.lower().startswith("http://")
    fingerprint = fingerprint or ("" if plain else os.environ.get("EDGEOPT_FINGERPRINT", "").strip())
    return parse(url, token, normal_fingerprint(fingerprint) if fingerprint else "")
