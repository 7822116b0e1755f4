"""The fields of the built-in kinds, in the order the server writes them.

What a kind's rules read is spelled out; what they only pass on is `ANYTHING`.
"""

from typing import Any

from ullage.sim.apiserver.types.shapes import (
    AMOUNTS,
    ANYTHING,
    BLOBS,
    COUNT,
    FLAG,
    INT_OR_STRING,
    KEPT,
    STRINGS,
    TEXT,
    Members,
    MicroTime,
    ObjectSchema,
)

METADATA: Members = {
    "name": TEXT,
    "generateName": TEXT,
    "namespace": TEXT,
    "uid": TEXT,
    "resourceVersion": TEXT,
    "generation": COUNT,
    "creationTimestamp": str | None,
    "deletionTimestamp": str | None,
    "deletionGracePeriodSeconds": int,
    "labels": STRINGS,
    "annotations": STRINGS,
    "ownerReferences": [
        {"apiVersion": KEPT, "kind": KEPT, "name": KEPT, "uid": KEPT, "controller": bool, "blockOwnerDeletion": bool}
    ],
    "finalizers": [str],
    "managedFields": ANYTHING,
}
OPEN = ObjectSchema({"metadata": METADATA}, closed=False)
"""Kinds that are kept as they come."""

SELECTOR: Members = {
    "matchLabels": STRINGS,
    "matchExpressions": [{"key": KEPT, "operator": KEPT, "values": [str]}],
}
CONDITIONS = [
    {
        "type": KEPT,
        "status": KEPT,
        "observedGeneration": COUNT,
        "lastProbeTime": str | None,
        "lastHeartbeatTime": str | None,
        "lastUpdateTime": str | None,
        "lastTransitionTime": str | None,
        "reason": TEXT,
        "message": TEXT,
    }
]

NODE = ObjectSchema(
    {
        "metadata": METADATA,
        "spec": {
            "podCIDR": TEXT,
            "podCIDRs": [str],
            "providerID": TEXT,
            "unschedulable": FLAG,
            "taints": [{"key": KEPT, "value": TEXT, "effect": KEPT, "timeAdded": str | None}],
            "configSource": ANYTHING,
            "externalID": TEXT,
        },
        "status": {
            "capacity": AMOUNTS,
            "allocatable": AMOUNTS,
            "phase": TEXT,
            "conditions": CONDITIONS,
            "addresses": [{"type": KEPT, "address": KEPT}],
            "daemonEndpoints": ANYTHING,
            "nodeInfo": ANYTHING,
            "images": [{"names": [str], "sizeBytes": COUNT}],
            "volumesInUse": [str],
            "volumesAttached": [ANYTHING],
            "config": ANYTHING,
            "runtimeHandlers": [ANYTHING],
            "features": ANYTHING,
            "declaredFeatures": [str],
        },
    }
)
BUDGET = ObjectSchema(
    {
        "metadata": METADATA,
        "spec": {
            "minAvailable": INT_OR_STRING,
            "selector": SELECTOR,
            "maxUnavailable": INT_OR_STRING,
            "unhealthyPodEvictionPolicy": str | None,
        },
        "status": {
            "observedGeneration": COUNT,
            "disruptedPods": STRINGS,
            "disruptionsAllowed": int,
            "currentHealthy": int,
            "desiredHealthy": int,
            "expectedPods": int,
            "conditions": [
                {
                    "type": KEPT,
                    "status": KEPT,
                    "observedGeneration": COUNT,
                    "lastTransitionTime": str | None,
                    "reason": KEPT,
                    "message": KEPT,
                }
            ],
        },
    }
)
LEASE = ObjectSchema(
    {
        "metadata": METADATA,
        "spec": {
            "holderIdentity": str | None,
            "leaseDurationSeconds": int,
            "acquireTime": MicroTime,
            "renewTime": MicroTime,
            "leaseTransitions": int,
            "strategy": str | None,
            "preferredHolder": str | None,
        },
    }
)
NAMESPACE = ObjectSchema(
    {
        "metadata": METADATA,
        "spec": {"finalizers": [str]},
        "status": {"phase": TEXT, "conditions": CONDITIONS},
    }
)
PRIORITY_CLASS = ObjectSchema(
    {
        "metadata": METADATA,
        "value": int,
        "globalDefault": FLAG,
        "description": TEXT,
        "preemptionPolicy": str | None,
    }
)
CONFIG_MAP = ObjectSchema({"metadata": METADATA, "immutable": bool, "data": STRINGS, "binaryData": BLOBS})
SECRET = ObjectSchema({"metadata": METADATA, "immutable": bool, "data": BLOBS, "stringData": STRINGS, "type": TEXT})
_PORTS = [
    {
        "name": TEXT,
        "protocol": TEXT,
        "appProtocol": str | None,
        "port": int,
        "targetPort": INT_OR_STRING,
        "nodePort": COUNT,
    }
]
SERVICE = ObjectSchema(
    {
        "metadata": METADATA,
        "spec": {
            "ports": _PORTS,
            "selector": STRINGS,
            "clusterIP": TEXT,
            "clusterIPs": [str],
            "type": TEXT,
            "externalIPs": [str],
            "sessionAffinity": TEXT,
            "loadBalancerIP": TEXT,
            "loadBalancerSourceRanges": [str],
            "externalName": TEXT,
            "externalTrafficPolicy": TEXT,
            "healthCheckNodePort": COUNT,
            "publishNotReadyAddresses": FLAG,
            "sessionAffinityConfig": ANYTHING,
            "ipFamilies": [str],
            "ipFamilyPolicy": str | None,
            "allocateLoadBalancerNodePorts": bool,
            "loadBalancerClass": str | None,
            "internalTrafficPolicy": str | None,
            "trafficDistribution": str | None,
        },
        "status": ANYTHING,
    }
)
CLAIM = ObjectSchema(
    {
        "metadata": METADATA,
        "spec": {
            "accessModes": [str],
            "selector": SELECTOR,
            "resources": {"limits": AMOUNTS, "requests": AMOUNTS},
            "volumeName": TEXT,
            "storageClassName": str | None,
            "volumeMode": str | None,
            "dataSource": ANYTHING,
            "dataSourceRef": ANYTHING,
            "volumeAttributesClassName": str | None,
        },
        "status": ANYTHING,
    }
)
VOLUME = ObjectSchema({"metadata": METADATA, "spec": dict[str, Any], "status": ANYTHING})
STORAGE_CLASS = ObjectSchema(
    {
        "metadata": METADATA,
        "provisioner": KEPT,
        "parameters": STRINGS,
        "reclaimPolicy": str | None,
        "mountOptions": [str],
        "allowVolumeExpansion": bool,
        "volumeBindingMode": str | None,
        "allowedTopologies": [ANYTHING],
    }
)
_REFERENCE: Members = {
    "kind": TEXT,
    "namespace": TEXT,
    "name": TEXT,
    "uid": TEXT,
    "apiVersion": TEXT,
    "resourceVersion": TEXT,
    "fieldPath": TEXT,
}
EVENT = ObjectSchema(
    {
        "metadata": METADATA,
        "involvedObject": _REFERENCE,
        "reason": TEXT,
        "message": TEXT,
        "source": {"component": TEXT, "host": TEXT},
        "firstTimestamp": str | None,
        "lastTimestamp": str | None,
        "count": COUNT,
        "type": TEXT,
        "eventTime": MicroTime,
        "series": ANYTHING,
        "action": TEXT,
        "related": _REFERENCE,
        "reportingComponent": KEPT,
        "reportingInstance": KEPT,
    }
)
DEFINITION = ObjectSchema(
    {
        "metadata": METADATA,
        "spec": {
            "group": KEPT,
            "names": {
                "plural": KEPT,
                "singular": TEXT,
                "shortNames": [str],
                "kind": KEPT,
                "listKind": TEXT,
                "categories": [str],
            },
            "scope": KEPT,
            "versions": [
                {
                    "name": KEPT,
                    "served": bool,
                    "storage": bool,
                    "deprecated": FLAG,
                    "deprecationWarning": str | None,
                    "schema": {"openAPIV3Schema": dict | None},
                    "subresources": {
                        "status": ANYTHING,
                        "scale": {
                            "specReplicasPath": KEPT,
                            "statusReplicasPath": KEPT,
                            "labelSelectorPath": str | None,
                        },
                    },
                    "additionalPrinterColumns": [ANYTHING],
                    "selectableFields": [{"jsonPath": KEPT}],
                }
            ],
            "conversion": ANYTHING,
            "preserveUnknownFields": FLAG,
        },
        "status": {"conditions": CONDITIONS, "acceptedNames": ANYTHING, "storedVersions": [str]},
    }
)
