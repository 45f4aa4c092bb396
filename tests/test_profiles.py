import re
import shutil
import tomllib
from pathlib import Path

import pytest

from edgeopt import profiles
from edgeopt.errors import ProfileError, UsageError
from edgeopt.profiles import (
    load,
    load_profile,
    profiles_folder,
    resolve,
    schema,
    shipped_path,
    shipped_profiles,
    shipped_uses,
)
from edgeopt.profiles.explain import Note, check_new, draft, explained, notes

CHILD = 'name = "mine"\ntitle = "Mine"\nextends = "cpu-avx2"\n'


@pytest.fixture
def write(tmp_path):
    def make(text, name="mine"):
        path = tmp_path / f"{name}.toml"
        path.write_text(text)
        return path

    return make


def test_shipped_profile_that_changes_is_read_again(tmp_path, monkeypatch):
    folder = shutil.copytree(profiles_folder(), tmp_path / "profiles")
    monkeypatch.setattr("edgeopt.profiles.load.profiles_folder", lambda: folder)
    before = {profile.name: profile.title for profile in shipped_profiles()}
    changed = folder / "generic-cpu.toml"
    changed.write_text(changed.read_text().replace(before["generic-cpu"], "Another title"))
    after = {profile.name: profile.title for profile in shipped_profiles()}
    assert after == before | {"generic-cpu": "Another title"}


def test_the_shipped_profiles():
    found = {profile.name: profile for profile in shipped_profiles()}
    assert set(found) == {
        "generic-cpu", "cpu-avx", "cpu-avx2", "cpu-avx-vnni", "cpu-avx512", "cpu-avx512-vnni", "cpu-amx",
        "mobile-cpu", "arm-dotprod", "arm-i8mm", "riscv-rvv",
        "gpu-cuda", "gpu-tensorrt", "gpu-mps", "gpu-directml", "gpu-openvino", "mobile-gpu",
        "npu-openvino", "npu-qnn", "npu-coreml",
    }  # fmt: skip
    narrow = {name for name, profile in found.items() if profile.quantization.reduce_range}
    assert {"generic-cpu", "cpu-avx", "cpu-avx2", "cpu-avx512"} <= narrow
    assert not narrow & {"cpu-avx-vnni", "cpu-avx512-vnni", "cpu-amx", "mobile-cpu", "arm-dotprod", "arm-i8mm"}
    assert found["arm-i8mm"].quantization.activation_type == "int8"
    assert found["cpu-avx512-vnni"].search.time_limit_s == found["generic-cpu"].search.time_limit_s
    for profile in found.values():
        assert profile.precision.ladder[0] == "source"
        assert profile.backends.order[0] in profile.runtime
        if profile.match.accelerator is None:
            # The forms after it are for where it is not ready in time.
            ladder = profile.precision.ladder
            whole = (
                "nncf-int8",
                "nncf-transformer",
                "ort-dynamic",
                "nncf-weights",
                "ort-weights8",
                "nncf-weights4",
                "ort-weights4",
                "ort-int8",
                "nncf-repaired",
            )
            if profile.name == "riscv-rvv":  # the libraries behind these have no builds for it
                whole = ()
            place = ladder.index("planned")
            assert ladder[:place] == ("source", "cleaned", "lowered", "mapped", *whole)
            assert set(ladder[place + 1 :]) == {"int8", "int8-groups", "int8-dynamic"}


def test_names_are_files_and_ranks_leave_no_tie():
    for path in profiles_folder().glob("*.toml"):
        assert load_profile(path).name == path.stem
    targets = shipped_profiles()
    for one in targets:
        for other in targets:
            if one is not other and one.match.rank == other.match.rank:
                # The same rank only where no device can be of both.
                assert one.match.architectures
                assert not set(one.match.architectures) & set(other.match.architectures)


def test_a_use_extends_whatever_fits():
    for use in shipped_uses():
        assert resolve(shipped_path(use.name)).automatic
        for target in ("arm-dotprod", "cpu-amx"):
            resolved = resolve(shipped_path(use.name), target)
            assert resolved.names[:2] == (use.name, target)
            assert resolved.profile.match == load_profile(shipped_path(target)).match


def test_every_value_of_a_shipped_profile_says_why():
    from edgeopt.profiles.explain import notes

    paths = list(profiles_folder().glob("*.toml"))
    for path in paths:
        said = notes(path)
        for key in resolve(path).origins:
            if resolve(path).origins[key] == path and len(key) > 1:
                note = said[key]
                assert note.why or (note.items and all(note.items)), f"{path.name}: {key}"
                assert all(note.items), f"{path.name}: {key}"
    assert len(paths) > 20


def test_the_variants_are_the_recipes_of_a_search():
    from edgeopt.pipeline.plans.recipes import RECIPES

    assert set(profiles.VARIANTS) == {recipe.name for recipe in RECIPES}


def test_no_backend_is_planned_that_is_here():
    from edgeopt.backends import NAMES

    assert not set(schema.PLANNED_BACKENDS) & set(NAMES)


def test_the_page_names_every_key_and_every_word():
    text = (profiles_folder().parent / "docs" / "profiles.md").read_text()
    structs = (profiles.TargetProfile, *schema.TABLES.values())
    keys = {name for struct in structs for name in struct.__struct_fields__}
    known = keys | {*schema.VARIANTS, *schema.PLANNED_BACKENDS, *schema.CALIBRATIONS, *schema.COLOUR_ORDERS}
    known |= {*schema.PICTURE_FILTERS, *schema.PICTURE_PLACES}
    assert [name for name in sorted(known) if not re.search(rf"[`\[.\"]{name}[`\].\"]", text)] == []


def test_extending_replaces_values_and_keeps_the_rest(write):
    path = write(CHILD + "[match]\nrank = 99\n[runtime.openvino-cpu]\nthreads = [3]\n")
    mine, base = load_profile(path), load_profile(profiles_folder() / "cpu-avx2.toml")
    assert mine.match.rank == 99
    assert mine.match.simd == base.match.simd
    assert mine.runtime["openvino-cpu"] == {**base.runtime["openvino-cpu"], "threads": (3,)}
    assert mine.runtime["onnxruntime-cpu"] == base.runtime["onnxruntime-cpu"]


def test_lowerings_are_taken_over_backend_by_backend(write):
    base = load_profile(profiles_folder() / "cpu-avx2.toml").lowerings
    assert base["onnxruntime-cpu"]
    path = write(CHILD + '[lowerings]\nonnxruntime-xnnpack = ["ort-gelu"]\n')
    assert load_profile(path).lowerings == {**base, "onnxruntime-xnnpack": ("ort-gelu",)}
    none = load_profile(write(CHILD + "[lowerings]\nonnxruntime-cpu = []\n"))
    assert none.lowerings == {**base, "onnxruntime-cpu": ()}


def test_a_neighbour_is_extended_before_a_shipped_one(write):
    write(
        CHILD.replace("mine", "cpu-avx2").replace('"cpu-avx2"\n', '"generic-cpu"\n') + "[match]\nrank = 7\n",
        "base",
    )
    path = write('name = "mine"\ntitle = "Mine"\nextends = "base"\n')
    assert load_profile(path).match.rank == 7


def test_a_profile_that_extends_itself(write):
    write('name = "b"\ntitle = "B"\nextends = "a"\n', "b")
    path = write('name = "a"\ntitle = "A"\nextends = "b"\n', "a")
    with pytest.raises(ProfileError, match="extends itself: a -> b -> a"):
        load_profile(path)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            CHILD + "[quantization]\nreduce_rang = true",
            "table [quantization] has no key 'reduce_rang'",
            "'reduce_range'",
        ),
        (CHILD + "[serch]\n", "the top level has no key 'serch'", "'search'"),
        (
            CHILD + '[quantization]\nreduce_range = "yes"',
            "reduce_range in [quantization] must be true or false, not text",
            "",
        ),
        (CHILD + "[search]\ntime_limit_s = -1", "time_limit_s in [search] must be a number > 0.0", ""),
        (
            CHILD + '[match]\nsimd = ["avx512_vnni"]',
            "simd in [match] does not know 'avx512_vnni'",
            "'avx512-vnni'",
        ),
        (CHILD + '[match]\narchitectures = ["x86"]', "architectures in [match] does not know 'x86'", "'x86_64'"),
        (CHILD + '[precision]\nladder = ["int-8"]', "does not know 'int-8'", "'int8'"),
        (CHILD + '[quantization]\nweight_type = "int4"', "weight_type in [quantization]", "'int8'"),
        (
            CHILD + '[backends]\norder = ["openvino"]',
            "order in [backends] does not know 'openvino'",
            "'openvino-cpu'",
        ),
        (
            CHILD + "[runtime.openvino-cp]\nthreads = [1]",
            "[runtime] does not know 'openvino-cp'",
            "'openvino-cpu'",
        ),
        (CHILD + "[runtime.openvino-cpu]\nthreads = 4", "threads in [runtime.openvino-cpu] must be a list", "[4]"),
        (CHILD + '[needs]\nbf16 = ["avx512bf16"]', "bf16 in [needs] does not know 'avx512bf16'", "'avx512-bf16'"),
        (CHILD + '[graph]\npasses = "all"', "passes in [graph] must be \"default\" or a list, not 'all'", ""),
        (CHILD + '[graph]\npasses = ["identity"]', "passes in [graph] does not know 'identity'", "'identities'"),
        (CHILD + '[graph]\nlayout = "nhcw"', "layout in [graph] does not know 'nhcw'", "source"),
        (CHILD + '[match]\nos = ["Linus"]', "os in [match] does not know 'Linus'", "'Linux'"),
        (
            CHILD + '[match]\nruntimes = ["CudaExecutionProvider"]',
            "runtimes in [match] does not know 'CudaExecutionProvider'",
            "'CUDAExecutionProvider'",
        ),
        (CHILD + '[match.accelerator]\nknid = "gpu"', "the table [match.accelerator] has no key 'knid'", "'kind'"),
        (
            CHILD + '[match.accelerator]\nkind = "gpus"',
            "kind in [match.accelerator] does not know 'gpus'",
            "'gpu'",
        ),
        (CHILD + "match = 1", "'match' must be a table, not a whole number", ""),
        (
            CHILD + '[quantization]\ncalibration = "percent"',
            "calibration in [quantization] does not know 'percent'",
            "'percentile'",
        ),
        (
            CHILD + "[runtime.onnxruntime-cpu]\nspining = [true]",
            "the table [runtime.onnxruntime-cpu] has no key 'spining'",
            "'spinning'",
        ),
        (
            CHILD + "[runtime.onnxruntime-cpu]\nspinning = [1]",
            "spinning in [runtime.onnxruntime-cpu] takes true or false, not 1",
            "",
        ),
        (
            CHILD + "[runtime.onnxruntime-cpu]\nthreads = [true]",
            "threads in [runtime.onnxruntime-cpu] takes whole numbers from 0 on, not true",
            "",
        ),
        (
            CHILD + '[runtime.openvino-cpu]\nperformance_hint = ["througput"]',
            "performance_hint in [runtime.openvino-cpu] does not know 'througput'",
            "'throughput'",
        ),
        (
            CHILD + "[runtime]\nopenvino-cpu = 1",
            "openvino-cpu in [runtime] must be a table",
            "[runtime.openvino-cpu]",
        ),
        (
            CHILD + '[lowerings]\nonnxruntime-cp = ["ort-gelu"]',
            "[lowerings] does not know 'onnxruntime-cp'",
            "'onnxruntime-cpu'",
        ),
        (
            CHILD + '[lowerings]\nonnxruntime-cpu = ["ort-gelus"]',
            "onnxruntime-cpu in [lowerings] does not know 'ort-gelus'",
            "'ort-gelu'",
        ),
        (
            CHILD + '[lowerings]\nonnxruntime-cpu = "ort-gelu"',
            "onnxruntime-cpu in [lowerings] must be a list",
            '["ort-gelu"]',
        ),
        (
            CHILD + '[lowerings]\nopenvino-cpu = ["ort-gelu"]',
            "openvino-cpu in [lowerings] does not know 'ort-gelu'",
            "There are: openvino-forms.",
        ),
        (
            CHILD + '[lowerings]\nonnxruntime-webgpu = ["ort-gelu"]',
            "onnxruntime-webgpu in [lowerings] does not know 'ort-gelu'",
            "This backend has none",
        ),
        (CHILD + '[needs]\nbf16 = "avx512-bf16"', "bf16 in [needs] must be a list", '["avx512-bf16"]'),
        (CHILD + "[data]\nresise = [8]", "the table [data] has no key 'resise'", "'resize'"),
        (CHILD + "[data]\nresize = 8", "resize in [data] must be a list, not a whole number", ""),
        (CHILD + "[data]\nresize = [8, 8, 8]", "resize in [data] must be a list of length <= 2", ""),
        (CHILD + "[data]\nresize = [8]\ncrop = [9]", "crop in [data] keeps more than resize leaves", "larger"),
        (CHILD + "[data]\nresize = [20, 8]\ncrop = [8, 9]", "crop in [data] keeps more than", "larger"),
        (CHILD + "[data]\nletter_box = [8]\ncrop = [8]", "[data] has letter_box and crop", "Remove letter_box"),
        (CHILD + '[data]\nfilter = "bicubik"', "filter in [data] does not know 'bicubik'", "'bicubic'"),
        (CHILD + '[data]\nplace = "left"', "place in [data] does not know 'left'", "top-left"),
        (CHILD + "[data]\nmean = [1.0, 2.0]", "mean in [data] has 2 numbers for 3 channels", '"rgb"'),
        (CHILD + "[data]\nstd = [0.0]", "std in [data] must be a number > 0.0", ""),
        (CHILD + '[data]\ncolour_order = "grb"', "colour_order in [data] does not know 'grb'", "'rgb'"),
        (CHILD + "[match]\nsimd = 3", "simd in [match] must be a list, not a whole number", ""),
        ('name = "a"\ntitle = "A"\nextends = 3', "'extends' must be text, not a whole number", ""),
        (
            CHILD.replace('"cpu-avx2"', '"../cpu-avx2"'),
            "the profile '../cpu-avx2' that it extends does not exist",
            "'cpu-avx2'",
        ),
        (CHILD + f"x = {'[' * 3000}", "is nested too deeply", ""),
        (CHILD + "schema = 2", "schema 2 is not known", "written for"),
        (CHILD.replace('name = "mine"\n', ""), "the profile lacks the key 'name'", ""),
        ('name = "x"\ntitle = "X"', "the profile lacks the key", ""),
        (
            CHILD.replace("cpu-avx2", "cpu-avx51"),
            "the profile 'cpu-avx51' that it extends does not exist",
            "'cpu-avx512'",
        ),
        ("name = ", "is not valid TOML", ""),
    ],
)
def test_a_mistake_is_one_sentence_with_the_place_and_what_is_right(write, text, message, hint):
    path = write(text)
    with pytest.raises(ProfileError) as caught:
        load_profile(path)
    assert caught.value.message.startswith(f"{path}: ")
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.hint


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(ProfileError, match="There is no profile at"):
        load_profile(tmp_path / "missing.toml")
    with pytest.raises(ProfileError, match="cannot be read"):
        load_profile(tmp_path)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ProfileError, match="not UTF-8"):
        load_profile(tmp_path / "binary.toml")


def test_an_installed_package_brings_its_own_folder(tmp_path, monkeypatch):
    package = tmp_path / "edgeopt"
    (package / "_profiles").mkdir(parents=True)
    monkeypatch.setattr(load, "__file__", str(package / "profiles" / "load.py"))
    with pytest.raises(ProfileError, match="are missing"):
        profiles_folder()
    (package / "_profiles" / "generic-cpu.toml").write_text("")
    assert profiles_folder() == package / "_profiles"
    checkout = tmp_path / "profiles"
    checkout.mkdir()
    (checkout / "generic-cpu.toml").write_text("")
    assert profiles_folder() == checkout


def test_this_is_a_checkout():
    assert profiles_folder() == Path(profiles.__file__).parents[2] / "profiles"


def test_a_file_that_changes_is_read_again(write):
    assert load_profile(write(CHILD)).search.time_limit_s == 60
    assert load_profile(write(CHILD + "[search]\ntime_limit_s = 7\n")).search.time_limit_s == 7


def test_a_circle_of_profiles_through_a_use(write):
    write('name = "cpu-avx"\ntitle = "A"\nextends = "realtime"\n', "cpu-avx")
    path = write('name = "mine"\ntitle = "M"\nextends = "cpu-avx"\n')
    # `auto` is always a shipped target, whatever lies beside the file.
    assert resolve(path, "cpu-avx2").names == (
        "mine", "cpu-avx", "realtime", "cpu-avx2", "cpu-avx", "generic-cpu",
    )  # fmt: skip


def test_where_each_value_comes_from(write):
    path = write(CHILD + "[search]\ntime_limit_s = 7\n")
    origins = {".".join(key): file.stem for key, file in resolve(path).origins.items()}
    assert origins["search.time_limit_s"] == "mine"
    assert origins["search.max_candidates"] == "generic-cpu"
    assert origins["match.simd"] == "cpu-avx2"
    assert origins["match.architectures"] == "cpu-avx"


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
    assert set(said["data"]) <= set(schema.Data.__struct_fields__)


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
