"""All models of an agent: which router a name leads to, and what they answer together."""

import asyncio
from collections.abc import Iterator

from edgeopt_agent.v2.errors import RequestError
from edgeopt_agent.workers.frames import RAW
from edgeopt_agent.workers.names import ServedModel, served_models
from edgeopt_agent.workers.process import Worker
from edgeopt_agent.workers.router import BusyError, Router
from edgeopt_agent.workers.totals import Totals


class Models:
    """One router for each model, the agent's first model first; a name leads to the release that serves by it."""

    def __init__(self, *routers: Router) -> None:
        self.routers = list(routers)

    def of(self, name: str) -> Router:
        """Returns the router for this name; raises RequestError if several models serve and none is called so."""
        if len(self.routers) == 1:  # it says itself what is wrong with the name
            return self.routers[0]
        found = self._find(name)
        if found is None:
            names = [known for router in self.routers if (known := _name(router))]
            if not names:
                return self.routers[0]
            listed = ", ".join(f"'{each}'" for each in names)
            raise RequestError(404, f"There is no model '{name[:80]}'; those deployed here are {listed}.")
        return found

    def nearest(self, name: str) -> Router:
        """Returns the router of this name, or the first one if none has it."""
        return self.routers[0] if len(self.routers) == 1 else self._find(name) or self.routers[0]

    def _find(self, name: str) -> Router | None:
        for router in self.routers:
            if router.serving is not None and name in {each.name for each in served_models(router.serving)}:
                return router
        # The second name is for routers that say why it does not serve.
        for candidate in (name, name.removesuffix(RAW)):
            for router in self.routers:
                # A model that restarts keeps its name, and a renamed one gets its new name.
                if candidate and candidate in {router.old_name, router.expected_name()}:
                    return router
            for router in self.routers:
                if (vacancy := router.vacancy()) is not None and candidate == vacancy.name:
                    return router
        return None

    def named(self, name: str, version: str | None) -> ServedModel:
        return self.of(name).named(name, version)

    def workers(self) -> Iterator[Worker]:
        """Yields the workers that serve."""
        return (router.serving for router in self.routers if router.serving is not None)

    async def check_ready(self, name: str | None = None, version: str | None = None) -> None:
        """Raises RequestError unless this model, or every one that should serve, answers at once."""
        if name is not None:
            await self.of(name).check_ready(name, version)
            return
        due = [router for router in self.routers if router.serving is not None or router.why_nothing()]
        if len(self.routers) > 1:
            for router in due:
                if router.serving is None:
                    raise BusyError(
                        503, f"The model '{router.expected_name()}' does not serve: {router.why_nothing()}"
                    )
        await asyncio.gather(*(router.check_ready() for router in due or self.routers[:1]))

    def totals(self) -> Iterator[Totals]:
        return (totals for router in self.routers for totals in router.totals.values())

    def totals_of(self, name: str, version: str | None) -> list[Totals]:
        """Returns the counts of a model; raises RequestError if no model has this name."""
        found = [each for each in self.totals() if each.name == name and version in {None, each.release_id}]
        return found or self.of(name).totals_of(name, version)


def _name(router: Router) -> str:
    return router.serving.name if router.serving is not None else router.expected_name()
