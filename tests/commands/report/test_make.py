from pathlib import Path

import msgspec
import pytest

from edgeopt.commands.report.facts import Facts
from edgeopt.commands.report.gather import gather
from edgeopt.commands.report.make import format_of, report, written
from edgeopt.errors import UsageError


def test_the_facts_as_json_are_read_back_the_same(raced_bundle):
    facts = gather(raced_bundle, nodes=False)
    assert msgspec.json.decode(written(facts, "json"), type=Facts) == facts


def test_the_ending_says_what_to_write():
    assert [format_of(Path(name)) for name in ("a.html", "a.MD", "a.json")] == ["html", "markdown", "json"]
    with pytest.raises(UsageError, match="does not say what the report is to be"):
        format_of(Path("a.pdf"))


def test_a_single_file_is_reported_as_its_folder_is(raced_bundle, tmp_path):
    from edgeopt.bundle.archive import pack

    single = tmp_path / "raced-one.edgeopt"
    with single.open("wb") as file:
        pack(raced_bundle, file)
    found = report(single, tmp_path / "report.html", nodes=False)
    assert found.verdict == "faster"
    assert "SIGSEGV" in (tmp_path / "report.html").read_text()
