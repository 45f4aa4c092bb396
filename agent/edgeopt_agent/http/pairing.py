"""`POST /api/v1/pair`: the one route without a token, for who knows the code that the device shows."""

import asyncio
from collections.abc import Callable

import msgspec
from starlette.requests import ClientDisconnect, Request

from edgeopt.decoding import thread_safe
from edgeopt.fleet.pairing import PATH, PairProof
from edgeopt_agent import pairing
from edgeopt_agent.deployments.refused import RefusedError
from edgeopt_agent.deployments.site import Site
from edgeopt_agent.http.plain import Scope
from edgeopt_agent.trust import is_loopback

_MAX_BYTES = 1024
Fingerprint = Callable[[], str]


def is_pairing(scope: Scope) -> bool:
    return bool(scope["type"] == "http" and scope["path"] == PATH and scope["method"] == "POST")


class PairingRoute:
    def __init__(self, site: Site, fingerprint: Fingerprint) -> None:
        self._site, self._fingerprint = site, fingerprint
        self._one_at_a_time = asyncio.Lock()

    async def __call__(self, request: Request) -> tuple[int, dict[str, object]]:
        fingerprint = self._fingerprint()
        if not fingerprint and not is_loopback(self._site.settings.host):
            raise RefusedError(
                *(409, "no-tls", "Pairing needs TLS, because others could read the token."),
                "Run the agent without --tls off, or add a token on the device: edgeopt-agent token add NAME",
            )
        body = b""
        try:
            async with asyncio.timeout(self._site.settings.body_timeout_s):
                async for piece in request.stream():
                    body += piece
                    if len(body) > _MAX_BYTES:
                        break
        except TimeoutError:
            raise RefusedError(
                408, "too-slow", "The pairing request did not arrive in time.", "Send it again."
            ) from None
        except ClientDisconnect:
            raise RefusedError(
                400, "not-received", "The connection ended within the pairing request.", "Send it again."
            ) from None
        try:
            sent = msgspec.json.decode(body[:_MAX_BYTES], type=thread_safe(PairProof))
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise RefusedError(
                400, "bad-proof", "The pairing request is invalid.", "Use edgeopt fleet pair."
            ) from None
        async with self._one_at_a_time:
            answer = await asyncio.to_thread(pairing.redeem, self._site.data.root, fingerprint, sent)
        return 200, msgspec.to_builtins(answer)
