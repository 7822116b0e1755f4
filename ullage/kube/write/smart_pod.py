"""A smart pod as the API server takes it."""

from collections.abc import Iterable

from ullage.kube.client.resource import JsonObject
from ullage.model.intents import CreateSmartPod
from ullage.model.resources import MILLI
from ullage.model.selector import Requirement
from ullage.model.shape_terms import NodeTerm, Toleration

CONTAINER = "gpu-trigger"
_WITH_VALUES = ("In", "NotIn", "Gt", "Lt")


def smart_pod(intent: CreateSmartPod) -> JsonObject:
    """The whole pod. Requests equal limits: extended resources ask for it, and nothing is overbooked."""
    amounts = {name: written_amount(amount) for name, amount in intent.requests}
    spec: JsonObject = {
        "restartPolicy": "Never",
        "schedulerName": "default-scheduler",
        "activeDeadlineSeconds": intent.active_deadline,
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "nodeSelector": dict(intent.node_selector),
        "tolerations": [written_toleration(one) for one in intent.tolerations],
        "containers": [
            {
                "name": CONTAINER,
                "image": intent.image,
                "resources": {"requests": amounts, "limits": amounts},
            }
        ],
    }
    if intent.priority_class:
        spec["priorityClassName"] = intent.priority_class
    if intent.node_affinity is not None:
        required = {"nodeSelectorTerms": [_term(one) for one in intent.node_affinity]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return {
        "metadata": {
            "name": intent.key.name,
            "namespace": intent.key.namespace,
            "labels": dict(intent.labels),
            "annotations": dict(intent.annotations),
        },
        "spec": spec,
    }


def written_amount(thousandths: int) -> str:
    """The shortest exact quantity."""
    return str(thousandths // MILLI) if thousandths % MILLI == 0 else f"{thousandths}m"


def written_toleration(one: Toleration) -> JsonObject:
    value = {} if one.exists else {"value": one.value}
    found = {"key": one.key, "operator": "Exists" if one.exists else "Equal", "effect": one.effect} | value
    return {name: said for name, said in found.items() if said}


def _term(term: NodeTerm) -> JsonObject:
    found = {"matchExpressions": list(_expressions(term.labels)), "matchFields": list(_expressions(term.fields))}
    return {name: said for name, said in found.items() if said}


def _expressions(requirements: Iterable[Requirement]) -> Iterable[JsonObject]:
    for one in requirements:
        values = {"values": list(one.values)} if one.operator.value in _WITH_VALUES else {}
        yield {"key": one.key, "operator": one.operator.value} | values
