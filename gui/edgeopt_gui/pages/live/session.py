"""The state of the page Live without Qt: history, watched subject, agent, and the previous subject."""

from typing import Literal

from edgeopt.events import Event, Log, Metric, Progress
from edgeopt.units import count
from edgeopt_gui.pages.live import panels
from edgeopt_gui.pages.live.agent import AgentRecord
from edgeopt_gui.pages.live.history import History
from edgeopt_gui.pages.live.readouts import PERCENTILES, Readout, read
from edgeopt_gui.plots.spec import Level
from edgeopt_gui.plots.ticks import latency_text

Effect = Literal["sample", "serves", "step", "settled", "models", "away", "back", "text"]
"""The effect of an event on the session.

`settled` means that a deployment has ended; `serves`, that a sample comes from an agent whose status says that it
serves nothing; `models`, that the agent has one model more or less.
"""
_ASK_AGAIN_S = 1.0


class Session:
    def __init__(self) -> None:
        self.history = History()
        self.name = ""
        """Name of the subject that is watched, or was watched last."""
        self.inputs = ""
        """The inputs of its runs, in a few words."""
        self.agent: AgentRecord | None = None
        self.missing: dict[str, str] = {}
        self.phase = ""
        """The command's phase before the first sample."""
        self.problem = ""
        """The last problem that the watch reported."""
        self.sampled = False
        """Whether what is watched now has given any sample."""
        self._doubted_s = 0.0
        self._p50_ms: float | None = None
        self._before: tuple[str, float] | None = None
        self._url, self._url_before = "", ""
        self._first_marker = ""
        """Label of the marker that the first event of the watch sets; "" after that."""

    def begin(self, name: str, agent_url: str, again: bool = False, model: str = "", inputs: str = "") -> None:
        """Something is watched from now on, on this machine where there is no agent; `again`: in another way.

        `model` is the one of the agent that is watched; `inputs` says in a few words what it runs on.

        Its marker comes with its first event, so that a refused connection leaves none.
        """
        if agent_url != self._url:
            self.forget()
        if name != self.name:
            if self._p50_ms is not None:
                self._before = (self.name, self._p50_ms)
                self._url_before = self._url
            self._p50_ms = None
            self.missing.clear()
        self._url = agent_url
        if not agent_url:
            self.agent = None
        elif self.agent is None or self.agent.url != agent_url:
            self.agent = AgentRecord(agent_url, model)
        elif self.agent.model != model:
            self.agent = AgentRecord(agent_url, model, self.agent.status)
        else:
            self.agent.away = False  # a watch begins with an agent that answers, or not at all
        self.name, self.phase, self.problem, self.sampled = name, "", "", False
        self.inputs = inputs
        self.history.begin()
        if not again:
            self._first_marker = f"connected to {name}" if agent_url else f"started {name}"

    def end(self, what: str, now_s: float) -> None:
        """Ends the watch, with a marker that says what happened in a word or two."""
        self.history.interrupt()
        if not self._first_marker and self.history.moments:
            self.history.mark(what, now_s)

    def take(self, event: Event, now_s: float) -> Effect:
        if self._first_marker:
            self.history.mark(self._first_marker, now_s)
            self._first_marker = ""
        if isinstance(event, Metric):
            return self._take_metric(event, now_s)
        if isinstance(event, Progress):
            return self._take_progress(event, now_s)
        if isinstance(event, Log):
            return self._take_log(event, now_s)
        return "text"

    def clear(self) -> None:
        self.history.clear()
        self._before = None

    def forget(self) -> None:
        """Clears the data of the previous subject, except its name and p50, which are for comparison."""
        self.history.latest.clear()
        self.history.clear()
        self.missing.clear()
        self.problem = ""

    def readouts(self) -> tuple[Readout, ...]:
        return read(self.history, self.missing)

    def level(self) -> Level | None:
        """Returns the p50 of the previous subject as a level to compare with; None if they are not comparable."""
        if self._before is None or not self._alike:
            return None
        name, p50_ms = self._before
        return Level(panels.P50, p50_ms, f"{name}: p50 {latency_text(p50_ms)}")

    def comparison(self) -> str:
        """Returns a sentence that compares with the previous subject; not interleaved, so only a hint."""
        now = self.history.latest.get(panels.P50)
        if self._before is None or now is None or not self._alike:
            return ""
        name, before = self._before
        return f"p50 of {name} before: {latency_text(before)}; now: {latency_text(now)}."

    @property
    def _alike(self) -> bool:
        """Whether both subjects have the same agent, or none: a request includes more than a run."""
        return self._url == self._url_before

    def state(self, running: bool, stopping: bool, paused_at: int | None) -> str:
        """Returns the state in a few words; `paused_at` is the number of samples when drawing was paused."""
        if paused_at is not None:
            return f"Paused, {self.history.moments - paused_at:,} new samples"
        if stopping:
            return "Stopping"
        if not running:
            return "Stopped"
        if self.agent is not None and self.agent.away:
            return "Waiting for the agent"
        return "Running" if self.sampled else "Starting"

    def measured(self) -> str:
        """Returns what was measured, in a few words: the runs, their inputs and where they ran."""
        runs = self.history.latest.get(panels.RUNS)
        where = "" if self._url else "on this device"
        parts = ("" if runs is None else count(int(runs), "run"), where, self.inputs)
        return ", ".join(part for part in parts if part)

    def caption(self) -> str:
        """Returns the caption for a picture of the charts: the subject's name and its percentiles."""
        latest = self.history.latest
        parts = [f"{label} {latency_text(latest[key])}" for key, label in PERCENTILES if key in latest]
        return "  ·  ".join([self.name, *parts])

    def _take_metric(self, event: Metric, now_s: float) -> Effect:
        self.sampled = True
        self.history.take(event, now_s)
        if event.name == panels.P50:
            self._p50_ms = event.value
        return "serves" if event.name == panels.PROCESS_MEMORY and self._serves_after_all(now_s) else "sample"

    def _serves_after_all(self, now_s: float) -> bool:
        """Whether the status, by which nothing is served, may be outdated; true at most once a second."""
        agent = self.agent
        if agent is None or agent.status is None or agent.serves_something:
            return False
        if now_s - self._doubted_s < _ASK_AGAIN_S:
            return False
        self._doubted_s = now_s
        return True

    def _take_progress(self, event: Progress, now_s: float) -> Effect:
        if self.agent is None or not event.subject:
            self.phase = f"{event.phase[:1].upper()}{event.phase[1:]} {event.message}".strip()
            return "text"
        time_s = now_s if event.time_s is None else event.time_s + self.history.clock_off_s
        step = self.agent.take_progress(event, time_s)
        if step is None:
            return "text"
        if step.marker:
            self.history.mark(step.marker, time_s)
        return "settled" if step.final else "step"

    def _take_log(self, event: Log, now_s: float) -> Effect:
        if event.kind == "no-metric":
            self.missing[event.subject] = event.reason
            return "text"
        if event.level == "warning":
            self.problem = event.message
        if self.agent is not None and event.kind == "models-changed":
            return "models"
        if self.agent is not None and event.kind == "agent-away" and not self.agent.away:
            return self._agent_went(self.agent, now_s)
        if self.agent is not None and event.kind == "agent-back" and self.agent.away:
            return self._agent_came_back(self.agent, now_s)
        return "text"

    def _agent_went(self, agent: AgentRecord, now_s: float) -> Effect:
        agent.away = True
        self.history.interrupt()
        self.history.latest.clear()
        self.history.mark("agent lost", now_s)
        return "away"

    def _agent_came_back(self, agent: AgentRecord, now_s: float) -> Effect:
        """Marks the agent as back once it is connected: the page's own requests can succeed without it."""
        agent.away = False
        self.problem = ""
        self.history.mark("agent is back", now_s)
        return "back"
