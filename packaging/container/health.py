"""Exit code 0 where the agent of this container answers; EDGEOPT_HEALTH_PORT names another port than 8080."""

import os
import ssl
import sys
import urllib.error
import urllib.request


def main() -> int:
    """Tries HTTP, then HTTPS, because the agent's address decides which of them it speaks."""
    port = int(os.environ.get("EDGEOPT_HEALTH_PORT", "8080"))
    # The certificate is the agent's own, and the request stays in the container.
    handler = urllib.request.HTTPSHandler(context=ssl._create_unverified_context())  # noqa: S323
    opener = urllib.request.build_opener(handler, urllib.request.ProxyHandler({}))
    for scheme in ("http", "https"):
        try:
            # An image need not have the /etc/hosts that "localhost" is found in.
            with opener.open(f"{scheme}://127.0.0.1:{port}/v2/health/live", timeout=2):
                return 0
        except urllib.error.HTTPError as error:
            if error.code == 401:  # it lives, and wants a token
                return 0
            sys.stderr.write(f"{scheme}: {error}\n")
        except OSError as error:
            sys.stderr.write(f"{scheme}: {error}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
