"""Every object of an installation, in the order of applying: definitions, namespace, access, workloads, admission."""

from collections.abc import Iterator
from importlib.resources import files
from typing import cast

import yaml

from ullage.decide.karpenter.policy import KarpenterPolicy
from ullage.deploy.access import access_objects
from ullage.deploy.component import Component, Feature
from ullage.deploy.components import COMPONENTS
from ullage.deploy.labels import labels, metadata
from ullage.deploy.monitoring import monitoring_objects
from ullage.deploy.options import DEFAULT_NAMESPACE, InstallOptions
from ullage.deploy.workloads import settings_object, workload_objects
from ullage.kube.admission.webhook_configs import WebhookEndpoint, configurations
from ullage.kube.client.resource import JsonObject
from ullage.kube.crds.catalog import OURS, POD_GROUP

SMART_POD_CLASS = KarpenterPolicy().priority_class


def manifests(options: InstallOptions) -> list[JsonObject]:
    """Objects to apply, in this order. Deleting goes the other way round: admission first."""
    return [
        *_definitions(options),
        namespace_object(options),
        *_shared(options),
        *_parts(options),
        *_admission(options),
    ]


def namespace_object(options: InstallOptions) -> JsonObject:
    """The namespace. Its pod security is as strict as its strictest component allows."""
    unrestricted = any(COMPONENTS[one].unrestricted for one in options.components)
    meta = metadata(options.namespace, "namespace")
    meta["labels"] |= {
        "pod-security.kubernetes.io/enforce": "privileged" if unrestricted else "restricted",
        "pod-security.kubernetes.io/enforce-version": "latest",
    }
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}


def _definitions(options: InstallOptions) -> Iterator[JsonObject]:
    if options.definitions:
        for definition in OURS:
            yield {**definition.written()}
    if options.pod_group:
        yield {**POD_GROUP.written()}


def _shared(options: InstallOptions) -> Iterator[JsonObject]:
    if options.settings:
        yield settings_object(options)
    if Feature.KARPENTER in options.features:
        yield smart_pod_class()
    if options.monitoring:
        yield from monitoring_objects(options)


def _parts(options: InstallOptions) -> Iterator[JsonObject]:
    for component in COMPONENTS:
        if component in options.components:
            spec = COMPONENTS[component]
            yield from access_objects(spec, options.namespace, options.features)
            yield from workload_objects(spec, options)


def smart_pod_class() -> JsonObject:
    """Priority of smart pods: no lower than ordinary pods, so that none evicts them, and they evict nobody."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": metadata(SMART_POD_CLASS, Component.CONTROLLER),
        "value": 0,
        "globalDefault": False,
        "preemptionPolicy": "Never",
        "description": "Smart pods of Ullage, which make Karpenter buy nodes for GPU requests.",
    }


def _admission(options: InstallOptions) -> Iterator[JsonObject]:
    if Component.AGENT in options.components:
        yield from agent_policy(options.namespace)
    if Component.WEBHOOK in options.components:
        yield from webhook_objects(options.namespace)


def agent_policy(namespace: str) -> list[JsonObject]:
    """Admission policy that ties each agent to its own node, and its binding."""
    text = files("ullage.deploy").joinpath("agent_policy.yaml").read_text()
    found = []
    for one in yaml.safe_load_all(text.replace(DEFAULT_NAMESPACE, namespace)):
        one["metadata"]["labels"] = labels(Component.AGENT)
        found.append(cast(JsonObject, one))
    return found


def webhook_objects(namespace: str) -> list[JsonObject]:
    """Webhook configurations, without caBundle: the webhook writes it."""
    identity = f"system:serviceaccount:{namespace}:ullage-scheduler"
    return [
        {"apiVersion": one.resource.api_version, "kind": one.resource.kind, **one.body}
        for one in configurations(WebhookEndpoint(namespace), None, [identity])
    ]
