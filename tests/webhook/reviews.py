"""AdmissionReviews as an API server sends them."""

import json
from typing import Any

from ullage.kube.resource import JsonObject
from ullage.kube.resources import GPU_CLAIMS
from ullage.model.allocation import CLAIM
from ullage.testing.builders import a_container, a_pod

PODS_V1 = {"group": "", "version": "v1", "resource": "pods"}
CLAIMS_V1 = {"group": GPU_CLAIMS.group, "version": "v1", "resource": GPU_CLAIMS.plural}
UID = "705ab4f5-6393-11e8-b7cc-42010a800002"


def a_review(obj: Any, old: Any = None, **request: Any) -> JsonObject:
    """CREATE of a pod by alice, unless said otherwise."""
    usual = {
        "uid": UID,
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": PODS_V1,
        "namespace": "team",
        "operation": "CREATE" if old is None else "UPDATE",
        "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
        "object": obj,
        "oldObject": old,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": usual | request}


def a_large_pod(size: int) -> JsonObject:
    """A pod with a claim whose review has about this many bytes."""
    containers = [a_container(name, requests={"cpu": "2", "memory": "4Gi"}) for name in ("train", "watch")]
    inits = [a_container("fetch")]
    pod = a_pod("train-0", annotations={CLAIM: "c"}, containers=containers, initContainers=inits)
    manager = {"manager": "kube-controller-manager", "operation": "Update", "fieldsV1": {"f:metadata": {}}}
    pod["metadata"]["managedFields"] = [manager]
    missing = size - len(json.dumps(a_review(pod)))
    for number in range(max(missing, 0) // 90 + 1):
        place = containers[number % 2].setdefault("env", [])
        place.append({"name": f"SETTING_{number}", "value": f"{'x' * 40}{number:05d}"})
    return pod


def encoded(review: Any) -> bytes:
    return json.dumps(review).encode()
