"""One tick of live telemetry: what the requests, the processes and the device did since the last one."""

import os
import time

from edgeopt.events import Metric
from edgeopt.hw.load import LoadSampler, process_memory_bytes
from edgeopt_agent.telemetry.window import LatencyWindow
from edgeopt_agent.workers.router import Router
from edgeopt_agent.workers.totals import Totals

TICKS_PER_S = 10
_WINDOW_TICKS = 10 * TICKS_PER_S
_SHARES = {"latency_p50_ms": 0.5, "latency_p90_ms": 0.9, "latency_p99_ms": 0.99}


class Sampler:
    """Listens to the router from `start` to `stop`; before and after it costs nothing."""

    def __init__(self, router: Router, model: str = "") -> None:
        self._model = model
        self._router = router
        self._window = LatencyWindow(_WINDOW_TICKS)
        self._texts = TextWindow()
        self._load = LoadSampler()
        self._load.sample()  # load and text metrics are differences between two
        self._text_metrics()
        router.watchers.append(self._saw)

    def stop(self) -> None:
        self._router.watchers.remove(self._saw)

    def missing(self) -> dict[str, str]:
        """Returns the metrics that this device cannot provide, each with the reason."""
        found = dict(self._load.sample().unavailable)
        found.pop("load_percent", None)  # told again a tick later
        found.pop("memory_total_bytes", None)
        return {"device_memory_bytes" if key == "memory_used_bytes" else key: why for key, why in found.items()}

    def tick(self) -> list[Metric]:
        window = self._window
        window.tick()
        device = self._load.sample()
        worker = self._router.serving
        values: dict[str, float | None] = {
            **dict(zip(_SHARES, window.quantiles(_SHARES.values()), strict=False)),
            "percentile_runs": float(window.count(_WINDOW_TICKS)) or None,
            "throughput_per_s": float(window.count(TICKS_PER_S)),
            **self._text_metrics(),
            "process_memory_bytes": process_memory_bytes(worker.pid) if worker else None,
            "agent_memory_bytes": process_memory_bytes(os.getpid()),
            "device_memory_bytes": device.memory_used_bytes,
            "load_percent": device.load_percent,
            "temperature_c": device.temperature_c,
            "clock_hz": device.clock_hz,
        }
        now = time.time()
        metrics = [
            Metric(name, float(value), self._model, now) for name, value in values.items() if value is not None
        ]
        last = window.last()
        if last is not None:
            metrics.insert(0, Metric("latency_ms", last, self._model, now, samples=window.last_values()))
        return metrics

    def _saw(self, _release: str, ok: bool, latency_ms: float, _reason: str, _request: int) -> None:
        if ok:
            self._window.add(latency_ms)

    def _text_metrics(self) -> dict[str, float | None]:
        worker = self._router.serving
        if worker is None or worker.why_no_text:
            return {}
        return self._texts.tick(self._router.totals_of_worker(worker))


class TextWindow:
    """Times of the texts that ended in the last seconds, from the counters of a release."""

    def __init__(self) -> None:
        self._first_ms, self._token_ms = LatencyWindow(_WINDOW_TICKS), LatencyWindow(_WINDOW_TICKS)
        self._totals: Totals | None = None
        self._before = (0, 0.0, 0, 0.0)

    def tick(self, totals: Totals) -> dict[str, float | None]:
        """Returns the metrics of a tick; several texts that end in one tick count as one, with their mean."""
        now = (sum(totals.first_tokens), totals.first_token_s, totals.generated_tokens, totals.decode_s)
        if totals is self._totals:
            texts, first_s, tokens, decode_s = (new - old for new, old in zip(now, self._before, strict=True))
            if texts:
                self._first_ms.add(first_s / texts * 1e3)
            if tokens > texts and decode_s > 0:
                self._token_ms.add(decode_s / (tokens - texts) * 1e3)
        self._totals, self._before = totals, now
        for window in (self._first_ms, self._token_ms):
            window.tick()
        first_ms, token_ms = (next(iter(w.quantiles((0.5,))), None) for w in (self._first_ms, self._token_ms))
        return {
            "first_token_p50_ms": first_ms,
            "tokens_per_s": 1e3 / token_ms if token_ms else None,
            "generated_tokens": float(totals.generated_tokens),
        }
