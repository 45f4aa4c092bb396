"""The panels of the live charts, and the names of the metrics that they draw."""

from edgeopt_gui.plots.spec import CurveSpec, PanelSpec

LATENCY, P50, P90, P99 = "latency_ms", "latency_p50_ms", "latency_p90_ms", "latency_p99_ms"
THROUGHPUT, RUNS, PERCENTILE_RUNS = "throughput_per_s", "runs", "percentile_runs"
TOKENS_PER_S, FIRST_TOKEN, GENERATED = "tokens_per_s", "first_token_p50_ms", "generated_tokens"
PROCESS_MEMORY, DEVICE_MEMORY = "process_memory_bytes", "device_memory_bytes"
LOAD, TEMPERATURE, CLOCK = "load_percent", "temperature_c", "clock_hz"

_MIB = 1 / 2**20

# What spreads most is painted first, so that the percentiles stay visible on top of it.
PANELS: tuple[PanelSpec, ...] = (
    PanelSpec(
        "Latency",
        "ms",
        (
            CurveSpec(LATENCY, "median", None, "the median of 0.1 s"),
            CurveSpec(P99, "p99", 1),
            CurveSpec(P90, "p90", 4),
            CurveSpec(P50, "p50", 0),
        ),
        share=5,
        small=("µs", 1e3),
        spread=(P50, P99),
    ),
    PanelSpec("Tokens per second", "median of 10 s", (CurveSpec(TOKENS_PER_S, "tokens per second", 0),)),
    PanelSpec("First token", "ms, median of 10 s", (CurveSpec(FIRST_TOKEN, "first token", 4),)),
    PanelSpec("Process memory", "MiB", (CurveSpec(PROCESS_MEMORY, "process", 3),), _MIB),
    PanelSpec("Device memory in use", "MiB", (CurveSpec(DEVICE_MEMORY, "device", 2),), _MIB),
    PanelSpec("Load", "% of all cores", (CurveSpec(LOAD, "load", 5),), highest=100.0),
    PanelSpec("Temperature", "°C", (CurveSpec(TEMPERATURE, "temperature", 1),), minimum=10.0),
    PanelSpec("Clock", "GHz", (CurveSpec(CLOCK, "clock", 6),), 1e-9),
)
