import pytest

from edgeopt.errors import UsageError
from edgeopt.fleet.address import in_commands, parse


@pytest.mark.parametrize(
    ("url", "full"),
    [
        ("http://device:9000", "http://device:9000"),
        ("http://device:9000/", "http://device:9000"),
        ("device:9000", "https://device:9000"),
        ("device", "https://device:8080"),
        ("10.0.0.7", "https://10.0.0.7:8080"),
        ("http://[::1]:9000", "http://[::1]:9000"),
        ("localhost:9000", "http://localhost:9000"),
        ("https://127.0.0.1", "https://127.0.0.1:8080"),
        ("[::1]", "http://[::1]:8080"),
        ("HTTP://Device", "http://device:8080"),
    ],
)
def test_every_usual_form_is_understood(url, full):
    address = parse(url)
    assert address.url == full


@pytest.mark.parametrize(
    "url",
    [
        *("", "http://", "http://:8080", "device:port", "device:70000", "device:-1", "a b"),
        *("http://device/api", "u:p@device", "device?x", "[::1", "devi\nce"),
    ],
)
def test_what_is_no_address_is_refused_with_an_example(url):
    with pytest.raises(UsageError, match="not the address of an agent") as caught:
        parse(url)
    assert "http://127.0.0.1:8080" in caught.value.hint


@pytest.mark.parametrize("url", ["ftp://device", "unix:///run/x"])
def test_other_protocols_are_refused_with_an_example(url):
    with pytest.raises(UsageError, match="neither an http nor an https") as caught:
        parse(url)
    assert "http://127.0.0.1:8080" in caught.value.hint


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("Deploy: edgeopt-agent deploy BUNDLE", "Deploy: edgeopt fleet deploy BUNDLE --url URL"),
        ("edgeopt-agent status --data-dir '/a b'; it", "edgeopt fleet status --url URL; it"),
        ("`edgeopt fleet releases` lists it", "`edgeopt fleet releases --url URL` lists it"),
        ("(edgeopt fleet status; it runs)", "(edgeopt fleet status --url URL; it runs)"),
        ("edgeopt-agent deploy does so.", "edgeopt-agent deploy does so."),
        ("edgeopt fleet status --url x", "edgeopt fleet status --url x"),
    ],
)
def test_commands_to_copy_name_the_agent_that_was_asked(said, shown):
    assert in_commands(said, "[::1]:9000") == shown.replace("URL", "'http://[::1]:9000'")
    assert " --url http" not in in_commands(said, "127.0.0.1:8080")


def test_a_token_goes_with_the_address_and_is_not_shown():
    address = parse("device", "0123")
    assert address.headers == {"Authorization": "Bearer 0123"}
    assert "0123" not in repr(address)
    assert parse("device").headers == {}


@pytest.mark.parametrize("token", ["two words", "one\r\nX-Other: two", "t\u00f6ken"])
def test_what_no_header_can_hold_is_no_token(token):
    with pytest.raises(UsageError, match="access token") as caught:
        parse("device", token)
    assert token not in caught.value.message + caught.value.hint
