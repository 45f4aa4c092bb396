"""`edgeopt-agent fingerprint` and `renew-certificate`: the certificate that identifies this agent."""

from typing import TYPE_CHECKING

from edgeopt.cli.console import JsonFlag, execute
from edgeopt.views.blocks import Block, WordsBlock
from edgeopt_agent.cli.options import DataDirOption, in_data_folder

if TYPE_CHECKING:
    from edgeopt_agent.certificate import Certificate


def fingerprint(data_dir: DataDirOption = None, json: JsonFlag = False) -> None:
    """Print the SHA-256 fingerprint of the agent's certificate.

    \b
    Compare it with the fingerprint that a client shows, or pass it to the client with
    --fingerprint.

    \b
    Examples:
      edgeopt-agent fingerprint
      edgeopt-agent fingerprint --data-dir /var/lib/edgeopt --json
    """
    from edgeopt_agent import certificate

    execute(
        "fingerprint",
        lambda _emit: in_data_folder(data_dir, certificate.present),
        _show,
        json,
    )


def renew_certificate(data_dir: DataDirOption = None, json: JsonFlag = False) -> None:
    """Create a new key and certificate for the agent, and print the new fingerprint.

    \b
    A running agent uses them for new connections and keeps open ones. Clients that stored the old
    fingerprint need the new one.

    \b
    Examples:
      edgeopt-agent renew-certificate
    """
    from edgeopt_agent import certificate

    execute(
        "renew-certificate",
        lambda _emit: in_data_folder(data_dir, certificate.renew),
        _show,
        json,
    )


def _show(result: "Certificate") -> list[Block]:
    return [WordsBlock(result.fingerprint)]
