import re
from html.parser import HTMLParser

import msgspec
import pytest

from edgeopt.commands.report.report import gather, written
from edgeopt.graph.ledger import Change, LedgerEntry
from edgeopt.graph.levels import LevelAccuracy
from edgeopt.measure.messages import Memory
from tests.commands.report.evidence import CANDIDATES, outcome, put_evidence

EVIL = "</td></svg><script>alert(1)</script><img src=http://evil.example/x onerror=alert(2)>\"'`|\u202e\x00"


class Page(HTMLParser):
    """The tags of a document with their attributes; fails where they do not nest."""

    VOID = ("meta", "link", "br")

    def __init__(self, document):
        super().__init__()
        self.tags, self.open, self.said = [], [], []
        self.feed(document)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.said.append(data)

    def named(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def text(self):
        return " ".join(self.said)


@pytest.fixture(scope="module")
def raced(raced_bundle):
    return gather(raced_bundle, nodes=True)


@pytest.fixture(scope="module")
def page(raced):
    return Page(written(raced, "html"))


def test_the_verdict_comes_first_and_every_section_can_be_reached(page):
    assert page.text.index("Faster: 2.4") < page.text.index("Latency of single runs")
    keys = [attributes["id"] for attributes in page.named("section")]
    assert keys == [
        *("speed", "stages", "memory", "accuracy", "frontier", "operators", "nodes", "ledger", "candidates"),
        *("device", "reproduce"),
    ]
    assert [attributes["href"] for attributes in page.named("a")] == [f"#{key}" for key in keys]


@pytest.mark.parametrize(
    "words",
    [
        "between 2.",  # the interval
        "Memory added",
        "crashed: SIGSEGV while loading",
        "21.0 dB on 8 samples",
        "the profile lists no lowerings",
        "Removed an Identity (same).",
        "Refused: Too small to pay (fc).",
        "Ignored in the data: extra.",
        "Measured in peace.",
        "edgeopt replay",
        "1 pass found no match: gelu.",
        "floor 30 dB",
    ],
)
def test_it_says(page, words):
    assert words in page.text


def test_it_needs_nothing_from_anywhere(raced, page):
    document = written(raced, "html")
    assert not re.search(r"https?://|@import|url\(", document)
    loading = {"script", "iframe", "img", "object", "embed", "audio", "video", "base", "form"}
    assert loading.isdisjoint(name for name, _ in page.tags)
    assert [attributes["href"] for attributes in page.named("link")] == ["data:,"]
    assert "default-src 'none'" in str(page.named("meta"))


def test_every_chart_says_in_words_what_is_in_it(page):
    pictures = page.named("svg")
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert len(pictures) >= 2 * 6  # each for the desk and for the hand
    for picture in pictures:
        assert picture["role"] == "img"
        assert set(picture["aria-labelledby"].split()) <= set(ids)
    assert len(page.named("desc")) == len(pictures)


def test_numbers_in_charts_are_numbers(raced):
    assert not re.search(r'="[^"]*\b(nan|inf)\b', written(raced, "html"))


def test_nothing_in_a_bundle_becomes_mark_up(bundle):
    """Names of models, tensors, nodes, passes, options, reasons: each comes from whoever sent the bundle."""
    first = CANDIDATES[0]
    evil = msgspec.structs.replace(
        first, reason=EVIL, candidate=msgspec.structs.replace(first.candidate, options={EVIL: EVIL})
    )
    evidence = outcome(
        summary=EVIL,
        candidates=(evil, *CANDIDATES[1:]),
        warnings=(EVIL,),
        operators={EVIL: 3},
        model=EVIL,
    )
    entry = LedgerEntry(EVIL, tuple(Change(EVIL, (EVIL,)) for _ in range(9)))
    put_evidence(bundle, evidence, (entry,), name=EVIL, target=EVIL, summary=EVIL)
    facts = gather(bundle, nodes=False)
    found = Page(written(facts, "html"))
    assert found.text.count("<script>alert(1)</script>") >= 10  # as text
    names = {name for name, _ in found.tags}
    assert {"script", "img"}.isdisjoint(names)
    assert not [key for _, attributes in found.tags for key in attributes if key.startswith("on") or key == "src"]
    assert "\u202e" not in found.text
    assert "\x00" not in found.text


def test_a_report_of_what_tells_hardly_anything(conv_bundle):
    found = Page(written(gather(conv_bundle, nodes=False), "html"))
    assert "The bundle holds no evidence.json." in found.text
    assert "The bundle has no record of memory" in found.text


def test_a_record_of_memory_without_figures_is_told_in_words(raced):
    """As on a system that does not report the memory of processes."""
    unknown = dict.fromkeys(raced.speed.result.memory.__struct_fields__)
    result = msgspec.structs.replace(raced.speed.result, memory=Memory(**unknown))
    facts = msgspec.structs.replace(raced, speed=msgspec.structs.replace(raced.speed, result=result))
    assert "The system did not report the memory of the processes." in Page(written(facts, "html")).text


def test_a_plan_of_precision(planned_bundle):
    text = Page(written(gather(planned_bundle, nodes=False), "html")).text
    assert "2 layers: 1 in int8, 1 in float." in text
    assert "kept float: costs 9 dB alone" in text
    assert "in the result's own runtime: 1.40x" in text


def test_the_level_of_input_that_decided_is_named(bundle):
    weakest = LevelAccuracy("y", 33.0, 31.0, 3, 0.01, 2)
    proof = msgspec.structs.replace(outcome().proof, weakest=weakest)
    text = Page(written(gather(put_evidence(bundle, outcome(proof=proof)), nodes=False), "html")).text
    assert "Of 2 levels of input the weakest decides: 'y' has 33.0 dB on the 3 samples" in text


def test_what_is_below_the_accuracy_asked_for_is_not_praised(bundle):
    proof = msgspec.structs.replace(outcome().proof, accuracy_db=20.0)
    text = Page(written(gather(put_evidence(bundle, outcome(proof=proof)), nodes=False), "html")).text
    assert "but below the accuracy asked for" in text


def test_all_sections_are_there_and_tables_keep_their_columns(bundle):
    put_evidence(bundle, outcome(operators={"a|b": 2, "`c`": 1, "<b>": 1}))
    document = written(gather(bundle, nodes=False), "markdown")
    assert document.startswith("# conv: Faster: 2.4")
    assert "## How to reproduce" in document
    for table in re.findall(r"(?:^\|.*\n)+", document, re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(widths) == 1


def test_the_graph_is_among_what_shows_it_again(bundle):
    document = written(gather(bundle, nodes=False), "markdown")
    assert re.search(r"edgeopt graph \S+ -o graph.html --profile-ops", document)
    assert re.search(r"edgeopt graph \S+ -o changes.html --against \S+", document)
