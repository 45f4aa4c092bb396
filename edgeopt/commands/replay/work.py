"""What the parts of a replay share while it works."""

from dataclasses import dataclass, field
from pathlib import Path

from edgeopt.bundle.deployment import Deployment, Run
from edgeopt.commands.replay.profile import Profile
from edgeopt.commands.replay.request import ReplayRequest
from edgeopt.data.read import load_data
from edgeopt.data.samples import Samples, check_samples, from_feeds
from edgeopt.events import Emit, Log
from edgeopt.quant.measured.given import Outputs, Runs

GOLDEN_SAMPLES = 4
_FLOOR_DB = 30.0
# Other processors round otherwise.
_LEEWAY_DB = 1.0


@dataclass(slots=True)
class Work:
    request: ReplayRequest
    profile: Profile
    folder: Path
    """The bundle while it is made."""
    rest: Path
    """For what nobody keeps."""
    runs: Runs
    emit: Emit
    warnings: list[str] = field(default_factory=list)

    @property
    def deployment(self) -> Deployment:
        """That of the first bundle."""
        return self.profile.deployment

    @property
    def run(self) -> Run:
        return self.deployment.run

    @property
    def model(self) -> Path:
        """The rebuilt one."""
        return self.folder / self.run.model

    @property
    def floor_db(self) -> float:
        evidence = self.deployment.evidence or self.deployment.predicted
        return evidence.floor_db if evidence is not None else _FLOOR_DB

    @property
    def needed_db(self) -> float:
        """The floor, or what the first bundle reached where it was wanted below it."""
        evidence = self.deployment.evidence or self.deployment.predicted
        return self.floor_db if evidence is None else min(self.floor_db, evidence.accuracy_db - _LEEWAY_DB)

    def warn(self, message: str) -> None:
        self.warnings.append(message)
        self.emit(Log("warning", message))

    def answers(self, feeds: Outputs) -> Outputs:
        """Of the rebuilt model."""
        return self.runs.outputs(self.model, self.run.backend, self.run.options, feeds)

    def samples(self) -> Samples:
        """Those that were given, those of the first bundle, or some that are made up."""
        from edgeopt.data.regimes import mixed
        from edgeopt.graph.model import load

        inputs = self.runs.inputs(self.request.model)
        if self.request.data is not None:
            return load_data(self.request.data, inputs, None)
        bundle = self.profile.bundle
        if bundle is not None:
            return check_samples(from_feeds(bundle.golden("inputs")), inputs)
        feeds = mixed(inputs, load(self.request.model).ir, GOLDEN_SAMPLES // 2)
        return check_samples(from_feeds(feeds[:GOLDEN_SAMPLES]), inputs)

    def last_samples(self, samples: Samples, most: int) -> tuple[Outputs, Outputs]:
        """The last ones, which a search sets aside, and what the source answers to them; after `samples`."""
        count = len(samples)
        feeds = [samples.feeds(k) for k in range(max(0, count - most), count)]
        return feeds, self.runs.source_outputs(self.request.model, feeds)
