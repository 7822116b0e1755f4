"""Random manifests in Kubernetes' own spelling, of the kind people write: for asking kube-scheduler the same."""

from random import Random
from typing import Any

from ullage.kube.client.resource import JsonObject

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
NODES = tuple("abcdefgh")
CLAIMS = ("free", "zoned", "alone")


def nodes(rng: Random) -> list[JsonObject]:
    return [_node(rng, name) for name in NODES]


def _node(rng: Random, name: str) -> JsonObject:
    labels = {HOST: name} | ({ZONE: rng.choice("12")} if rng.random() < 0.8 else {})
    if rng.random() < 0.6:
        labels["size"] = rng.choice(("1", "2", "10"))
    taints = [{"key": "team", "value": rng.choice("xy"), "effect": rng.choice(("NoSchedule", "NoExecute"))}]
    spec = {"unschedulable": rng.random() < 0.1, "taints": taints if rng.random() < 0.3 else []}
    offers = {"cpu": str(rng.randint(1, 6)), "memory": "8Gi", "pods": str(rng.randint(2, 6))}
    room = offers | ({"nvidia.com/gpu": "4"} if rng.random() < 0.5 else {})
    ready = {"type": "Ready", "status": "True", "reason": "Stated"}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"capacity": room, "allocatable": room, "conditions": [ready]},
    }


def volumes() -> list[tuple[str, JsonObject]]:
    """Three bound claims, as (path, manifest): one that is everywhere, one in zone 1, one for one pod only."""
    made: list[tuple[str, JsonObject]] = []
    for name in CLAIMS:
        mode = "ReadWriteOncePod" if name == "alone" else "ReadWriteMany"
        size = {"storage": "1Gi"}
        spec: JsonObject = {"capacity": size, "accessModes": [mode], "csi": {"driver": "d", "volumeHandle": name}}
        if name == "zoned":
            terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["1"]}]}]
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        done = {"pv.kubernetes.io/bind-completed": "yes"}
        claim = {"accessModes": [mode], "resources": {"requests": size}, "volumeName": name, "storageClassName": ""}
        made.append(("/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": spec}))
        made.append(
            (
                "/api/v1/namespaces/default/persistentvolumeclaims",
                {"metadata": {"name": name, "annotations": done}, "spec": claim},
            )
        )
    return made


def a_pod(rng: Random, name: str, *, node: str = "") -> JsonObject:
    """A pod; most rules are left out of most pods, so that the others are reached."""
    requests = {"cpu": rng.choice(("0", "500m", "2"))} | ({"nvidia.com/gpu": "1"} if rng.random() < 0.2 else {})
    limits = {key: value for key, value in requests.items() if "/" in key}
    container: JsonObject = {"name": "main", "image": "app", "resources": {"requests": requests, "limits": limits}}
    if rng.random() < 0.2:
        address = rng.choice(({}, {"hostIP": "10.0.0.1"}))
        container["ports"] = [{"containerPort": 80, "hostPort": 80} | address]
    spec: JsonObject = {"containers": [container], "terminationGracePeriodSeconds": 0}
    spec |= {"nodeName": node} if node else {}
    if rng.random() < 0.7:
        operator = rng.choice(({"operator": "Exists"}, {"value": "x"}))
        spec["tolerations"] = [{"key": "team", "effect": rng.choice(("", "NoSchedule"))} | operator]
    if rng.random() < 0.2:
        spec["nodeSelector"] = {ZONE: rng.choice("12")}
    if rng.random() < 0.3:
        spec["topologySpreadConstraints"] = [_spread(rng, key) for key in rng.sample((ZONE, HOST), rng.randint(1, 2))]
    if affinity := _affinity(rng):
        spec["affinity"] = affinity
    if rng.random() < 0.2:
        spec["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": rng.choice(CLAIMS)}}]
    return {"metadata": {"name": name, "labels": {key: rng.choice("12") for key in ("app", "v", "rev")}}, "spec": spec}


def _affinity(rng: Random) -> JsonObject:
    affinity: JsonObject = {}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    if rng.random() < 0.25:
        terms = [_node_term(rng) for _ in range(rng.randint(1, 2))]
        affinity["nodeAffinity"] = {required: {"nodeSelectorTerms": terms}}
    for kind in ("podAffinity", "podAntiAffinity"):
        if rng.random() < 0.25:
            affinity[kind] = {required: [_pod_term(rng) for _ in range(rng.randint(1, 2))]}
    return affinity


def _node_term(rng: Random) -> JsonObject:
    return {
        "matchExpressions": [
            rng.choice(
                (
                    {"key": ZONE, "operator": "In", "values": ["1"]},
                    {"key": ZONE, "operator": "NotIn", "values": ["1"]},
                    {"key": "size", "operator": "Exists"},
                    {"key": "size", "operator": "DoesNotExist"},
                    {"key": "size", "operator": "Gt", "values": ["2"]},
                    {"key": "size", "operator": "Lt", "values": ["10"]},
                )
            )
        ]
    }


def _selector(rng: Random) -> Any:
    return rng.choice(({"matchLabels": {"app": rng.choice("12")}}, {"matchLabels": {"v": "1"}}, {}))


def _pod_term(rng: Random) -> JsonObject:
    places: JsonObject = rng.choice(({}, {}, {"namespaces": ["other"]}, {"namespaceSelector": {}}))
    keys = rng.choice(({}, {}, {"matchLabelKeys": ["rev"]}))
    return {"topologyKey": rng.choice((ZONE, HOST)), "labelSelector": _selector(rng)} | places | keys


def _spread(rng: Random, key: str) -> JsonObject:
    more = rng.choice(({}, {"minDomains": 3}, {"nodeTaintsPolicy": "Honor"}, {"nodeAffinityPolicy": "Ignore"}))
    return {
        "topologyKey": key,
        "maxSkew": rng.randint(1, 2),
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": _selector(rng),
    } | more
