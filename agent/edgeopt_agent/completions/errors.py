"""Errors in the parameters of a request for text."""

from edgeopt_agent.v2.errors import RequestError


class ParameterError(RequestError):
    """A request whose parameter `param` cannot be used."""

    def __init__(self, sentence: str, param: str | None, code: str) -> None:
        super().__init__(400, sentence)
        self.param, self.code = param, code
