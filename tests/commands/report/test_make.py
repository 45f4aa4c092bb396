import msgspec

from edgeopt.commands.report.facts import Facts
from edgeopt.commands.report.gather import gather
from edgeopt.commands.report.make import report, written
from edgeopt.commands.report.request import Request


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
