"""Errors of a request that is refused at once, and of a step of a deployment that fails."""

from edgeopt.errors import DiskFullError, EdgeoptError, is_disk_full


class RefusedError(EdgeoptError):
    """A request that the agent does not take; `status` is the HTTP answer that fits."""

    def __init__(self, status: int, code: str, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.status = status
        self.code = code


class StepError(EdgeoptError):
    """A step that fails; `fault` says that the bundle itself is to blame."""

    def __init__(self, message: str, fault: bool = True) -> None:
        super().__init__(message)
        self.fault = fault


def disk_refusal(sentence: str, failure: OSError) -> RefusedError:
    """Returns the refusal of a bundle that the device's disk did not take."""
    if is_disk_full(failure):
        return RefusedError(507, DiskFullError.code, sentence, "Free some space on the device.")
    return RefusedError(500, "disk-failed", sentence, "Check the device's disk; its log may say more.")
