"""Commands from the broker, answered with the documents of HTTP; a repeated one gets its first answer again."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from edgeopt.errors import EdgeoptError
from edgeopt.fleet.mqtt_documents import Command, CommandAnswer
from edgeopt_agent.control.answers import Answered, Answers
from edgeopt_agent.control.documents import Document
from edgeopt_agent.deployments.refused import RefusedError
from edgeopt_agent.http.early import RateLimit
from edgeopt_agent.mqtt.signatures import SignedCommands
from edgeopt_agent.tokens import ROLES
from edgeopt_agent.trust import Trust

log = logging.getLogger(__name__)
log.addFilter(RateLimit())
_REMEMBERED = 64
_OPEN_ROLE = "view"
"""The role of commands that change nothing and need no signature."""
Perform = Callable[[Answers, Command, str], Awaitable[Answered]]


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    role: str
    """Role of the topic on which the command may come: as over HTTP, `deploy` may do all that `view` may."""
    perform: Perform


async def _roll_back(answers: Answers, command: Command, ordered_by: str) -> Answered:
    if command.order:
        return await answers.take_back(command.order, ordered_by)
    return await answers.rollback(command.to, command.model, ordered_by)


TABLE: tuple[Row, ...] = (
    Row("device", "view", lambda answers, *_: answers.device()),
    Row("status", "view", lambda answers, command, _: answers.status(command.model)),
    Row("releases", "view", lambda answers, command, _: answers.releases(command.model)),
    Row(
        "deployment",
        "view",
        lambda answers, command, _: answers.deployment(str(command.deployment), command.model),
    ),
    Row("rollback", "deploy", _roll_back),
    Row("cancel", "deploy", lambda answers, command, by: answers.cancel(command.model, by)),
    Row("optimize", "deploy", lambda answers, command, by: answers.optimize(command.search, by)),
    Row("cancel-search", "deploy", lambda answers, command, by: answers.cancel_search(command.id, by)),
    Row("remove", "deploy", lambda answers, command, by: answers.remove(command.model, by)),
)
_ROWS = {row.name: row for row in TABLE}


class Commands:
    def __init__(self, answers: Answers, trust: Callable[[], Trust], signed: SignedCommands) -> None:
        self._answers = answers
        self._trust = trust
        self._signed = signed
        self._reading = asyncio.Lock()
        self._recent_answers: OrderedDict[tuple[str, bytes], asyncio.Future[bytes]] = OrderedDict()

    async def answer(self, role: str, content: bytes, asker: tuple[str, bytes], ordered_by: str) -> bytes:
        """Answers a command on the topic of a role; `asker` is its answer topic and correlation data."""
        async with self._reading:  # they count in the order in which they came
            known = self._recent_answers.get(asker)
            try:
                row, command = await self._read(role, content, asker[1], known is not None)
            except EdgeoptError as error:  # not remembered: it may be of somebody else than the asker
                return self._refusal(error, ordered_by)
            if known is None:
                known = self._recent_answers[asker] = asyncio.ensure_future(self._made(row, command, ordered_by))
                if len(self._recent_answers) > _REMEMBERED:
                    self._recent_answers.popitem(last=False)
        return await asyncio.shield(known)

    async def _made(self, row: Row, command: Command, ordered_by: str) -> bytes:
        try:
            return self._encoded(*await row.perform(self._answers, command, ordered_by))
        except EdgeoptError as error:
            return self._refusal(error, ordered_by)

    def _refusal(self, error: EdgeoptError, ordered_by: str) -> bytes:
        template = f"A command was refused ({error.code}): %s Ordered by %s."
        log.warning(template, error, ordered_by)
        return self._encoded(*self._answers.error(error))

    def _encoded(self, status: int, document: Document) -> bytes:
        return msgspec.json.encode(CommandAnswer(status, {**document, "trust": self._trust()}))

    async def _read(self, role: str, content: bytes, correlation: bytes, repeated: bool) -> tuple[Row, Command]:
        command, envelope = self._signed.read(content)
        row = _ROWS.get(command.command)
        if row is None:
            sentence = f"There is no command '{command.command[:40]}'."
            raise RefusedError(404, "not-found", sentence, f"Known: {', '.join(_ROWS)}.")
        if ROLES.index(row.role) > ROLES.index(role):
            sentence = f"The command '{row.name}' needs the role '{row.role}'."
            raise RefusedError(403, "wrong-role", sentence, f"Publish it on the topic cmd/{row.role}.")
        if row.role != _OPEN_ROLE:
            await self._signed.check(envelope, correlation, repeated)
        return row, command
