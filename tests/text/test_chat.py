import datetime as dt
import sys

import pytest

from edgeopt.errors import DataError, MissingExtraError, ModelError
from edgeopt.text import chat

pytest.importorskip("jinja2")
HELLO = [{"role": "user", "content": "Hello"}]


def test_functions_of_hugging_face_templates_work():
    template = (
        "{% if tools is not none or documents is not none %}tools{% endif %}"
        "{{ {'a': '<ü>', 'b': [1]} | tojson }} {{ [1] | tojson(indent=2) }} {{ strftime_now('%Y') }}"
        "{% for n in [1, 2, 3] %}{% if n == 2 %}{% break %}{% endif %} {{ n }}{% endfor %}"
    )
    year = dt.datetime.now().astimezone().year
    assert chat.render(template, HELLO, {}) == f'{{"a": "<ü>", "b": [1]}} [\n  1\n] {year} 1'


def test_a_refusal_of_the_template_is_its_own_sentence():
    with pytest.raises(DataError, match="refuses the messages: Roles must alternate"):
        chat.render("{{ raise_exception('Roles must alternate') }}", HELLO, {})


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{% if %}", "cannot be read: .*line 1"),
        ("{{ messages[0].content + 1 }}", "template failed"),
        ("{{ messages.append(1) }}", "template failed"),
        ("{{ messages.__class__.__mro__ }}", "template failed"),
    ],
)
def test_a_template_that_fails_or_leaves_its_sandbox_is_named(template, says):
    with pytest.raises(ModelError, match=says):
        chat.render(template, HELLO, {})


@pytest.mark.parametrize("message", [{"role": "user"}, {"role": "user", "content": None}, "Hello"])
def test_a_message_without_role_or_content_is_refused(message):
    with pytest.raises(DataError, match="'role' and a 'content'"):
        chat.render("", [message], {})


def test_a_missing_library_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingExtraError, match="Applying a chat template needs the 'text' extra"):
        chat.render("{# not compiled before #}", HELLO, {})
