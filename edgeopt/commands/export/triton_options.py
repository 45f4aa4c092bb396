"""A bundle's options in the words of Triton's two backends, and those for which they have no word.

The words are those that triton-inference-server/onnxruntime_backend and openvino_backend read.
"""

from dataclasses import dataclass, field

from edgeopt.backends.base import Options
from edgeopt.backends.onnxruntime.options import OrtOptions, config_entries, run_entries
from edgeopt.commands.export.base import Order
from edgeopt.commands.export.settings import ort_options, provider_of

# The other levels have no number there; leaving it out is `all`.
_LEVELS = {"basic": -1, "extended": 1, "none": 2}
_INITIALIZERS = "session.use_device_allocator_for_initializers"


@dataclass(slots=True)
class Words:
    parameters: dict[str, str] = field(default_factory=dict)
    optimization: dict[str, object] = field(default_factory=dict)
    carried: set[str] = field(default_factory=set)
    """The names of the options that Triton passes on."""

    def left_out(self, options: Options) -> list[str]:
        return [name for name in options if name not in self.carried]


def onnxruntime_words(order: Order) -> Words:
    options = ort_options(order)
    given = order.bundle.deployment.run.options
    words = Words()
    numbers = {"threads": "intra_op_thread_count", "inter_threads": "inter_op_thread_count"}
    for name, word in numbers.items():
        if getattr(options, name):
            words.parameters[word] = str(getattr(options, name))
    if options.execution_mode == "parallel":
        words.parameters["execution_mode"] = "1"
    if not options.arena:
        words.parameters["enable_mem_arena"] = "0"
    if not options.memory_pattern:
        words.parameters["enable_mem_pattern"] = "0"
    words.parameters |= run_entries(options, provider_of(order).gpu(options))
    if options.graph_level in _LEVELS:
        words.optimization["graph"] = {"level": _LEVELS[options.graph_level]}
    words.carried = {*numbers, "execution_mode", "arena", "memory_pattern", "arena_shrink"}
    words.carried |= {"graph_level"} if options.graph_level != "layout" else set()
    entries = config_entries(options)
    if _INITIALIZERS in entries:
        words.parameters[_INITIALIZERS] = entries[_INITIALIZERS]
    if set(options.entries.replace(" ", "").split(";")) <= {f"{_INITIALIZERS}={entries.get(_INITIALIZERS)}", ""}:
        words.carried.add("entries")
    # An explicit option with the default value can be dropped.
    words.carried |= {name for name in given if getattr(options, name) == getattr(OrtOptions(), name, None)}
    if provider_of(order).name == "onnxruntime-cuda":
        _cuda(order, options, words)
    return words


def _cuda(order: Order, options: OrtOptions, words: Words) -> None:
    settings = provider_of(order).settings(options, order.bundle.model)
    settings.pop("device_id", None)  # the instance group says it
    if settings:
        accelerator = {"name": "cuda", "parameters": [{"key": k, "value": v} for k, v in settings.items()]}
        words.optimization["execution_accelerators"] = {"gpu_execution_accelerator": [accelerator]}
    own = set(type(options).__struct_fields__) - set(OrtOptions.__struct_fields__)
    words.carried |= own | {"io_binding"}  # Triton binds outputs by itself


def openvino_words(order: Order, device: str) -> Words:
    options = order.bundle.deployment.run.options
    words = Words({"PERFORMANCE_HINT": str(options.get("performance_hint", "latency")).upper()})
    for name, word in (
        ("threads", "INFERENCE_NUM_THREADS"),
        ("compile_threads", "COMPILATION_NUM_THREADS"),
        ("streams", "NUM_STREAMS"),
    ):
        if options.get(name):
            words.parameters[word] = str(options[name])
    words.carried = {"performance_hint", "threads", "compile_threads", "streams", "device", "devices", "mmap"}
    if options.get("precision") == "bf16":
        words.parameters["HINT_BF16"] = "YES"
        words.carried.add("precision")
    if device != "CPU":
        words.parameters["TARGET_DEVICE"] = device
    # OpenVINO takes these from the .xml.
    words.carried |= {"dynamic_quantization_group_size", "kv_cache_precision"}
    # An explicit option with the default value can be dropped.
    words.carried |= {name for name, value in options.items() if value in ("", False, 0) and name != "pinning"}
    return words
