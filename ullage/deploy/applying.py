"""Apply an installation to a cluster and wait until it is ready. Safe to repeat."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from ullage.deploy.component import Component
from ullage.deploy.kinds import WORKLOADS, resource_of
from ullage.deploy.labels import COMPONENT_LABEL, NAME_LABEL, PART, is_our_definition
from ullage.deploy.manifests import manifests, namespace_object
from ullage.deploy.options import InstallOptions
from ullage.errors import AlreadyExists, NotFound, UserError
from ullage.kube.admission.webhook_configs import WebhookEndpoint
from ullage.kube.client.api import Apply, KubeApi, ListSelector
from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.client.resources import (
    CRDS,
    KUBE_POD_GROUPS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PODS,
    VALIDATING_WEBHOOKS,
)
from ullage.kube.crds.catalog import OURS, POD_GROUP
from ullage.kube.crds.install import MANAGER, install
from ullage.webhook.registration import WebhookRegistrar

Say = Callable[[str], None]
_LOOK_SECONDS = 1.0
_LEAVES_SECONDS = 120.0
"""Seconds in which the rest of an earlier installation has to go."""


async def ensure_namespace(api: KubeApi, name: str) -> None:
    """Create the namespace if it does not exist."""
    try:
        await api.create(NAMESPACES, {"metadata": {"name": name}})
    except AlreadyExists:
        return


async def needs_pod_group(api: KubeApi) -> bool:
    """True if the cluster has no kind by which gangs say how many they are, or has it from us: it is upgraded, too."""
    try:
        return is_our_definition(await api.get(CRDS, POD_GROUP.resource.id))
    except NotFound:
        served = await api.discover()
        return not any(groups in served for groups in KUBE_POD_GROUPS)


async def apply(api: KubeApi, options: InstallOptions, say: Say) -> None:
    """Apply every object. Definitions are served before the objects that need them are written.

    Components that are there and not chosen now stay, and can go on: the namespace admits their pods.
    """
    definitions = (*OURS, POD_GROUP) if options.pod_group else OURS
    await _gone(api, NAMESPACES.whole(), options.namespace, say)
    if options.definitions:
        for definition in definitions:
            await _gone(api, CRDS, definition.resource.id, say)
        await install(api, definitions)
        for definition in definitions:
            say(f"serves {definition.resource.kind}")
    everybody = replace(options, components=(*options.components, *await _installed(api, options.namespace)))
    for body in manifests(options):
        resource = resource_of(body)
        if body["kind"] == NAMESPACES.kind:
            body = namespace_object(everybody)  # as strict as all of them allow
        if resource in (CRDS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
            continue
        meta = body["metadata"]
        await api.patch(resource, meta["name"], Apply(body, MANAGER), meta.get("namespace", ""))
        say(f"applied {body['kind']} {meta['name']}")
    for name in await _register(api, options):
        say(f"applied {name}")


async def _gone(api: KubeApi, resource: Resource[JsonObject], name: str, say: Say) -> None:
    """Wait until an object that is being deleted is gone: what is written into it now would go with it."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    told = False
    while True:
        try:
            found = await api.get(resource, name)
        except NotFound:
            return
        if not found["metadata"].get("deletionTimestamp"):
            return
        if not told:
            say(f"waiting until {resource.kind} {name} of an earlier installation is gone")
            told = True
        if loop.time() - began > _LEAVES_SECONDS:
            raise UserError(
                f"{resource.kind} {name} is being deleted and does not go within {_LEAVES_SECONDS:g} s; "
                f"see what holds it with `kubectl get {resource.plural} {name} -o yaml`, then install again"
            )
        await asyncio.sleep(_LOOK_SECONDS)


async def _installed(api: KubeApi, namespace: str) -> list[Component]:
    """Components that have a workload in the namespace."""
    chosen = ListSelector(labels=f"{NAME_LABEL}={PART}")
    there = [one for kind in WORKLOADS for one in (await api.list(kind, namespace, selection=chosen)).items]
    named = {one["metadata"]["labels"].get(COMPONENT_LABEL) for one in there}
    return [one for one in Component if one.value in named]


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
