import pytest


@pytest.mark.parametrize("flag", ["--html", "-o"])
def test_pages_are_asked_for_in_the_same_way(edgeopt_here, conv_model, conv_bundle, tmp_path, flag):
    """As `edgeopt compare --html`."""
    for arguments in (["graph", conv_model], ["report", conv_bundle, "--no-nodes"]):
        code, _, err = edgeopt_here(*arguments, flag, "page.html")
        assert (code, (tmp_path / "page.html").read_text()[:15].lower()) == (0, "<!doctype html>"), err
        (tmp_path / "page.html").unlink()
