"""The table of all HTTP routes: what each takes and answers. Routing, checks of queries and OpenAPI read it."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

PREFIX = "/api/v1"
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BYTES = "application/octet-stream"
_MODELS = "/v2/models/{name}"
_RECORDS = "edgeopt.fleet.records"
_PROTOCOL = "edgeopt_agent.v2.records"
_OWN = "edgeopt_agent.control.records"
_TEXT = "edgeopt_agent.completions.records"
_TEXT_REFUSALS = (404, 408, 413, 415, 422, 500, 503, 504, 507)
_DEPLOYMENT = f"{_OWN}:DeploymentAnswer"


class QueryParameter(NamedTuple):
    name: str
    kind: Literal["string", "integer", "number", "flag"]
    """A flag is 0 or 1."""
    text: str
    required: bool = False


class RouteEntry(NamedTuple):
    method: Literal["GET", "POST", "WS"]
    path: str
    summary: str
    answer: str = ""
    """The record as `module:Type`, or the media type of text; empty: the answer has no body."""
    parameters: tuple[QueryParameter, ...] = ()
    body: str = ""
    """A record, or a media type."""
    status: int = 200
    refusals: tuple[int, ...] = ()
    """Statuses beside those that every route has."""
    several: bool = False
    """The answer is a list of such records."""
    versioned: bool = False
    """The same with `/versions/VERSION` behind the model's name."""

    @property
    def is_control(self) -> bool:
        return self.path.startswith(PREFIX)


_MODEL = QueryParameter("model", "string", "Name of a model; the first one by default.")
_SOAK = (
    QueryParameter("soak_s", "number", "Least time of the soak, in seconds."),
    QueryParameter("soak_requests", "integer", "Least number of requests in the soak."),
)
_DEPLOY = (
    QueryParameter("add", "flag", "Serve the model beside the others."),
    QueryParameter("force", "flag", "Deploy a bundle that is quarantined or made for another device."),
    QueryParameter("rename", "flag", "Replace a model of another name."),
    QueryParameter("allow_downgrade", "flag", "Deploy a bundle that is older than the serving one."),
    *_SOAK,
    QueryParameter("name", "string", "File name of the bundle, for the history."),
)

ROUTES: tuple[RouteEntry, ...] = (
    RouteEntry("GET", f"{PREFIX}/device", "The probe's record", f"{_OWN}:DeviceAnswer"),
    RouteEntry(
        "GET", f"{PREFIX}/status", "What is served", f"{_OWN}:StatusAnswer", parameters=(_MODEL,), refusals=(404,)
    ),
    RouteEntry(
        *("GET", f"{PREFIX}/releases", "The releases on the device", f"{_RECORDS}:Releases"),
        parameters=(_MODEL,),
        refusals=(404,),
    ),
    RouteEntry(
        *("GET", f"{PREFIX}/deployments/{{number}}", "One deployment", _DEPLOYMENT),
        parameters=(_MODEL,),
        refusals=(404,),
    ),
    RouteEntry(
        *("GET", f"{PREFIX}/events", "Entries of the journal", f"{_OWN}:JournalAnswer"),
        parameters=(
            QueryParameter("after", "integer", "Number of the last entry that is known."),
            QueryParameter("wait_s", "number", "How long to wait for an entry, in seconds; at most 30."),
            _MODEL,
        ),
        refusals=(404,),
    ),
    RouteEntry(
        *("POST", f"{PREFIX}/deploy", "Deploy a bundle that is sent", _DEPLOYMENT),
        parameters=_DEPLOY,
        body="application/zip",
        status=202,
        refusals=(404, 409, 411, 413, 507),
    ),
    RouteEntry(
        *("POST", f"{PREFIX}/desired", "Deploy by reference", f"{_OWN}:DesiredAnswer"),
        body="edgeopt.fleet.mqtt_documents:DesiredBundle",
        status=202,
        refusals=(404, 409, 413, 507),
    ),
    RouteEntry(
        *("POST", f"{PREFIX}/rollback", "Go back to an older release", _DEPLOYMENT),
        parameters=(QueryParameter("to", "string", "Release; the previous one by default."), _MODEL),
        status=202,
        refusals=(404, 409),
    ),
    RouteEntry(
        *("POST", f"{PREFIX}/cancel", "Cancel the running deployment", _DEPLOYMENT),
        parameters=(_MODEL,),
        status=202,
        refusals=(404, 409),
    ),
    RouteEntry(
        *("POST", f"{PREFIX}/remove", "Remove an added model", f"{_RECORDS}:Removed"),
        parameters=(QueryParameter("model", "string", "Name of the model.", required=True),),
        refusals=(404, 409),
    ),
    RouteEntry(
        *("POST", f"{PREFIX}/gc", "Remove releases that are not needed", f"{_RECORDS}:Collected"),
        parameters=(QueryParameter("dry_run", "flag", "Only list them."), _MODEL),
        refusals=(404, 409),
    ),
    RouteEntry(
        *("POST", f"{PREFIX}/pair", "Exchange proofs of a one-time code for a token"),
        "edgeopt.fleet.pairing:PairAnswer",
        body="edgeopt.fleet.pairing:PairProof",
        refusals=(408, 409),
    ),
    RouteEntry(
        *("POST", f"{PREFIX}/trials", "Measure on this device: the answer is the output of a session", _BYTES),
        parameters=(
            QueryParameter("beside_serving", "flag", "Measure although a release serves."),
            QueryParameter("probe_only", "flag", "Only read facts of the device, also while a release serves."),
        ),
        refusals=(403, 409),
    ),
    RouteEntry(
        *("POST", f"{PREFIX}/trials/{{trial}}", "Input of a session", "application/json"),
        body=_BYTES,
        refusals=(404, 408, 409),
    ),
    RouteEntry("GET", f"{PREFIX}/openapi.json", "This description", "application/json"),
    RouteEntry(
        *("WS", f"{PREFIX}/telemetry", "Live events, one JSON record per line", "edgeopt.events:Event"),
        parameters=(_MODEL,),
        status=101,
        refusals=(404,),
    ),
    RouteEntry("GET", "/metrics", "Metrics for Prometheus", METRICS_TYPE),
    RouteEntry("GET", "/v2", "The server and its extensions", f"{_PROTOCOL}:ServerMetadata"),
    RouteEntry("GET", "/v2/health/live", "Whether the agent runs"),
    RouteEntry("GET", "/v2/health/ready", "Whether all models are ready", refusals=(503,)),
    RouteEntry("GET", "/v2/models/stats", "Counts and times of all models", f"{_PROTOCOL}:Statistics"),
    RouteEntry(
        "POST", "/v2/repository/index", "The models that are served", f"{_PROTOCOL}:IndexedModel", several=True
    ),
    RouteEntry(
        *("GET", _MODELS, "Inputs and outputs of a model", f"{_PROTOCOL}:ModelDescription"),
        refusals=(404, 503),
        versioned=True,
    ),
    RouteEntry("GET", f"{_MODELS}/ready", "Whether a model is ready", refusals=(404, 503), versioned=True),
    RouteEntry(
        *("GET", f"{_MODELS}/config", "Triton's configuration of a model", f"{_PROTOCOL}:ModelConfig"),
        refusals=(404, 503),
        versioned=True,
    ),
    RouteEntry(
        *("GET", f"{_MODELS}/stats", "Counts and times of a model", f"{_PROTOCOL}:Statistics"),
        refusals=(404, 503),
        versioned=True,
    ),
    RouteEntry(
        *("POST", f"{_MODELS}/infer", "Run a model", f"{_PROTOCOL}:InferAnswer"),
        body=f"{_PROTOCOL}:InferRequest",
        refusals=(404, 408, 413, 415, 503, 504),
        versioned=True,
    ),
    RouteEntry("GET", "/v1/models", "The models that generate text", f"{_TEXT}:LanguageModels"),
    RouteEntry(
        *("POST", "/v1/completions", "Continue a text", f"{_TEXT}:Completion"),
        body=f"{_TEXT}:CompletionRequest",
        refusals=_TEXT_REFUSALS,
    ),
    RouteEntry(
        *("POST", "/v1/chat/completions", "Answer a conversation", f"{_TEXT}:ChatCompletion"),
        body=f"{_TEXT}:ChatRequest",
        refusals=_TEXT_REFUSALS,
    ),
    RouteEntry(
        *("POST", "/v1/audio/transcriptions", "Transcribe speech", f"{_TEXT}:Transcript"),
        body=f"{_TEXT}:TranscriptionRequest",
        refusals=_TEXT_REFUSALS,
    ),
    RouteEntry(
        *("POST", "/v1/audio/translations", "Translate speech to English", f"{_TEXT}:Transcript"),
        body=f"{_TEXT}:TranslationRequest",
        refusals=_TEXT_REFUSALS,
    ),
)

PARAMETERS: Mapping[str, tuple[str, ...]] = {
    entry.path.removesuffix("/{number}"): tuple(each.name for each in entry.parameters)
    for entry in ROUTES
    if entry.parameters
}
"""Query parameters of each route; routes that are missing here take none."""
