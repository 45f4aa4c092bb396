"""The page Live: watches a model or bundle here, or an agent.

`view` draws, `session` holds the data.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from edgeopt.events import Event
from edgeopt.fleet.transport import NO_MODEL
from edgeopt_gui.actions.book import ActionBook
from edgeopt_gui.agents import commands
from edgeopt_gui.agents.access_dialog import wants_access, ways_on
from edgeopt_gui.agents.known import known_address
from edgeopt_gui.context import Context
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.pages.base import Page
from edgeopt_gui.pages.live.absent import awaited, nothing_of
from edgeopt_gui.pages.live.agent_link import AgentLink
from edgeopt_gui.pages.live.choices import BUNDLE, MODEL, Choice
from edgeopt_gui.pages.live.commands import watch_here
from edgeopt_gui.pages.live.giving_way import GivingWay
from edgeopt_gui.pages.live.model_choice import ModelChoice
from edgeopt_gui.pages.live.situation import Situation, shown, why_not_start
from edgeopt_gui.pages.live.stepwise import StepwiseImport
from edgeopt_gui.pages.live.watcher import Watcher
from edgeopt_gui.widgets.action_button import ActionButton

if TYPE_CHECKING:
    from edgeopt_gui.pages.live.exports import Exports
    from edgeopt_gui.pages.live.session import Session
    from edgeopt_gui.pages.live.view import LiveView

AGENT_URL = "agent.url"
# These import numpy and pyqtgraph, which take half a second; the first window does not wait for them.
_SLOW_TO_IMPORT = "edgeopt_gui.pages.live.view"


class LivePage(Page):
    MEASURES = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.session: Session | None = None
        self.view: LiveView | None = None
        self._exports: Exports | None = None
        self.paused_at: int | None = None
        """Number of samples when drawing was paused; None while it is not paused."""
        self.url = ""
        """Address of the watched agent; "" for this machine."""
        self._choice = Choice(context)
        self.model = ModelChoice()
        self._watched: Command | None = None
        self._failure: Ending | None = None
        self._connected = False
        self._book: ActionBook | None = None
        self._charts = StepwiseImport(_SLOW_TO_IMPORT, self._show_charts, self)
        self._watcher = Watcher(context.jobs, self)
        self.giving_way = GivingWay(context.jobs, self._give_way, self)
        self.giving_way.changed.connect(self._gave_way)
        self._watcher.event_received.connect(self._take_event)
        self._watcher.ended.connect(self._ended)
        self._link = AgentLink(context.jobs, self)
        self._link.doing.connect(self._show_doing)
        self._link.failed.connect(self._show_failure)
        self._link.answered.connect(self._answered)
        context.subject_changed.connect(self._prefer_what_was_opened)
        context.bundle_changed.connect(self._prefer)
        context.data_changed.connect(self._settle)
        context.watch_requested.connect(self.watch)
        context.agent_requested.connect(self.connect_to)
        self._settle()

    def start(self) -> None:
        self._with_charts(self._start)

    def watch(self, path: Path) -> None:
        """Watches the open model or the latest bundle on this machine, without waiting for the user."""
        if self.url:
            self.leave_agent()
        self._prefer(BUNDLE if path == self.context.bundle else MODEL)
        now = self.situation
        # A running watch is stopped for the one that was asked for.
        if now.start != now.watched and not why_not_start(replace(now, watched=None, stopping=False)):
            self.start()

    def stop(self) -> None:
        self._watcher.stop()
        self._settle()

    def _give_way(self, command: Command) -> bool:
        gives_way = self._watcher.running and (self._loads or command.alone)
        if gives_way:
            self._watcher.stop()
        return gives_way

    def _gave_way(self) -> None:
        if self.view is not None and self.giving_way.paused_for:
            retry = "" if self.giving_way.measuring else "live.start"
            self.view.message.show_ending(Ending("cancelled", {}, self.giving_way.sentence, ""), retry)
        self._settle()

    @property
    def _loads(self) -> bool:
        """Whether the watch loads a device; an agent is only observed unless requests are sent to it."""
        return not self.url or (self.view is not None and self.view.agent.send_per_s is not None)

    def pause(self) -> None:
        """Pauses or resumes drawing; samples continue to arrive meanwhile."""
        if self.session is None or self.view is None:
            return
        moments = self.session.history.moments
        self.paused_at = moments if self.paused_at is None else None
        self.session.history.mark("paused" if self.paused_at is not None else "resumed", time.time())
        self.view.chart.freeze(self.paused_at is not None)
        self._settle()

    def clear(self) -> None:
        if self.session is not None and self.view is not None:
            self.session.clear()
            self.paused_at = 0 if self.paused_at is not None else None
            self.view.chart.clear()
            self._show_marks()
            self._settle()

    def save_csv(self, path: Path) -> None:
        """Writes all samples of the history, in a thread."""
        if self.session is not None and self._exports is not None:
            self._exports.csv(self.session.history.snapshot(), path)

    def save_png(self, path: Path) -> None:
        """Writes the charts as they are shown, in a thread."""
        if self.session is not None and self.view is not None and self._exports is not None:
            self._exports.png(self.view.picture(self.session.caption()), path)

    def connect_to(self, url: str) -> None:
        if known_address(url):
            self.context.settings.keep(AGENT_URL, url)
        if url != self.url:
            self.url = url
            self.model.choose("")
            self._leave()
        self._with_charts(self._start)

    def choose_model(self, name: str) -> None:
        """Watches another model of the agent; empty for its first one."""
        if name != self.model.name:
            self.model.choose(name)
            self._leave()
            self._with_charts(self._start)

    def leave_agent(self) -> None:
        """Returns to the subject of this machine."""
        self.url = ""
        self.model.choose("")
        self._leave()

    def _leave(self) -> None:
        """Ends the watch and clears what it showed: the page is about something else now."""
        self._failure, self._connected = None, False
        self.giving_way.resume()
        self._watcher.stop()
        if self.session is not None and self.view is not None:
            self.session.forget()
            self._unfreeze()
            self.view.chart.clear()
            self.view.message.hide()
            self._show_marks()
        self._settle()

    def _unfreeze(self) -> None:
        self.paused_at = None
        if self.view is not None:
            self.view.chart.freeze(False)

    def roll_back(self) -> None:
        self._link.change(self.command_of_roll_back(), "live.rollback", self.url)

    @property
    def situation(self) -> Situation:
        session = self.session
        return Situation(
            start=self.command_of_start(),
            watched=self._watched if self._watcher.running else None,
            stopping=self._watcher.stopping,
            url=self.url,
            agent=session.agent if session is not None else None,
            connected=self._connected,
            changing=self._link.changing,
            has_bundle=self.context.bundle is not None,
            sampled=session is not None and session.sampled,
            moments=session.history.moments if session is not None else 0,
            follows=self.view is not None and self.view.chart.span.follows,
            has_budget=self.view is not None and self.view.runs.budget_ms is not None,
            writing=self._exports is not None and self._exports.writing,
            failed=self._failure is not None,
            measuring=self.giving_way.measuring if self._loads else "",
        )

    def watched(self) -> str:
        return self.session.name if self.session is not None and self._watcher.running else ""

    def command(self) -> Command | None:
        return self.situation.watched or self.command_of_start()

    def key_to_measure(self) -> str:
        return "live.clear" if self._watcher.running else "live.start"

    def has_measured(self) -> bool:
        return self.session is not None and bool(self.session.history.moments)

    def command_of_start(self) -> Command | None:
        view, data = self.view, self.context.data
        if self.url:
            send_per_s = view.agent.send_per_s if view else None
            return commands.watch_agent(self.url, send_per_s, data, self.model.name)
        subject = self._choice.subject
        rate = view.rate.value() if view is not None else 0.0
        return None if subject is None else watch_here(subject.path, data, rate or None)

    def command_of_deploy(self) -> Command | None:
        bundle = self.context.bundle
        return commands.deploy(bundle, self.url) if self.url and bundle is not None else None

    def command_of_roll_back(self) -> Command | None:
        return commands.roll_back(self.url, self.model.name) if self.url else None

    def use(self, book: ActionBook) -> None:
        super().use(book)
        self._book = book

    def show_refusal(self, ending: Ending) -> None:
        self._failure = ending
        self._with_charts(self._settle)

    def prepare(self) -> None:
        self._with_charts(self._settle)

    def entered(self) -> None:
        self._with_charts(self._settle)

    def _with_charts(self, then: Callable[[], None]) -> None:
        """Calls `then` now, or once the charts are imported."""
        if self._charts.then(then):
            self._settle()

    def _show_charts(self, module: ModuleType) -> None:
        self.session = module.Session()
        self._exports = module.Exports(self.context, self)
        view: LiveView = module.LiveView(self.session.history, self.context.settings)
        self.view = view
        view.runs.budget_changed.connect(self.context.changed)
        view.wants_figures.connect(self._show_figures)
        view.rate_changed.connect(self._restart)
        view.agent.traffic_changed.connect(self._restart)
        view.agent.model_chosen.connect(self.choose_model)
        view.choice_changed.connect(self._choose)
        view.chart.span_changed.connect(self.context.changed)
        view.message.details_requested.connect(self.context.report)
        if self._book is not None:
            for button in view.findChildren(ActionButton):
                button.use(self._book)
        self.set_content(view)

    def _start(self, again: bool = False) -> None:
        command = self.command_of_start()
        if command is None or self.session is None or self.view is None:
            return
        subject = self._choice.subject
        name = subject.name if subject is not None else ""
        if self.url:
            name = " on ".join(filter(None, (self.model.name, f"the agent at {self.url}")))
        self._failure, self._connected = None, False
        self.giving_way.resume()
        self.view.message.hide()
        self.session.begin(name, self.url, again, self.model.name, self._inputs())
        self._watched = command
        self._watcher.watch(command)
        self._show_marks()
        self._settle()

    def _restart(self) -> None:
        """Restarts a running watch with another rate or subject; a stopped watch is not started."""
        if self._watcher.running and not self._watcher.stopping:
            self._start(again=True)
        else:
            self.context.changed.emit()

    def _choose(self, key: str) -> None:
        self._choice.key = key
        self._restart()

    def _prefer_what_was_opened(self) -> None:
        if self._choice.follow_opened() and not self.url:
            self._leave()
        self._prefer(self._choice.key)

    def _prefer(self, choice: str = BUNDLE) -> None:
        """Selects what to watch, by default the latest bundle, and clears an earlier failure."""
        self._choice.key, self._failure = choice, None
        self._settle()

    def _take_event(self, event: Event) -> None:
        session, view = self.session, self.view
        if session is None or view is None:
            return
        fresh = not session.sampled
        effect = session.take(event, time.time())
        if self.url and (not self._connected or effect in {"settled", "back", "serves", "models"}):
            self._connected = True
            self.context.settings.remember_agent(known_address(self.url))
            self._link.ask_status(self.url)
        if effect in {"sample", "serves"} and not fresh:
            view.touch()
            return
        if effect in {"sample", "back", "serves"}:
            view.message.show_or_hide(self.model.take_notice())
        if effect == "away":
            view.message.show_ending(Ending("failed", {}, session.problem, ""))
        self._show_marks()
        self._settle()

    def _ended(self, ending: Ending) -> None:
        if self.session is None or self.view is None:
            return
        self._connected = False
        self._unfreeze()
        if ending.code == NO_MODEL and self.model.name:
            self.model.give_up()
            self._leave()
            self._start()
            return
        stopped = ending.how in {"done", "cancelled"}
        self.session.end("stopped" if stopped else "ended unexpectedly", time.time())
        if not stopped:
            self.view.agent.stop_traffic()
        if not stopped and self.session.history.moments:
            self._show_failure(ending, "live.start")
        elif not stopped:
            self._failure = ending
        self._show_marks()
        self._settle()

    def _answered(self, url: str, data: dict[str, Any]) -> None:
        if self.session is not None and self.session.agent is not None and self.session.agent.url == url:
            self.session.agent.take_status(data)
        self._settle()

    def _show_doing(self, sentence: str) -> None:
        if self.view is not None:
            self.view.agent.show_doing(sentence)
        self.context.changed.emit()

    def _inputs(self) -> str:
        """Returns the inputs of the runs that are watched, in a few words."""
        data = self.context.data
        if not self.url:
            return f"inputs from {data.name}" if data is not None else "generated inputs"
        sends = self.view is not None and self.view.agent.send_per_s is not None
        return "requests of clients and of this app" if sends else "requests of clients"

    def _show_failure(self, ending: Ending, retry: str) -> None:
        if self.view is not None:
            self.view.message.show_ending(ending, "live.access" if wants_access(ending) else retry)

    def _show_figures(self) -> None:
        if self.view is None or self.session is None:
            return
        if self.paused_at is None:
            self.view.show_readouts(self.session.readouts(), self.session.comparison())
        state = self.session.state(self._watcher.running, self._watcher.stopping, self.paused_at)
        away = self.session.agent is not None and self.session.agent.away  # the message tells of it
        state = "Paused" if self.giving_way.paused_for else state
        self.view.show_state(
            state, self.session.name, self.session.measured(), "" if away else self.session.problem
        )

    def _show_marks(self) -> None:
        if self.view is not None and self.session is not None:
            self.view.chart.mark(self.session.history.markers)
            self.view.chart.compare(self.session.level())

    def _settle(self) -> None:
        self._show_state()
        self.context.changed.emit()

    def _show_state(self) -> None:
        session, view = self.session, self.view
        if session is None or view is None:
            if self._charts.loading:
                self.show_busy("Loading the charts…")
            else:
                self.show_empty(*nothing_of(self.url, self._choice.subject))
            return
        view.show_choices(() if self.url else self._choice.offered, self._choice.key)
        view.show_agent_panel(on=bool(self.url))
        if self.url and session.agent is not None:
            view.agent.show_agent(session.agent, watched=self._watcher.running)
        subject = self._choice.subject
        view.runs.about(
            " ".join(filter(None, (self.url, self.model.name)))
            or (str(subject.path) if subject is not None else "")
        )
        view.touch_runs()
        self._show_figures()
        state = shown(self.situation)
        if state == "error" and self._failure is not None:
            self.show_error(self._failure, *ways_on(self._failure, can_start=self.command_of_start() is not None))
        elif state == "busy":
            self.show_busy(awaited(self.url, session.phase, session.name), "live.stop")
        elif state == "empty":
            sentence, action, other = nothing_of(self.url, self._choice.subject)
            self.show_empty(self.giving_way.sentence or sentence, action, other)
        else:
            self.show_content()
