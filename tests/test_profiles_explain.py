import tomllib

import pytest

from edgeopt.errors import UsageError
from edgeopt.profiles import load_profile, resolve, shipped_path, shipped_profiles, shipped_uses
from edgeopt.profiles.explain import Note, check_new, draft, explained, notes

TEXT = """\
# About the file.
name = "mine"  # not asked for
title = 'a # that is none'
extends = "cpu-avx2"

[match]
rank = 7                 # a "quoted" why
# Above,
# in two lines.
simd = ["avx2", "fma"]

[precision]
ladder = [
  "source",              # first
  # between
  "cleaned",
]

[runtime.openvino-cpu]
precision = ["#1", 'x#']
"""


def test_the_comments_of_a_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(TEXT)
    found = notes(path)
    assert found["match", "rank"] == Note('a "quoted" why')
    assert found["match", "simd"] == Note("Above, in two lines.")
    assert found["precision", "ladder"] == Note("", ("first", ""))
    assert found["runtime", "openvino-cpu", "precision"] == Note("")
    assert found["title",].why == ""


def test_a_profile_value_by_value(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\ntitle = "M"\nextends = "cpu-avx2"\n[search]\ntime_limit_s = 5  # in a hurry\n')
    rows = {(row.table, row.key): row for row in explained(resolve(path))}
    mine, inherited = rows["search", "time_limit_s"], rows["quantization", "reduce_range"]
    assert (mine.value, mine.origin, mine.why) == (5, "mine", "in a hurry")
    assert (inherited.value, inherited.origin) == (True, "cpu-avx2")
    assert "saturates" in inherited.why
    ladder = rows["precision", "ladder"]
    assert len(ladder.items) == len(ladder.value)
    assert all(ladder.items)
    tables = list(dict.fromkeys(table for table, _ in rows))
    assert tables[0] == "match"
    assert tables[-1] == "search"


@pytest.mark.parametrize("base", [p.name for p in (*shipped_profiles(), *shipped_uses())])
def test_a_draft_changes_nothing_until_it_is_edited(tmp_path, base):
    resolved = resolve(shipped_path(base))
    path = tmp_path / "mine.toml"
    path.write_text(draft("mine", base, explained(resolved), "Mine"))
    assert load_profile(path).quantization == resolved.profile.quantization
    assert load_profile(path).runtime == resolved.profile.runtime
    assert all(len(line) <= 115 or "simd" in line for line in path.read_text().splitlines())


def test_a_draft_uncommented_is_the_profile_itself(tmp_path):
    resolved = resolve(shipped_path("cpu-amx"))
    lines = draft("mine", "cpu-amx", explained(resolved), "Mine").split("\n\n")[1:]
    code = [line.removeprefix("# ") for part in lines for line in part.splitlines()]
    kept = [line for line in code if line.startswith(("[", "]", "  ")) or " = " in line.partition("#")[0]]
    said = tomllib.loads("\n".join(kept))
    assert said["precision"] == resolved.tables["precision"]
    assert said["match"] == resolved.tables["match"]
    assert said["search"] == resolved.tables["search"]
    assert set(said["data"]) <= {"resize", "crop", "colour_order", "scale", "mean", "std", "layout", "dtype"}


@pytest.mark.parametrize(
    ("name", "out", "says"),
    [
        ("", "x.toml", "not a valid profile name"),
        ("My Camera", "x.toml", "not a valid profile name"),
        ("auto", "x.toml", "not a valid profile name"),
        ("realtime", "x.toml", "comes with edgeopt"),
        ("mine", "there.toml", "already exists"),
        ("mine", "nowhere/x.toml", "no folder"),
    ],
)
def test_what_cannot_become_a_profile(tmp_path, name, out, says):
    (tmp_path / "there.toml").touch()
    with pytest.raises(UsageError, match=says) as caught:
        check_new(name, shipped_path("cpu-avx2"), tmp_path / out)
    assert caught.value.hint


def test_a_base_that_would_not_be_found(tmp_path):
    base = tmp_path / "base.toml"
    base.touch()
    (tmp_path / "other").mkdir()
    check_new("mine", base, tmp_path / "mine.toml")
    with pytest.raises(UsageError, match="must extend a shipped one"):
        check_new("mine", base, tmp_path / "other" / "mine.toml")
