"""What it takes to use an agent, from where the user has put it."""

import os
from dataclasses import replace

from edgeopt.fleet import pairings
from edgeopt.fleet.address import Address, parse
from edgeopt.fleet.tls import normal_fingerprint


def address_of(url: str, token: str = "", fingerprint: str = "") -> Address:
    """Of an agent, with the token and fingerprint that were given, that the environment has, or from a pairing."""
    token = token or os.environ.get("EDGEOPT_TOKEN", "").strip()
    plain = url.lower().startswith("http://")
    fingerprint = fingerprint or ("" if plain else os.environ.get("EDGEOPT_FINGERPRINT", "").strip())
    given = parse(url, token, normal_fingerprint(fingerprint) if fingerprint else "")
    paired = pairings.all_of().get(given.url, pairings.Pairing())
    return replace(given, token=given.token or paired.token, fingerprint=given.fingerprint or paired.fingerprint)
