from pathlib import Path

import pytest

from edgeopt.commands.report.request import Request, format_of
from edgeopt.errors import UsageError

BUNDLE = Path("model.edgeopt")


@pytest.mark.parametrize(
    ("out", "to", "form"),
    [("a.html", "", "html"), ("a.MD", "", "markdown"), ("a.json", "", "json"), ("a.pdf", "json", "json")],
)
def test_the_ending_says_what_to_write_unless_it_is_said(out, to, form):
    assert format_of(Request(BUNDLE, Path(out), to)) == form


@pytest.mark.parametrize(
    ("out", "to", "words"),
    [("a.pdf", "", "names no report format"), ("a.html", "pdf", "no report format 'pdf'")],
)
def test_what_is_no_form_is_refused(out, to, words):
    with pytest.raises(UsageError, match=words):
        format_of(Request(BUNDLE, Path(out), to))
