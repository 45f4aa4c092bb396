"""A deployment that has ended, as one span with its states as events."""

from edgeopt_agent.deployments.record import Record
from edgeopt_agent.deployments.states import State
from edgeopt_agent.telemetry.tracing import INTERNAL, Span, SpanEvent, new_id


def deployment_span(record: Record) -> Span:
    events = tuple(
        SpanEvent(each.state.lower(), _nanoseconds(each.time_s), {"reason": each.reason} if each.reason else {})
        for each in record.history
    )
    return Span(
        *(new_id(16), new_id(8), record.kind, INTERNAL, events[0].time_ns, events[-1].time_ns),
        attributes={
            "edgeopt.model.name": record.name,
            "edgeopt.model.version": record.release,
            "edgeopt.deployment.id": record.id,
            "edgeopt.deployment.state": record.state.lower(),
        },
        events=events,
        error=None if record.state is State.COMMITTED else record.reason,
    )


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)
