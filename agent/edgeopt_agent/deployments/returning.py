"""Whether a rollback may go to a release, and what is said where none can be gone back to."""

from edgeopt.bundle.deployment import Deployment
from edgeopt.bundle.manifest import check_sizes
from edgeopt.errors import EdgeoptError
from edgeopt_agent.data_dir import DataDir
from edgeopt_agent.deployments.refused import RefusedError
from edgeopt_agent.releases import deployment_of
from edgeopt_agent.trust import check_signature

SEND_AGAIN = "Send its bundle again, which replaces the files."


def check_return(data: DataDir, release: str) -> Deployment:
    """Returns the deployment of a release to return to.

    Raises if it is refused: trust may have changed since, and files may be missing or have another size.
    """
    folder = data.release(release)
    deployment = deployment_of(folder)
    try:
        check_sizes(folder)
    except EdgeoptError as error:
        raise RefusedError(409, "damaged", error.message, SEND_AGAIN) from error
    try:
        check_signature(folder, data.trust)
    except EdgeoptError as error:
        raise RefusedError(
            403,
            "untrusted",
            f"The release {release} served before, and is not trusted any more. {error.message}",
            "Deploy a bundle that a trusted key signed.",
        ) from error
    return deployment


def nothing_to_return_to(others: set[str], option: str, lost: str = "") -> RefusedError:
    """Returns the refusal of a rollback; `lost` is the previous release if its folder is gone."""
    if lost:
        return RefusedError(
            *(409, "nothing-to-return-to"),
            f"No release to roll back to: the files of {lost}, which served before, are no longer on the device.",
            SEND_AGAIN,
        )
    if others:
        names = ", ".join(sorted(others))
        return RefusedError(
            *(409, "nothing-to-return-to"),
            f"No older release to roll back to. Others on the device: {names}.",
            f"Select it by its id: edgeopt-agent rollback --to {min(others)}{option}",
        )
    return RefusedError(
        *(409, "nothing-to-return-to"),
        "No release to roll back to: no other is on the device.",
        "Deploy the bundle that you want: edgeopt-agent deploy BUNDLE",
    )
