"""What can be set on an ONNX Runtime session."""

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

if TYPE_CHECKING:
    from onnxruntime import SessionOptions

Count = Annotated[int, msgspec.Meta(ge=0)]

_ERRORS_ONLY = 3


class OrtOptions(msgspec.Struct, frozen=True):
    threads: Count = 0
    """Threads within an operator; 0 is the runtime's own choice."""
    inter_threads: Count = 0
    """Threads between operators; used with `execution_mode` parallel only."""
    graph_level: Literal["none", "basic", "extended", "layout", "all"] = "all"
    execution_mode: Literal["sequential", "parallel"] = "sequential"
    spinning: bool = True
    """Threads that wait burn their core: faster on an idle machine, slower on a shared one."""
    spin_duration_us: Count | None = None
    dynamic_block_base: Count = 0
    """Splits work into blocks that shrink, for cores of different speed; 0 is off."""
    arena: bool = True
    memory_pattern: bool = True
    prepacking: bool = True
    flush_denormals: bool = False
    deterministic: bool = False
    gelu_approximation: bool = False


def session_options(options: OrtOptions) -> "SessionOptions":
    import onnxruntime

    levels = {
        "none": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
        "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
        "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
        "layout": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_LAYOUT,
        "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
    }
    modes = {
        "sequential": onnxruntime.ExecutionMode.ORT_SEQUENTIAL,
        "parallel": onnxruntime.ExecutionMode.ORT_PARALLEL,
    }
    made = onnxruntime.SessionOptions()
    made.log_severity_level = _ERRORS_ONLY
    made.intra_op_num_threads = options.threads
    made.inter_op_num_threads = options.inter_threads
    made.graph_optimization_level = levels[options.graph_level]
    made.execution_mode = modes[options.execution_mode]
    made.enable_cpu_mem_arena = options.arena
    made.enable_mem_pattern = options.memory_pattern
    made.use_deterministic_compute = options.deterministic
    for key, value in _entries(options).items():
        made.add_session_config_entry(key, value)
    return made


def _entries(options: OrtOptions) -> dict[str, str]:
    """Keys of onnxruntime_session_options_config_keys.h; the runtime takes unknown ones without a word."""
    spinning = "1" if options.spinning else "0"
    entries = {"session.intra_op.allow_spinning": spinning, "session.inter_op.allow_spinning": spinning}
    if options.spin_duration_us is not None:
        entries["session.intra_op.spin_duration_us"] = str(options.spin_duration_us)
    if options.dynamic_block_base:
        entries["session.dynamic_block_base"] = str(options.dynamic_block_base)
    if not options.prepacking:
        entries["session.disable_prepacking"] = "1"
    if options.flush_denormals:
        entries["session.set_denormal_as_zero"] = "1"
    if options.gelu_approximation:
        entries["optimization.enable_gelu_approximation"] = "1"
    return entries
