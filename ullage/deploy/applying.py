"""Apply an installation to a cluster and wait until it is ready. Safe to repeat."""

import asyncio
from collections.abc import Callable, Sequence

from ullage.deploy.kinds import WORKLOADS, resource_of
from ullage.deploy.labels import COMPONENT_LABEL, NAME_LABEL, PART
from ullage.deploy.manifests import manifests
from ullage.deploy.options import InstallOptions
from ullage.errors import AlreadyExists, UserError
from ullage.kube.admission.webhook_configs import WebhookEndpoint
from ullage.kube.client.api import Apply, KubeApi, ListSelector
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import (
    CRDS,
    KUBE_POD_GROUPS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    POD_GROUPS,
    PODS,
    VALIDATING_WEBHOOKS,
)
from ullage.kube.crds.catalog import OURS, POD_GROUP
from ullage.kube.crds.install import MANAGER, install
from ullage.watch.sources import is_served
from ullage.webhook.registration import WebhookRegistrar

Say = Callable[[str], None]
_LOOK_SECONDS = 1.0


async def ensure_namespace(api: KubeApi, name: str) -> None:
    """Create the namespace if it does not exist."""
    try:
        await api.create(NAMESPACES, {"metadata": {"name": name}})
    except AlreadyExists:
        return


async def needs_pod_group(api: KubeApi) -> bool:
    """True if the cluster has no kind by which gangs say how many they are."""
    return not (await is_served(api, POD_GROUPS) or KUBE_POD_GROUPS in await api.discover())


async def apply(api: KubeApi, options: InstallOptions, say: Say) -> None:
    """Apply every object. Definitions are served before the objects that need them are written."""
    if options.definitions:
        definitions = (*OURS, POD_GROUP) if options.pod_group else OURS
        await install(api, definitions)
        for definition in definitions:
            say(f"serves {definition.resource.kind}")
    for body in manifests(options):
        resource = resource_of(body)
        if resource in (CRDS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
            continue
        meta = body["metadata"]
        await api.patch(resource, meta["name"], Apply(body, MANAGER), meta.get("namespace", ""))
        say(f"applied {body['kind']} {meta['name']}")
    for name in await _register(api, options):
        say(f"applied {name}")


async def _register(api: KubeApi, options: InstallOptions) -> list[str]:
    """Write the webhook configurations, if the webhook is installed. Replaced whole: see `WebhookRegistrar`."""
    if not any(one["kind"] == MUTATING_WEBHOOKS.kind for one in manifests(options)):
        return []
    identity = f"system:serviceaccount:{options.namespace}:ullage-scheduler"
    return await WebhookRegistrar(api, WebhookEndpoint(options.namespace), [identity]).install()


async def wait_ready(api: KubeApi, options: InstallOptions, say: Say, *, seconds: float) -> None:
    """Wait until every workload runs the new version. Raises UserError with what is not ready, and why."""
    waiting = [one for one in manifests(options) if resource_of(one) in WORKLOADS]
    loop = asyncio.get_running_loop()
    ends = loop.time() + seconds
    while True:
        left = []
        for body in waiting:
            now = await api.get(resource_of(body), body["metadata"]["name"], options.namespace)
            missing = unready(now)
            if missing:
                left.append((body, missing))
            else:
                say(f"ready {body['kind']} {body['metadata']['name']}")
        waiting = [body for body, _ in left]
        if not waiting:
            return
        if loop.time() > ends:
            raise UserError(await _why(api, options, left, seconds))
        await asyncio.sleep(_LOOK_SECONDS)


def unready(workload: JsonObject) -> str:
    """Missing part of a Deployment or DaemonSet; empty if all of it runs the version asked for."""
    status, spec = workload.get("status") or {}, workload["spec"]
    if status.get("observedGeneration", 0) < workload["metadata"].get("generation", 0):
        return "its controller has not looked at it yet"
    if workload["kind"] == "DaemonSet":
        wanted = status.get("desiredNumberScheduled", 0)
        updated, available = status.get("updatedNumberScheduled", 0), status.get("numberAvailable", 0)
    else:
        wanted = spec.get("replicas", 1)
        updated, available = status.get("updatedReplicas", 0), status.get("availableReplicas", 0)
    if updated < wanted:
        return f"{updated} of {wanted} pods are of the new version"
    return "" if available >= wanted else f"{available} of {wanted} pods are available"


async def _why(api: KubeApi, options: InstallOptions, left: Sequence[tuple[JsonObject, str]], seconds: float) -> str:
    """Sentence for each workload that is not ready, with the words of its first pod that says something."""
    found = []
    for body, missing in left:
        name = body["metadata"]["name"]
        component = body["metadata"]["labels"][COMPONENT_LABEL]
        chosen = ListSelector(labels=f"{NAME_LABEL}={PART},{COMPONENT_LABEL}={component}")
        pods = (await api.list(PODS.whole(), options.namespace, selection=chosen)).items
        words = next((said for pod in pods if (said := _said(pod))), "")
        found.append(f"{name}: {missing}" + (f" ({words})" if words else ""))
    return f"not ready within {seconds:g} s: {'; '.join(found)}. Look at `kubectl -n {options.namespace} get pods`"


def _said(pod: JsonObject) -> str:
    status = pod.get("status") or {}
    for container in status.get("containerStatuses") or ():
        waiting = (container.get("state") or {}).get("waiting")
        if waiting:
            return f"{waiting.get('reason', '')}: {waiting.get('message', '')}".rstrip(": ")
    for condition in status.get("conditions") or ():
        if condition.get("status") == "False" and condition.get("message"):
            return str(condition["message"])
    return ""
