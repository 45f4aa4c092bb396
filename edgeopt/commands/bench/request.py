"""Request of `edgeopt bench`: its options, the sides they name, and the combinations that are rejected."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict, get_args

import msgspec

from edgeopt.bundle.request import Libraries, PicturesFile
from edgeopt.errors import UsageError
from edgeopt.importing.request import PythonPath, SourceOptions, Task, Trust
from edgeopt.options import DAY_S, FASTEST_PER_S, WEEK_S, argument, option
from edgeopt.pipeline.request import MAX_TOKENS

if TYPE_CHECKING:
    from edgeopt.backends.base import Options
    from edgeopt.commands.bench.generation import AnswerSettings
    from edgeopt.commands.bench.naming import NamedSide
    from edgeopt.commands.bench.sides import Settings
    from edgeopt.data.samples import Data
    from edgeopt.measure.report import Limits

Workload = Literal["steady", "generate", "cold", "paced", "sustained"]
WORKLOADS: tuple[Workload, ...] = get_args(Workload)

GENERATE = "generate"
SUBJECT = "MODEL|BUNDLE|URL"
SLOWEST_PER_S = 0.001
"""A run in a quarter of an hour: slower than that is no load."""
# What other commands that measure take as well.
BackendName = Annotated[str | None, option("Backend that runs the model; see `edgeopt backends`.")]
BackendOptions = Annotated[
    tuple[str, ...], option("Option of the backend; repeatable.", "--option", metavar="NAME=VALUE")
]
SamplesFile = Annotated[
    Path | None,
    option(
        "Samples: .npz, or a folder of .npy files or pictures (default: the bundle's golden inputs, or generated)."
    ),
]
Strict = Annotated[bool, option("Fail (exit code 4) if a runtime moves part of the model to another backend.")]


class Request(msgspec.Struct, frozen=True):
    subject: Annotated[
        str | None, argument("Model, bundle or address of a served model to measure.", metavar=SUBJECT)
    ] = None
    against: Annotated[
        tuple[str, ...],
        option(
            "Another side to measure, interleaved: a file, an address, a backend or options; repeatable.",
            metavar="OTHER",
        ),
    ] = ()
    baseline_command: Annotated[
        str | None, option("Your own program to measure as a side; it talks over a pipe.", metavar="COMMAND")
    ] = None
    url: Annotated[str | None, option("Address of a served model to measure (V2 protocol).")] = None
    backend: BackendName = None
    options: BackendOptions = ()
    threads: Annotated[
        str | None, option("Threads of every model: a number, or usable, physical or performance (cores).")
    ] = None
    data: SamplesFile = None
    pre: PicturesFile = None
    rounds: Annotated[
        int | None,
        option("Maximum interleaved rounds; stops early once the result is clear.", minimum=6, maximum=1000),
    ] = None
    time_limit_s: Annotated[
        float | None, option("Time limit of the rounds, in seconds.", minimum=1, maximum=DAY_S)
    ] = None
    load_timeout_s: Annotated[
        float | None,
        option(
            "Maximum time for a side to load, in seconds (default: 60; 900 on accelerators).",
            minimum=1,
            maximum=DAY_S,
        ),
    ] = None
    strict: Strict = False
    custom_ops: Libraries = ()
    duty: Annotated[
        str | None,
        option(
            "Workload: steady, generate (answers of language models, their default), cold (fresh processes), "
            "paced (--rate) or sustained (--minutes).",
        ),
    ] = None
    prompt_tokens: Annotated[
        int | None,
        option("Tokens of a prompt, with --duty generate (default: 64).", minimum=1, maximum=MAX_TOKENS),
    ] = None
    new_tokens: Annotated[
        int | None,
        option(
            "Tokens generated after a prompt, with --duty generate (default: 32).", minimum=2, maximum=MAX_TOKENS
        ),
    ] = None
    rate_per_s: Annotated[
        float | None, option("Runs per second of --duty paced.", minimum=SLOWEST_PER_S, maximum=FASTEST_PER_S)
    ] = None
    minutes: Annotated[
        float | None, option("Duration of --duty sustained, in minutes.", minimum=0.001, maximum=WEEK_S / 60)
    ] = None
    concurrency: Annotated[
        str | None,
        option("Numbers of concurrent threads in one session, measured one after the other.", metavar="1,2,4"),
    ] = None
    processes: Annotated[
        str | None, option("Numbers of concurrent sessions, each in its own process.", metavar="1,2")
    ] = None
    sweep: Annotated[
        str | None,
        option("Option, batch or dynamic axis to measure at each of its values.", metavar="NAME[=A,B]"),
    ] = None
    runs: Annotated[
        int | None,
        option("With --sweep: also report the total time to load and run N times.", minimum=1, maximum=10**12),
    ] = None
    counters: Annotated[bool, option("Count cache misses and other hardware events.")] = False
    save: Annotated[
        Path | None, option("JSON file to write the report to; `edgeopt cost` reads it.", metavar="FILE")
    ] = None
    max_slowdown: Annotated[
        str | None,
        option(
            "Fail (exit code 4) if the first side is proved slower than another by more than this.", metavar="2%"
        ),
    ] = None
    min_speedup: Annotated[
        str | None,
        option(
            "Fail (exit code 4) unless the first side is proved this many times as fast as every other side.",
            metavar="1.1",
        ),
    ] = None

    undecided: Annotated[
        str,
        option(
            "Result if --max-slowdown lies inside the interval: pass, or fail (exit code 4).", metavar="pass|fail"
        ),
    ] = "pass"
    python: PythonPath = None
    task: Task = ""
    trust: Trust = False

    @property
    def limits(self) -> "Limits":
        """Limits from the options; raises UsageError for an invalid one."""
        from edgeopt.commands.bench.limits import read_limits

        return read_limits(self.max_slowdown, self.min_speedup, self.undecided)

    @property
    def settings(self) -> "Settings":
        from edgeopt.commands.bench.sides import Settings

        source = SourceOptions(self.python, self.task, self.trust)
        return Settings(
            self.data,
            self.custom_ops,
            self.strict,
            self.counters,
            self.threads,
            self.load_timeout_s,
            source,
            self.pre,
            self._generation,
        )

    @property
    def may_generate(self) -> bool:
        """Whether answers are measured if all sides are language models."""
        special = self.concurrency or self.processes or self.sweep or self.counters or self.pre
        is_text = self.data is None or is_text_data(self.data)
        return self.duty == GENERATE or (self.duty is None and not special and is_text)

    @property
    def _generation(self) -> "AnswerSettings | None":
        """Settings of the answers to measure; None if nothing is generated."""
        from edgeopt.commands.bench.generation import AnswerSettings
        from edgeopt.measure.workloads.records import GenerateRules

        if not self.may_generate:
            return None
        values = {
            "prompt_tokens": self.prompt_tokens,
            "new_tokens": self.new_tokens,
            "rounds": self.rounds,
            "time_limit_s": self.time_limit_s,
            "load_patience_s": self.load_timeout_s,
        }
        known = {name: value for name, value in values.items() if value is not None}
        required = self.duty == GENERATE or self.prompt_tokens is not None or self.new_tokens is not None
        return AnswerSettings(msgspec.structs.replace(GenerateRules(), **known), required)


class WatchRequest(msgspec.Struct, frozen=True):
    subject: Annotated[
        str,
        argument(
            "Model or bundle to run, as FILE[@BACKEND[,option=value...]], or the address of a served model.",
            metavar=SUBJECT,
        ),
    ]
    data: SamplesFile = None
    pre: PicturesFile = None
    rate_per_s: Annotated[
        float | None,
        option(
            "Runs per second (default: as many as possible).",
            minimum=SLOWEST_PER_S,
            maximum=FASTEST_PER_S,
        ),
    ] = None
    seconds: Annotated[
        float | None, option("Duration, in seconds (default: until Ctrl-C).", minimum=0.001, maximum=WEEK_S)
    ] = None
    backend: BackendName = None
    options: BackendOptions = ()
    threads: Annotated[str | None, option("Threads: a number, or usable, physical or performance (cores).")] = None
    strict: Strict = False
    custom_ops: Libraries = ()


class CommonBenchKeywords(TypedDict, total=False):
    """Keywords of `edgeopt.bench` for every kind of measurement."""

    against: str | Path | Sequence[str | Path]
    baseline_command: str | None
    url: str | None
    backend: str | None
    options: "Options | None"
    threads: int | str | None
    data: "Data | None"
    pre: str | Path | None
    rounds: int | None
    time_limit_s: float | None
    load_timeout_s: float | None
    strict: bool
    custom_ops: Iterable[str | Path]
    counters: bool
    save: str | Path | None
    max_slowdown: float | str | None
    min_speedup: float | str | None
    undecided: Literal["pass", "fail"]
    python: str | Path | None
    task: str
    trust: bool


class BenchKeywords(CommonBenchKeywords, total=False):
    """Keywords of `edgeopt.bench`; a test compares them with the request."""

    duty: Workload | None
    rate_per_s: float | None
    minutes: float | None
    concurrency: Iterable[int]
    processes: Iterable[int]
    sweep: str | None
    runs: int | None
    prompt_tokens: int | None
    new_tokens: int | None


def sides_of(request: Request) -> "list[NamedSide]":
    """Returns the first side and those that it is measured against; raises UsageError."""
    from edgeopt.commands.bench.naming import address, first_side, other_side, program, read_options

    options = read_options(list(request.options))
    if request.subject is not None and request.url is not None:
        raise UsageError("The first side and --url exclude each other.", "Give one of them with --against.")
    if request.subject is not None:
        first = first_side(request.subject, request.backend, options)
    elif request.url is not None:
        first = first_side(address(request.url).what, request.backend, options)
    elif request.baseline_command is not None:
        if request.against:
            raise UsageError(
                "--against needs a model, bundle or URL to measure.", "edgeopt bench MODEL --against OTHER"
            )
        if request.backend is not None or options:
            raise UsageError(
                "--backend and --option are for models; a program chooses its own.", "Set them in its command."
            )
        return [program(request.baseline_command)]
    else:
        raise UsageError(f"Missing argument '{SUBJECT}'.", "See: edgeopt bench --help")
    sides = [first, *(other_side(text, first) for text in request.against)]
    if request.baseline_command is not None:
        sides.append(program(request.baseline_command))
    return sides


def check(request: Request) -> None:
    """Raises UsageError for what cannot be asked together."""
    duty = request.duty or "steady"
    if duty not in WORKLOADS:
        raise UsageError(f"There is no duty '{request.duty}'.", f"--duty takes: {', '.join(WORKLOADS)}.")
    in_turns = not (request.concurrency or request.processes) and duty in {"steady", GENERATE}
    only_with = (
        ("--rate", request.rate_per_s, "--duty paced", request.duty == "paced"),
        ("--minutes", request.minutes, "--duty sustained", request.duty == "sustained"),
        ("--prompt-tokens", request.prompt_tokens, "--duty generate", request.may_generate),
        ("--new-tokens", request.new_tokens, "--duty generate", request.may_generate),
        ("--runs", request.runs, "--sweep", request.sweep is not None),
    )
    only_without = (
        ("--time-limit", request.time_limit_s is not None, "interleaved contests and sweeps", in_turns),
        ("--load-timeout", request.load_timeout_s is not None, "interleaved contests and sweeps", in_turns),
        ("--rounds", request.rounds is not None, "measurements in rounds", request.duty != "sustained"),
        ("--pre", request.pre is not None, "models that take pictures", request.duty != GENERATE),
        (
            "--counters",
            request.counters,
            "interleaved contests",
            in_turns and duty == "steady" and request.sweep is None,
        ),
    )
    for flag, is_set, what, applies in only_without:
        if is_set and not applies:
            raise UsageError(f"{flag} is for {what} and has no effect here.", f"Leave {flag} out.")
    for flag, value, needs, applies in only_with:
        if value is not None and not applies:
            raise UsageError(f"{flag} needs {needs}.", f"Add {needs}, or leave {flag} out.")
    if request.duty == "paced" and request.rate_per_s is None:
        raise UsageError("--duty paced needs a rate.", "Add the runs per second: --rate 30")
    special = [
        name
        for name, is_set in (
            (f"--duty {request.duty}", duty != "steady"),
            ("--concurrency or --processes", bool(request.concurrency or request.processes)),
            ("--sweep", request.sweep is not None),
        )
        if is_set
    ]
    if len(special) > 1:
        raise UsageError(f"{special[0]} and {special[1]} exclude each other.", "Measure one after the other.")
    if request.sweep is not None and (request.against or request.baseline_command):
        raise UsageError("--sweep measures one side with several values.", "Leave out --against.")


def is_text_data(data: Path) -> bool:
    """Whether the data can only be a text, not arrays or pictures."""
    return data.suffix not in {".npz", ".npy"} and not data.is_dir()


def levels(text: str | None, flag: str) -> tuple[int, ...]:
    """Reads `1,2,4` as numbers; raises UsageError."""
    if text is None:
        return ()
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and 1 <= int(part) <= 256 for part in parts):
        raise UsageError(f"{flag} takes numbers from 1 to 256, not '{text}'.", f"Such as {flag} 1,2,4")
    return tuple(sorted({int(part) for part in parts}))
