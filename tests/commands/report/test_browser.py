"""The page in a real browser: it complains of nothing, asks for nothing, and fits."""

import pytest

from edgeopt.commands.report.report import report
from edgeopt.commands.report.request import ReportRequest
from tests.commands.report import browser

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    if browser.found() is None:
        pytest.skip(f"no browser is installed here (looked for {', '.join(browser.NAMES)})")
    with browser.chromium(tmp_path_factory.mktemp("browser")) as page:
        yield page


def test_it_opens_without_complaint_and_fits_in_both_themes(chromium, raced_bundle, tmp_path):
    out = tmp_path / "report.html"
    report(ReportRequest(raced_bundle, out, nodes=True))
    colours = []
    for width, theme in ((1200, "light"), (1200, "dark"), (390, "light"), (390, "dark")):
        chromium.open(out, width, theme)
        assert chromium.value("document.documentElement.scrollWidth") <= width
        shown = chromium.value("[...document.querySelectorAll('svg')].filter(s => s.clientWidth).length")
        assert shown == chromium.value("document.querySelectorAll('svg.desk').length")
        colours.append(chromium.value("getComputedStyle(document.body).backgroundColor"))
    assert colours == ["rgb(255, 255, 255)", "rgb(20, 24, 28)"] * 2
    assert chromium.complaints == []
    assert set(chromium.requests) == {out.as_uri()}
