import msgspec
import pytest

from edgeopt.commands.report.facts import Facts
from edgeopt.commands.report.report import gather, report, written
from edgeopt.commands.report.request import Request
from edgeopt.errors import UsageError


def test_the_facts_as_json_are_read_back_the_same(raced_bundle):
    facts = gather(raced_bundle, nodes=False)
    assert msgspec.json.decode(written(facts, "json"), type=Facts) == facts


def test_a_single_file_is_reported_as_its_folder_is(raced_bundle, tmp_path):
    from edgeopt.bundle.archive import pack

    single = tmp_path / "raced-one.edgeopt"
    with single.open("wb") as file:
        pack(raced_bundle, file)
    found = report(Request(single, tmp_path / "report.html", nodes=False))
    assert found.verdict == "faster"
    assert "SIGSEGV" in (tmp_path / "report.html").read_text()


def test_undecided_shows_the_source_unchanged(raced_bundle):
    facts = gather(raced_bundle, nodes=False)
    undecided = msgspec.structs.replace(facts, verdict="undecided", stages=facts.stages[:1])
    page = written(undecided, "markdown")
    assert "Undecided" in page
    assert "Speed-up" not in page
    assert page.count("(unchanged)") == 2


def test_candidates_have_race_and_proof_apart(raced_bundle):
    page = written(gather(raced_bundle, nodes=False), "markdown")
    assert "| race |" in page
    assert "| proof |" in page


def test_a_folder_that_is_not_there_is_told_before_anything_is_measured(raced_bundle, tmp_path):
    phases = []
    with pytest.raises(UsageError, match="does not exist"):
        report(Request(raced_bundle, tmp_path / "nowhere" / "report.html"), phases.append)
    assert phases == []
