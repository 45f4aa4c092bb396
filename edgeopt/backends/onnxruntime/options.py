"""Options of an ONNX Runtime session that all providers share."""

import os
import re
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from edgeopt.backends.options import Threads, about
from edgeopt.errors import UsageError
from edgeopt.nearest import nearest
from edgeopt.platform.processes import usable_cores

if TYPE_CHECKING:
    from onnxruntime import RunOptions, SessionOptions

KNOWN = (
    "ep.cuda.fpa_intb_gemm",
    "ep.cuda.fpa_intb_profile_m",
    "ep.enable_weightless",
    "mlas.disable_kleidiai",
    "mlas.kleidiai.conv_igemm_max_work",
    "mlas.nchwc_depthwise_sliding",
    "mlas.nchwc_pointwise_conv_max_input_channel_batch",
    "mlas.qnbit.force_fp32",
    "mlas.use_lut_gemm",
    "optimization.constant_folding_max_output_size_in_bytes",
    "optimization.disable_specified_optimizers",
    "optimization.enable_cast_chain_elimination",
    "session.allow_released_opsets_only",
    "session.disable_aot_function_inlining",
    "session.disable_double_qdq_remover",
    "session.disable_qdq_constant_folding",
    "session.disable_quant_qdq",
    "session.enable_dq_matmulnbits_fusion",
    "session.enable_quant_qdq_cleanup",
    "session.force_spinning_stop",
    "session.graph_optimizations_loop_level",
    "session.inter_op.spin_backoff_max",
    "session.inter_op.spin_duration_us",
    "session.prepack.enable_parallel",
    "session.qdq_matmulnbits_accuracy_level",
    "session.qdq_matmulnbits_block_size",
    "session.qdqisint8allowed",
    "session.strict_shape_type_inference",
    "session.use_device_allocator_for_initializers",
    "session.use_env_allocators",
    "session.x64quantprecision",
)
ELSEWHERE = (
    "ep.dml.disable_graph_fusion",
    "ep.dml.disable_memory_arena",
    "ep.dml.enable_cpu_sync_spinning",
    "ep.dml.enable_graph_capture",
    "ep.dml.enable_graph_serialization",
    "mlas.enable_gemm_fastmath_arm64_bfloat16",
)
"""Config keys of other builds: DirectML's, and those for Arm."""

OPTIONS = {
    "optimization.enable_gelu_approximation": "gelu_approximation",
    "session.disable_prepacking": "prepacking",
    "session.dynamic_block_base": "dynamic_block_base",
    "session.inter_op.allow_spinning": "spinning",
    "session.intra_op.allow_spinning": "spinning",
    "session.intra_op.spin_backoff_max": "spin_backoff_max",
    "session.intra_op.spin_duration_us": "spin_duration_us",
    "session.intra_op_thread_affinities": "cores",
    "session.set_denormal_as_zero": "flush_denormals",
}
"""Config keys that have an option of their own, with the option's name."""


def read_entries(text: str, backend: str) -> dict[str, str]:
    """Returns the entries of `key=value; key=value`; raises a UsageError for an unknown key."""
    entries = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        key, sign, value = (piece.strip() for piece in part.partition("="))
        if not (key and sign and value):
            raise UsageError(
                f"The option 'entries' of {backend} holds '{part}', which is no key with a value.",
                "Write key=value; key=value.",
            )
        if key in OPTIONS:
            raise UsageError(
                f"The option 'entries' of {backend} names {key}, which has an option of its own.",
                f"Set '{OPTIONS[key]}' instead.",
            )
        if key not in KNOWN and key not in ELSEWHERE:
            raise UsageError(
                f"ONNX Runtime has no session config key '{key}'.", nearest(key, (*KNOWN, *ELSEWHERE, *OPTIONS))
            )
        entries[key] = value
    return entries


def core_list(text: str, backend: str) -> tuple[int, ...]:
    """Returns the numbers of a list such as `0-3,8`, in that order and each once."""
    cores: list[int] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        found = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        last = int(found[2] or found[1]) if found else -1
        if found is None or last < int(found[1]) or last - int(found[1]) > 4096:
            raise UsageError(
                f"The option 'cores' of {backend} holds '{part}', which is not a list of cores.",
                "Write numbers and ranges, as the system counts the logical cores: 0-3,8.",
            )
        cores.extend(range(int(found[1]), last + 1))
    known = os.cpu_count() or 1
    if cores and max(cores) >= known:
        raise UsageError(
            f"The option 'cores' of {backend} names core {max(cores)}, but this device has {known} logical cores.",
            f"Name cores from 0 to {known - 1}.",
        )
    # Windows and macOS do not report the cores that a process may use.
    allowed = usable_cores() or set(cores)
    outside = [core for core in cores if core not in allowed]
    if outside:
        raise UsageError(
            f"The option 'cores' of {backend} names core {outside[0]}, which this process may not run on.",
            f"Name cores that it may use: {', '.join(map(str, sorted(allowed)))}.",
        )
    return tuple(dict.fromkeys(cores))


def affinities(cores: tuple[int, ...]) -> str:
    """Returns the affinities in ONNX Runtime's format: an entry for each of its threads, cores from 1."""
    return ";".join(str(core + 1) for core in cores[1:])


def dimensions(text: str, backend: str) -> dict[str, int]:
    """Returns the sizes of `batch=1, sequence=128` by name."""
    sizes = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, size = (piece.strip() for piece in part.rpartition("="))
        if not name or not size.isdecimal() or int(size) == 0:
            raise UsageError(
                f"The option 'free_dimensions' of {backend} holds '{part}', which is no dimension with a size.",
                "Write the names of the model's dimensions with sizes from 1 on: batch=1, sequence=128.",
            )
        sizes[name] = int(size)
    return sizes


Count = Annotated[int, msgspec.Meta(ge=0)]

_ERRORS_ONLY = 3


class OrtOptions(msgspec.Struct, frozen=True):
    threads: Annotated[
        Threads, about("Threads within an operator; 0: the runtime's default", search=(0, 1), lean=1)
    ] = 0
    inter_threads: Annotated[Threads, about("Threads between operators; only with `execution_mode` parallel")] = 0
    cores: Annotated[
        str,
        about(
            "Logical cores to run on, one per thread and at least two: `0-3,8`; the first is for the calling "
            "thread, which is not pinned"
        ),
    ] = ""
    graph_level: Annotated[
        Literal["none", "basic", "extended", "layout", "all"],
        about(
            "Graph optimization level when loading; higher levels take longer",
            search=("basic", "extended", "layout", "all"),
        ),
    ] = "all"
    execution_mode: Annotated[
        Literal["sequential", "parallel"],
        about("One operator at a time, or parallel branches", search=("sequential", "parallel")),
    ] = "sequential"
    spinning: Annotated[
        bool,
        about("Waiting threads spin: faster on an idle machine, slower on a shared one", search=(True, False)),
    ] = True
    spin_duration_us: Annotated[
        Count | None, about("Time that a thread spins before it sleeps, in µs; empty: the runtime's default")
    ] = None
    spin_backoff_max: Annotated[
        Count | None, about("Maximum pauses between two checks of a spinning thread; empty: the runtime's default")
    ] = None
    dynamic_block_base: Annotated[
        Count, about("Splits work into shrinking blocks, for cores of different speed; 0: off", search=(0, 4))
    ] = 0
    arena: Annotated[
        bool, about("Keeps memory between runs instead of freeing it", search=(True, False), lean=False)
    ] = True
    arena_shrink: Annotated[bool, about("Frees unused arena memory after each run; costs time")] = False
    memory_pattern: Annotated[
        bool, about("Allocates one block per run while shapes stay the same", search=(True, False), lean=False)
    ] = True
    prepacking: Annotated[
        bool,
        about(
            "Reorders weights when loading: faster runs, more memory while both copies exist",
            search=(True, False),
            lean=False,
        ),
    ] = True
    flush_denormals: Annotated[
        bool,
        about(
            "Subnormal numbers become zero, which some CPUs compute much faster; applies to everything that the "
            "loading thread computes from then on",
            search=(False, True),
        ),
    ] = False
    deterministic: Annotated[bool, about("Only kernels with bitwise reproducible results")] = False
    gelu_approximation: Annotated[
        bool, about("Gelu by its tanh formula: faster, slightly different results", search=(False, True))
    ] = False
    free_dimensions: Annotated[
        str,
        about(
            "Fixes named input dimensions: `batch=1, sequence=128`; the runtime then knows all shapes when "
            "loading and accepts no others"
        ),
    ] = ""
    io_binding: Annotated[
        bool, about("Copies inputs to a buffer that is bound once per shape; no gain on a CPU")
    ] = False
    entries: Annotated[str, about("Other session config keys of ONNX Runtime: `key=value; key=value`")] = ""


def session_options(options: OrtOptions, backend: str = "ONNX Runtime") -> "SessionOptions":
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
    cores = core_list(options.cores, backend)
    made = onnxruntime.SessionOptions()
    made.log_severity_level = _ERRORS_ONLY
    made.intra_op_num_threads = options.threads or len(cores)
    made.inter_op_num_threads = options.inter_threads
    made.graph_optimization_level = levels[options.graph_level]
    made.execution_mode = modes[options.execution_mode]
    made.enable_cpu_mem_arena = options.arena
    made.enable_mem_pattern = options.memory_pattern
    made.use_deterministic_compute = options.deterministic
    for name, size in dimensions(options.free_dimensions, backend).items():
        made.add_free_dimension_override_by_name(name, size)
    for key, value in config_entries(options, backend).items():
        made.add_session_config_entry(key, value)
    return made


def config_entries(options: OrtOptions, backend: str = "ONNX Runtime") -> dict[str, str]:
    """Returns the session config entries for these options."""
    return _entries(options, core_list(options.cores, backend), backend) | read_entries(options.entries, backend)


def run_options(options: OrtOptions, gpu: int | None = None) -> "RunOptions | None":
    """Returns the options of a run, or None if all are defaults; `gpu` is the GPU with the provider's arena."""
    entries = run_entries(options, gpu)
    if not entries:
        return None
    import onnxruntime

    made = onnxruntime.RunOptions()
    for key, value in entries.items():
        made.add_run_config_entry(key, value)
    return made


def run_entries(options: OrtOptions, gpu: int | None = None) -> dict[str, str]:
    """Returns the run config entries for these options."""
    if not options.arena_shrink:
        return {}
    # The runtime refuses the name of a missing arena.
    arenas = [*(["cpu:0"] if options.arena else []), *([] if gpu is None else [f"gpu:{gpu}"])]
    if not arenas:
        raise UsageError(
            "The option 'arena_shrink' shrinks an arena that 'arena' turns off.", "Leave out one of the two."
        )
    return {"memory.enable_memory_arena_shrinkage": ";".join(arenas)}


def _check_cores(options: OrtOptions, cores: tuple[int, ...], backend: str) -> None:
    if options.threads not in {0, len(cores)}:
        number = "1 core" if len(cores) == 1 else f"{len(cores)} cores"
        raise UsageError(
            f"The option 'cores' of {backend} names {number} for {options.threads} threads.",
            f"Give as many cores as threads, or leave 'threads' out to run {len(cores)}.",
        )
    if len(cores) == 1:
        raise UsageError(
            f"The option 'cores' of {backend} names one core only, which is left to the thread that calls: ONNX "
            "Runtime would pin nothing.",
            f"Set 'threads' to 1, and pin the whole process: taskset -c {cores[0]} COMMAND.",
        )


def _entries(options: OrtOptions, cores: tuple[int, ...], backend: str) -> dict[str, str]:
    spinning = "1" if options.spinning else "0"
    entries = {"session.intra_op.allow_spinning": spinning, "session.inter_op.allow_spinning": spinning}
    if cores:
        _check_cores(options, cores, backend)
        entries["session.intra_op_thread_affinities"] = affinities(cores)
    if options.spin_duration_us is not None:
        entries["session.intra_op.spin_duration_us"] = str(options.spin_duration_us)
    if options.spin_backoff_max is not None:
        entries["session.intra_op.spin_backoff_max"] = str(options.spin_backoff_max)
    if options.dynamic_block_base:
        entries["session.dynamic_block_base"] = str(options.dynamic_block_base)
    if not options.prepacking:
        entries["session.disable_prepacking"] = "1"
    if options.flush_denormals:
        entries["session.set_denormal_as_zero"] = "1"
    if options.gelu_approximation:
        entries["optimization.enable_gelu_approximation"] = "1"
    return entries
