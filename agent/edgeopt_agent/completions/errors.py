"""Errors in the parameters of a request for text."""

import re

import msgspec

from edgeopt_agent.v2.errors import RequestError

_PLACE = re.compile(r" - at `\$\.?(.*)`$")
_MISSING = re.compile(r"Object missing required field `(\w+)`")
_EXPECTED = re.compile(r"Expected `([\w |]+)`(?: of length)?(?: (<=|>=|<|>) ([\d.]+))?(?:, got `(\w+)`)?")
_CHOICE = re.compile(r"Invalid enum value (.*)", re.DOTALL)
_TYPES = {
    "array": "an array", "bool": "true or false", "float": "a number", "int": "an integer", "null": "null",
    "object": "an object", "str": "a string",
}  # fmt: skip
_GOT = {**_TYPES, "bool": "a boolean"}
_BORDERS = {"<=": "at most", ">=": "at least", "<": "less than", ">": "greater than"}


class ParameterError(RequestError):
    """A request whose parameter `param` cannot be used."""

    def __init__(self, sentence: str, param: str | None, code: str) -> None:
        super().__init__(400, sentence)
        self.param, self.code = param, code


def value_error(error: msgspec.ValidationError) -> ParameterError:
    """Returns the error of a parameter with a wrong type or value, or without one, in words of this API.

    msgspec has type, limit and place in its message only.
    """
    text = str(error)
    place = _PLACE.search(text)
    param, text = (place[1], text[: place.start()]) if place else ("", text)
    if missing := _MISSING.fullmatch(text):
        param = f"{param}.{missing[1]}" if param else missing[1]
        return ParameterError(f"The parameter '{param}' is missing.", param, "missing_required_parameter")
    if choice := _CHOICE.fullmatch(text):
        return ParameterError(f"The parameter '{param}' cannot be {choice[1]}.", param, "invalid_value")
    if not param or not (expected := _EXPECTED.fullmatch(text)):
        return ParameterError(f"{error}.", param or None, "invalid_value")
    types, sign, border, got = expected.groups()
    if sign is None:
        allowed = " or ".join(_TYPES.get(each, each) for each in types.split(" | ") if each != "null")
        found = f", not {_GOT.get(got, got)}" if got else ""
        return ParameterError(f"The parameter '{param}' must be {allowed}{found}.", param, "invalid_type")
    limit = f"{_BORDERS[sign]} {float(border):g}"
    has = f"have {limit} {'entry' if border == '1' else 'entries'}" if types == "array" else f"be {limit}"
    return ParameterError(f"The parameter '{param}' must {has}.", param, "invalid_value")
