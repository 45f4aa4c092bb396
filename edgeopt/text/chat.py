"""Chat templates: Jinja with the functions that templates of Hugging Face use."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

from edgeopt.errors import DataError, MissingExtraError, ModelError, error_text

if TYPE_CHECKING:
    from jinja2 import Template


class _Refused(Exception):  # noqa: N818 - the template's own message
    """A conversation that the template refuses."""


def render(template: str, messages: Sequence[Mapping[str, str]], tokens: Mapping[str, str]) -> str:
    """Returns a conversation as text that ends where the next answer begins; `tokens` are special ones by name."""
    for each in messages:
        if not (isinstance(each, Mapping) and all(isinstance(each.get(key), str) for key in ("role", "content"))):
            raise DataError(
                "A message has a 'role' and a 'content', both texts.",
                'Give it as {"role": "user", "content": "Hello"}.',
            )
    compiled = _compiled(template)
    try:
        # Templates ask whether `tools` and `documents` are None.
        return compiled.render(messages=messages, tools=None, documents=None, add_generation_prompt=True, **tokens)
    except _Refused as error:
        raise DataError(f"The chat template refuses the messages: {error}", "Change the messages.") from None
    except Exception as error:  # noqa: BLE001 - a template is a program, which raises anything
        raise ModelError(
            f"The chat template failed: {error_text(error)}.", "Give the prompt as text, or repair the template."
        ) from None


@lru_cache(maxsize=16)
def _compiled(template: str) -> "Template":
    try:
        from jinja2 import TemplateSyntaxError, nodes
        from jinja2.ext import Extension
        from jinja2.parser import Parser
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError:
        raise MissingExtraError("text", "Applying a chat template") from None

    class Generation(Extension):
        """The tag around answers, which only training needs: its body is rendered as it is."""

        tags = {"generation"}  # noqa: RUF012 - as the class declares it

        def parse(self, parser: Parser) -> nodes.Node:
            lineno = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.Scope(body, lineno=lineno)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[Generation, "jinja2.ext.loopcontrols"],
        autoescape=False,
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = _now
    try:
        return environment.from_string(template)
    except TemplateSyntaxError as error:
        raise ModelError(
            f"The chat template cannot be read: {error_text(error)}, in line {error.lineno}.",
            "Give the prompt as text, or repair the template.",
        ) from None


def _refuse(message: str) -> NoReturn:
    raise _Refused(message)


def _now(form: str) -> str:
    return datetime.now().astimezone().strftime(form)


def _to_json(
    value: Any,  # noqa: ANN401 - a template's value
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # The filter of Jinja escapes for HTML.
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
