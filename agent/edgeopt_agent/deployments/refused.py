"""Why something is not done: a request that is refused at once, or a step of a deployment that fails."""

from edgeopt.errors import EdgeoptError


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
