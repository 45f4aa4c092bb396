import re

from edgeopt.commands.report.report import gather, written
from tests.commands.report.evidence import outcome, put_evidence


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
