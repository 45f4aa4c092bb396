"""The figures of the built-in sample in the documents: one run, quoted alike on every page."""

import re
from collections import defaultdict

import pytest

from benchmarks.document_figures import QUOTES, ROOT, Quote, figures_in, measured, renewed, write

# Lines whose ratios are not those of the sample: tables of other models, explanations of a form.
OTHER = re.compile(r"^(\||- `)")
RATIO = re.compile(r"\b\d+\.\d+x")


def quoted(quotes=QUOTES):
    """Every value of each figure, with its page."""
    found = defaultdict(set)
    for quote in quotes:
        for page in quote.pages:
            for name, value in figures_in(quote, (ROOT / page).read_text()).items():
                found[name].add((value, page))
    return found


def test_all_pages_quote_the_same_run():
    differing = {name: found for name, found in quoted().items() if len({value for value, _ in found}) > 1}
    assert differing == {}


def test_every_quoted_line_is_on_its_pages():
    assert {"speedup", "before", "after", "bench", "slower", "replayed"} <= quoted().keys()


def test_pages_about_the_sample_quote_no_ratio_that_the_script_does_not_write():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    about = [page for page in pages if "digits_cnn" in page.read_text()]
    assert len(about) > 5
    strays = []
    for page in about:
        text, name = page.read_text(), str(page.relative_to(ROOT))
        for quote in QUOTES:
            if name in quote.pages:
                text = renewed(text, quote, dict.fromkeys(figures_in(quote, text), "N"))
        strays += [(name, line) for line in text.splitlines() if not OTHER.match(line) and RATIO.search(line)]
    assert strays == []


TWO_PAGES = Quote("{ratio}x faster ({after} µs), in all {share} %", ("a.md", "b.md"), "measure")


def test_figures_are_renewed_and_spaces_stay(tmp_path):
    for page in TWO_PAGES.pages:
        (tmp_path / page).write_text("Found: 2.65x   faster (57.2 µs), in all 20 % today, 9 of 9\n")
    write([TWO_PAGES], {"ratio": "3.1", "after": "1,050", "share": "30"}, tmp_path)
    for page in TWO_PAGES.pages:
        assert (tmp_path / page).read_text() == "Found: 3.1x   faster (1,050 µs), in all 30 % today, 9 of 9\n"


def test_line_that_is_not_there_is_an_error():
    with pytest.raises(LookupError, match="in all"):
        figures_in(TWO_PAGES, "2x slower")
    with pytest.raises(LookupError, match="not in the page"):
        renewed("2x slower", TWO_PAGES, {})


def test_first_command_decides_about_a_figure(tmp_path, monkeypatch):
    printed = {"one": "first 2.0x of 5", "two": "then 2.1x and 7", "three": ""}
    monkeypatch.setattr("benchmarks.document_figures._printed", lambda command, _: printed[command])
    quotes = (Quote("first {a}x of {b}", (), "one"), Quote("then {a}x and {c}", (), "two"), Quote("{a} again", ()))
    assert measured(quotes, tmp_path) == {"a": "2.0", "b": "5", "c": "7"}
