"""What can be set on an ONNX Runtime session, whatever provider runs it."""

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from edgeopt.backends.onnxruntime.config_keys import read_entries
from edgeopt.backends.onnxruntime.texts import affinities, core_list, dimensions
from edgeopt.backends.options import Threads, about
from edgeopt.errors import UsageError

if TYPE_CHECKING:
    from onnxruntime import RunOptions, SessionOptions

Count = Annotated[int, msgspec.Meta(ge=0)]

_ERRORS_ONLY = 3


class OrtOptions(msgspec.Struct, frozen=True):
    threads: Annotated[Threads, about("Threads within an operator; 0: the runtime's default", search=(0, 1))] = 0
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
        about(
            "Waiting threads spin: faster on an idle machine, slower on a shared one",
            search=(True, False),
        ),
    ] = True
    spin_duration_us: Annotated[
        Count | None, about("Time that a thread spins before it sleeps, in µs; empty: the runtime's default")
    ] = None
    spin_backoff_max: Annotated[
        Count | None,
        about("Maximum pauses between two checks of a spinning thread; empty: the runtime's default"),
    ] = None
    dynamic_block_base: Annotated[
        Count,
        about("Splits work into shrinking blocks, for cores of different speed; 0: off", search=(0, 4)),
    ] = 0
    arena: Annotated[bool, about("Keeps memory between runs instead of freeing it", search=(True, False))] = True
    arena_shrink: Annotated[bool, about("Frees unused arena memory after each run; costs time")] = False
    memory_pattern: Annotated[
        bool, about("Allocates one block per run while shapes stay the same", search=(True, False))
    ] = True
    prepacking: Annotated[
        bool,
        about(
            "Reorders weights when loading: faster runs, more memory while both copies exist",
            search=(True, False),
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
        bool,
        about("Copies inputs to a buffer that is bound once per shape; no gain on a CPU"),
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
    """The session config entries that the options come to."""
    return _entries(options, core_list(options.cores, backend), backend) | read_entries(options.entries, backend)


def run_options(options: OrtOptions, gpu: int | None = None) -> "RunOptions | None":
    """None where a run needs nothing special; `gpu` is the one whose memory the provider keeps in an arena."""
    entries = run_entries(options, gpu)
    if not entries:
        return None
    import onnxruntime

    made = onnxruntime.RunOptions()
    for key, value in entries.items():
        made.add_run_config_entry(key, value)
    return made


def run_entries(options: OrtOptions, gpu: int | None = None) -> dict[str, str]:
    """The run config entries that the options come to."""
    if not options.arena_shrink:
        return {}
    # The runtime refuses the name of an arena that it does not have.
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
