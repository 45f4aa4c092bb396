"""The desired state, which names bundles by URL and digest: the agent fetches them itself."""

import msgspec

from edgeopt.decoding import thread_safe
from edgeopt.errors import printable
from edgeopt.fleet.mqtt_documents import DesiredBundle, is_digest
from edgeopt.registry.reference import is_reference
from edgeopt_agent.bundle_urls import allowed, read_place, shown
from edgeopt_agent.deployments.record import Record, Source
from edgeopt_agent.deployments.refused import RefusedError
from edgeopt_agent.settings import MAX_SOAK_S, Settings

_LONGEST_NAME = 120


def read_desired(content: bytes) -> DesiredBundle:
    """Reads a JSON document; raises RefusedError if it is not a desired state."""
    try:
        found = msgspec.json.decode(content, type=thread_safe(DesiredBundle))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        hint = 'Send {"bundle": "https://…", "digest": "sha256:…"}; docs/agent.md lists the other keys.'
        raise RefusedError(400, "bad-document", f"The document cannot be read: {error}.", hint) from None
    return checked(found)


def checked(found: DesiredBundle) -> DesiredBundle:
    """Returns the document if its values can be used; otherwise raises RefusedError."""
    if found.models:
        _check_models(found)
    elif not found.bundle:
        raise RefusedError(
            400, "bad-document", "The document cannot be read: it names neither `bundle` nor `models`."
        )
    else:
        _check_digest(found.bundle, found.digest)
    soak = (found.soak_s or 0.0, found.soak_requests or 0)
    if not (0 <= soak[0] <= MAX_SOAK_S and 0 <= soak[1] <= 10**15):
        raise RefusedError(400, "bad-document", "The soak must be from 0 s to 30 days, of at least 0 requests.")
    _check_name(found.model)
    if found.add and not found.model:
        raise RefusedError(
            400, "no-name", "A model added by reference needs a name.", "Pass the bundle's name: --model NAME"
        )
    return found


def _check_models(found: DesiredBundle) -> None:
    if found.bundle or found.digest or found.model or found.add:
        raise RefusedError(
            *(400, "bad-document", "With `models`, each model has its own `bundle`, `digest` and `model`."),
            "A name that does not serve yet is added.",
        )
    names = [each.model for each in found.models]
    for each in found.models:
        _check_name(each.model)
        if not each.model or names.count(each.model) > 1:
            message = f"'{printable(each.model[:80])}' is named twice." if each.model else "A model has no name."
            raise RefusedError(400, "bad-name", message, "Name each model once.")
        if each.remove and (each.bundle or each.digest):
            message = f"'{printable(each.model[:80])}' cannot be removed and have a bundle."
            raise RefusedError(400, "bad-document", message, "Leave one of them out.")
        if not each.remove:
            _check_digest(each.bundle, each.digest)


def _check_digest(bundle: str, digest: str) -> None:
    digest = digest_of(bundle, digest)
    if not is_digest(digest):
        raise RefusedError(
            400,
            "bad-digest",
            f"'{printable(digest[:80])}' is not a digest: it must be 'sha256:' and 64 digits.",
            "Compute it with: sha256sum BUNDLE; one in a registry is named by oci://…@sha256:…",
        )
    if digest_of(bundle) not in {"", digest.lower()}:
        raise RefusedError(
            400, "bad-digest", f"{shown(bundle)} has another digest than `digest`.", "Leave `digest` out."
        )


def digest_of(bundle: str, digest: str = "") -> str:
    """Returns the digest that was given, or that in the address of a bundle in a registry."""
    if digest or not is_reference(bundle):
        return digest
    return f"sha256:{found}" if (found := bundle.partition("@sha256:")[2]) else ""


def _check_name(model: str) -> None:
    if not model.isprintable() or len(model) > _LONGEST_NAME:
        raise RefusedError(400, "bad-name", f"'{printable(model)[:80]}' cannot be the name of a model.")


def deployment_records(desired: DesiredBundle, settings: Settings) -> list[tuple[str, Record]]:
    """Returns the deployment of each model; raises RefusedError as `deployment_record` does, naming the model."""
    found = []
    for each in desired.models:
        if each.remove:
            found.append((each.model, Record(id=0, kind="remove", name=each.model)))
            continue
        one = msgspec.structs.replace(desired, bundle=each.bundle, digest=each.digest, models=())
        try:
            found.append((each.model, deployment_record(one, settings)))
        except RefusedError as error:
            sentence = f"'{each.model}': {error.message}"
            raise RefusedError(error.status, error.code, sentence, error.hint) from None
    return found


def deployment_record(desired: DesiredBundle, settings: Settings) -> Record:
    """Returns the deployment of the desired state; raises RefusedError for a URL that settings do not allow."""
    try:
        url = read_place(desired.bundle)
    except ValueError as error:
        raise RefusedError(
            400,
            "bad-url",
            f"'{printable(shown(desired.bundle)[:200])}' is not an address for bundles: {error}.",
            "Pass a URL such as https://host/bundles/model.edgeopt",
        ) from None
    if not allowed(url, settings.fetch_from):
        folder = shown(desired.bundle).rpartition("/")[0]
        nowhere = "" if settings.fetch_from else " (it allows no place at all)"
        raise RefusedError(
            403,
            "place-not-allowed",
            f"The agent does not fetch from {shown(desired.bundle)}: `fetch_from` does not allow it{nowhere}.",
            f'In agent.toml on the device: fetch_from = ["{folder}/"]',
        )
    digest = digest_of(desired.bundle, desired.digest).lower()
    return Record(
        id=0,
        name=printable(url.path.rpartition("/")[2])[:_LONGEST_NAME],
        source=Source(_with_digest(desired.bundle, digest), digest),
        force=desired.force,
        rename=desired.rename,
        allow_downgrade=desired.allow_downgrade,
        soak_s=settings.soak_s if desired.soak_s is None else desired.soak_s,
        soak_requests=settings.soak_requests if desired.soak_requests is None else desired.soak_requests,
    )


def _with_digest(url: str, digest: str) -> str:
    """Returns the URL as the journal has it: a tag may move later, so its digest is recorded with it."""
    return f"{url}@{digest}" if is_reference(url) and "@" not in url else url
