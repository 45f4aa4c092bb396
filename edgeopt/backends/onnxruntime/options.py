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
    threads: Annotated[
        Threads, about("Threads within an operator; 0 is the runtime's own choice", search=(0, 1))
    ] = 0
    inter_threads: Annotated[
        Threads, about("Threads between operators; used with `execution_mode` parallel only")
    ] = 0
    cores: Annotated[
        str,
        about(
            "The logical cores to run on, one for each thread and two at least: `0-3,8`; the first is left to the "
            "thread that calls, which the runtime does not pin"
        ),
    ] = ""
    graph_level: Annotated[
        Literal["none", "basic", "extended", "layout", "all"],
        about(
            "How far the runtime rewrites the graph when it loads it; more takes longer",
            search=("basic", "extended", "layout", "all"),
        ),
    ] = "all"
    execution_mode: Annotated[
        Literal["sequential", "parallel"],
        about("One operator at a time, or several branches of the graph", search=("sequential", "parallel")),
    ] = "sequential"
    spinning: Annotated[
        bool,
        about(
            "Threads that wait burn their core: faster on an idle machine, slower on a shared one",
            search=(True, False),
        ),
    ] = True
    spin_duration_us: Annotated[
        Count | None, about("How long a thread spins before it sleeps; empty is the runtime's own choice")
    ] = None
    spin_backoff_max: Annotated[
        Count | None,
        about("The most pauses between two looks of a spinning thread; empty is the runtime's own choice"),
    ] = None
    dynamic_block_base: Annotated[
        Count,
        about("Splits work into blocks that shrink, for cores of different speed; 0 is off", search=(0, 4)),
    ] = 0
    arena: Annotated[bool, about("Keeps memory between runs instead of giving it back", search=(True, False))] = (
        True
    )
    arena_shrink: Annotated[
        bool, about("Gives back after each run what the arena does not need any more; costs time")
    ] = False
    memory_pattern: Annotated[
        bool, about("Takes one block for a whole run when the shapes stay the same", search=(True, False))
    ] = True
    prepacking: Annotated[
        bool,
        about(
            "Re-orders weights when it loads them: faster runs, more memory while both stand there",
            search=(True, False),
        ),
    ] = True
    flush_denormals: Annotated[
        bool,
        about(
            "Numbers close to zero become zero, which some processors compute much faster; so it is from then on "
            "with all that the thread computes which loads the model",
            search=(False, True),
        ),
    ] = False
    deterministic: Annotated[bool, about("Only kernels that give the same bits at every run")] = False
    gelu_approximation: Annotated[
        bool, about("Gelu by its tanh formula: faster, slightly different numbers", search=(False, True))
    ] = False
    free_dimensions: Annotated[
        str,
        about(
            "Named dimensions of the inputs fixed to a size: `batch=1, sequence=128`; the runtime then knows all "
            "shapes when it loads the model, and takes no others"
        ),
    ] = ""
    io_binding: Annotated[
        bool,
        about("Inputs are copied to one place that is bound once for each shape; on a processor it gains nothing"),
    ] = False
    entries: Annotated[
        str, about("Further session config keys of ONNX Runtime: `key=value; key=value`; only those that it has")
    ] = ""


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
