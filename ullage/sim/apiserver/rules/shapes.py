"""The JSON types of the built-in kinds' fields, as far as their rules read them."""

from ullage.sim.apiserver.shapes import AMOUNTS, INT_OR_STRING, METADATA, STRINGS, Members, Shape

_SELECTOR: Members = {
    "matchLabels": STRINGS,
    "matchExpressions": [{"key": str, "operator": str, "values": [str]}],
}
_RESOURCES: Members = {"limits": AMOUNTS, "requests": AMOUNTS}
_PROBE: Members = {"httpGet": {"path": str, "scheme": str}, "periodSeconds": int}
_CONTAINER: Members = {
    "name": str,
    "image": str,
    "imagePullPolicy": str,
    "restartPolicy": str,
    "resources": _RESOURCES,
    "ports": [{"name": str, "containerPort": int, "hostPort": int, "protocol": str, "hostIP": str}],
    "env": [{"name": str, "value": str, "valueFrom": {"fieldRef": {"apiVersion": str, "fieldPath": str}}}],
    "volumeMounts": [{"name": str, "mountPath": str}],
    "livenessProbe": _PROBE,
    "readinessProbe": _PROBE,
    "startupProbe": _PROBE,
}
_REQUIREMENT: Members = {"key": str, "operator": str, "values": [str]}
_TERM: Members = {"matchExpressions": [_REQUIREMENT], "matchFields": [_REQUIREMENT]}
_POD_TERM: Members = {
    "topologyKey": str,
    "labelSelector": _SELECTOR,
    "namespaces": [str],
    "namespaceSelector": _SELECTOR,
}
_POD_AFFINITY: Members = {
    "requiredDuringSchedulingIgnoredDuringExecution": [_POD_TERM],
    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": int, "podAffinityTerm": _POD_TERM}],
}
_AFFINITY: Members = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_TERM]},
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": int, "preference": _TERM}],
    },
    "podAffinity": _POD_AFFINITY,
    "podAntiAffinity": _POD_AFFINITY,
}
_TOLERATION: Members = {"key": str, "operator": str, "value": str, "effect": str, "tolerationSeconds": int}
_POD_SPEC: Members = {
    "containers": [_CONTAINER],
    "initContainers": [_CONTAINER],
    "volumes": [{"name": str, "persistentVolumeClaim": {"claimName": str}, "hostPath": {"type": str}}],
    "nodeName": str,
    "nodeSelector": STRINGS,
    "schedulerName": str,
    "restartPolicy": str,
    "dnsPolicy": str,
    "serviceAccountName": str,
    "priorityClassName": str,
    "priority": int,
    "preemptionPolicy": str,
    "hostNetwork": bool,
    "terminationGracePeriodSeconds": int,
    "activeDeadlineSeconds": int,
    "affinity": _AFFINITY,
    "tolerations": [_TOLERATION],
    "topologySpreadConstraints": [{"maxSkew": int, "topologyKey": str, "whenUnsatisfiable": str}],
    "schedulingGates": [{"name": str}],
    "overhead": AMOUNTS,
    "resources": _RESOURCES,
}
_CONDITIONS = [{"type": str, "status": str, "reason": str, "message": str}]

POD = Shape(
    {
        "metadata": METADATA,
        "spec": _POD_SPEC,
        "status": {"phase": str, "nominatedNodeName": str, "qosClass": str, "conditions": _CONDITIONS},
    }
)
NODE = Shape(
    {
        "metadata": METADATA,
        "spec": {
            "unschedulable": bool,
            "providerID": str,
            "taints": [{"key": str, "value": str, "effect": str, "timeAdded": str}],
        },
        "status": {"capacity": AMOUNTS, "allocatable": AMOUNTS, "conditions": _CONDITIONS},
    }
)
_TEMPLATE: Members = {"metadata": METADATA, "spec": _POD_SPEC}
WORKLOAD = Shape(
    {
        "metadata": METADATA,
        "spec": {
            "replicas": int,
            "selector": _SELECTOR,
            "template": _TEMPLATE,
            "strategy": {"type": str, "rollingUpdate": {}},
            "updateStrategy": {"type": str, "rollingUpdate": {}},
            "parallelism": int,
            "completions": int,
            "backoffLimit": int,
            "activeDeadlineSeconds": int,
            "ttlSecondsAfterFinished": int,
            "completionMode": str,
            "suspend": bool,
            "manualSelector": bool,
        },
        "status": {"conditions": _CONDITIONS},
    }
)
BUDGET = Shape(
    {
        "metadata": METADATA,
        "spec": {
            "minAvailable": INT_OR_STRING,
            "maxUnavailable": INT_OR_STRING,
            "selector": _SELECTOR,
            "unhealthyPodEvictionPolicy": str,
        },
        "status": {
            "disruptionsAllowed": int,
            "currentHealthy": int,
            "desiredHealthy": int,
            "expectedPods": int,
            "observedGeneration": int,
            "disruptedPods": STRINGS,
            "conditions": _CONDITIONS,
        },
    }
)
LEASE = Shape(
    {
        "metadata": METADATA,
        "spec": {
            "holderIdentity": str,
            "leaseDurationSeconds": int,
            "leaseTransitions": int,
            "acquireTime": str,
            "renewTime": str,
        },
    }
)
NAMESPACE = Shape({"metadata": METADATA, "spec": {"finalizers": [str]}, "status": {"phase": str}})
PRIORITY_CLASS = Shape({"metadata": METADATA, "value": int, "globalDefault": bool, "preemptionPolicy": str})
CONFIG = Shape({"metadata": METADATA, "data": STRINGS, "binaryData": STRINGS, "immutable": bool, "type": str})
SERVICE = Shape(
    {
        "metadata": METADATA,
        "spec": {"type": str, "clusterIP": str, "ports": [{"port": int, "protocol": str}], "selector": STRINGS},
    }
)
VOLUME = Shape(
    {
        "metadata": METADATA,
        "spec": {"accessModes": [str], "capacity": AMOUNTS, "resources": _RESOURCES, "volumeName": str},
        "status": {"phase": str},
    }
)
STORAGE_CLASS = Shape({"metadata": METADATA, "provisioner": str, "reclaimPolicy": str, "volumeBindingMode": str})
EVENT = Shape(
    {
        "metadata": METADATA,
        "involvedObject": {"kind": str, "namespace": str, "name": str, "uid": str},
        "reason": str,
        "message": str,
        "type": str,
    }
)
DEFINITION = Shape(
    {
        "metadata": METADATA,
        "spec": {
            "group": str,
            "scope": str,
            "names": {
                "plural": str,
                "singular": str,
                "kind": str,
                "listKind": str,
                "shortNames": [str],
                "categories": [str],
            },
            "versions": [
                {
                    "name": str,
                    "served": bool,
                    "storage": bool,
                    "schema": {"openAPIV3Schema": {}},
                    "subresources": {"status": {}, "scale": {"specReplicasPath": str, "statusReplicasPath": str}},
                    "selectableFields": [{"jsonPath": str}],
                }
            ],
        },
    }
)
