"""Names in a bundle that is refused, as they reach those who read of it."""

import io
from zipfile import ZIP_STORED, ZipFile

from edgeopt.bundle.archive import packed

NAME = "\x1b[2J\n\u202ename"


def test_names_of_a_refused_bundle_are_escaped(start_agent, old_bundle):
    agent = start_agent()
    content = io.BytesIO(b"".join(packed(old_bundle)))
    with ZipFile(content, "a", ZIP_STORED) as archive:
        archive.writestr(NAME, b"")
    done = agent.deploy(content.getvalue())
    assert done["state"] == "FAILED"
    assert r"\x1b[2J\n\u202ename" in done["reason"]
    events = agent.ask("GET", "/api/v1/events")[2]["events"]
    assert all(event["reason"].isprintable() for event in events)
