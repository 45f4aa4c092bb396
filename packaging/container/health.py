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
    context = ssl._create_unverified_context()  # noqa: S323
    for scheme in ("http", "https"):
        try:
            with urllib.request.urlopen(  # noqa: S310
                f"{scheme}://localhost:{port}/v2/health/live", timeout=2, context=context
            ):
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
