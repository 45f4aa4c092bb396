"""A request that gets no result."""


class RequestError(Exception):
    """The HTTP status, and a sentence that says what is wrong with the request or the server."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
