from edgeopt.search.racing.baseline import plain
from edgeopt.search.racing.space import Starts, first_candidates, other_threads

SPACE = {
    "onnxruntime-cpu": {"threads": (2, 1)},
    "openvino-cpu": {
        "threads": (2, 1),
        "precision": ("f32", "bf16"),
        "dynamic_quantization_group_size": (32, 128),
    },
}
BOTH = ("onnxruntime-cpu", "openvino-cpu")


def options(candidates):
    return [(c.backend, c.options) for c in candidates]


def test_a_float_variant_runs_once_for_each_precision():
    assert options(first_candidates("cleaned", BOTH, Starts(SPACE))) == [
        ("onnxruntime-cpu", {}),
        ("openvino-cpu", {"precision": "f32"}),
        ("openvino-cpu", {"precision": "bf16"}),
    ]


def test_compressed_weights_run_once_for_each_group_size():
    assert options(first_candidates("int8-groups", BOTH, Starts(SPACE))) == [
        ("onnxruntime-cpu", {}),
        ("openvino-cpu", {"dynamic_quantization_group_size": 32}),
        ("openvino-cpu", {"dynamic_quantization_group_size": 128}),
    ]


def test_a_form_runs_only_where_it_is_computed_faster_than_floats():
    assert {c.backend for c in first_candidates("int8-dynamic", BOTH, Starts(SPACE))} == {BOTH[0]}
    assert not first_candidates("int8-dynamic", BOTH[1:], Starts(SPACE))
    assert not first_candidates("a16w8", BOTH, Starts(SPACE))


def test_open_shapes_are_fixed_where_that_helps():
    shapes = {"x": [1, 3, 8, 8]}
    found = first_candidates("source", BOTH, Starts(SPACE, shapes))
    assert [c.options.get("shapes") for c in found] == [None, shapes, shapes]
    assert "shapes" not in found[1].name


def test_another_number_of_threads_changes_nothing_else():
    candidate = first_candidates("cleaned", ("openvino-cpu",), Starts(SPACE, {"x": [1]}))[1]
    (found,) = other_threads(candidate, SPACE)
    assert found.options == {**candidate.options, "threads": 1}
    assert found.variant == "cleaned"
    # Not back again: the search started there.
    assert other_threads(found, SPACE) == []


def test_a_container_that_allows_fewer_cores_sets_the_threads():
    found = first_candidates("cleaned", BOTH, Starts(SPACE, threads=3))
    assert all(c.options["threads"] == 3 for c in found)


def test_a_backend_without_options_has_no_other_threads():
    assert other_threads(plain("onnxruntime-cpu"), {}) == []


def test_a_settled_option_stands_in_every_candidate():
    settled = {"onnxruntime-cpu": {"arena": False}, "openvino-cpu": {"threads": 4, "precision": "f32"}}
    found = first_candidates("cleaned", BOTH, Starts({"onnxruntime-cpu": {"threads": (2, 1)}}, None, 3, settled))
    assert options(found) == [
        ("onnxruntime-cpu", {"threads": 3, "arena": False}),
        ("openvino-cpu", {"threads": 4}),
    ]
    (other,) = other_threads(found[0], {"onnxruntime-cpu": {"threads": (2, 1), "arena": (False,)}})
    assert other.options == {"threads": 1, "arena": False}
