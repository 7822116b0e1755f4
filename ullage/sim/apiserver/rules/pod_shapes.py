"""The fields of pods, of their templates, and of what makes pods."""

from typing import Any

from ullage.sim.apiserver.rules.shapes import CONDITIONS, METADATA, SELECTOR
from ullage.sim.apiserver.types.shapes import (
    AMOUNTS,
    ANYTHING,
    COUNT,
    FLAG,
    INT_OR_STRING,
    KEPT,
    STRINGS,
    TEXT,
    Members,
    ObjectSchema,
)

_RESOURCES: Members = {"limits": AMOUNTS, "requests": AMOUNTS, "claims": [ANYTHING]}
_PROBE: Members = {
    "exec": ANYTHING,
    "httpGet": {"path": TEXT, "port": INT_OR_STRING, "host": TEXT, "scheme": TEXT, "httpHeaders": [ANYTHING]},
    "tcpSocket": ANYTHING,
    "grpc": ANYTHING,
    "initialDelaySeconds": COUNT,
    "timeoutSeconds": COUNT,
    "periodSeconds": COUNT,
    "successThreshold": COUNT,
    "failureThreshold": COUNT,
    "terminationGracePeriodSeconds": int,
}
_ENV_SOURCE: Members = {
    "fieldRef": {"apiVersion": TEXT, "fieldPath": KEPT},
    "resourceFieldRef": ANYTHING,
    "configMapKeyRef": ANYTHING,
    "secretKeyRef": ANYTHING,
    "fileKeyRef": ANYTHING,
}
_CONTAINER: Members = {
    "name": KEPT,
    "image": TEXT,
    "command": [str],
    "args": [str],
    "workingDir": TEXT,
    "ports": [{"name": TEXT, "hostPort": COUNT, "containerPort": int, "protocol": TEXT, "hostIP": TEXT}],
    "envFrom": [ANYTHING],
    "env": [{"name": KEPT, "value": TEXT, "valueFrom": _ENV_SOURCE}],
    "resources": _RESOURCES,
    "resizePolicy": [ANYTHING],
    "restartPolicy": str | None,
    "restartPolicyRules": [ANYTHING],
    "volumeMounts": [
        {
            "name": KEPT,
            "readOnly": FLAG,
            "recursiveReadOnly": str | None,
            "mountPath": KEPT,
            "subPath": TEXT,
            "mountPropagation": str | None,
            "subPathExpr": TEXT,
        }
    ],
    "volumeDevices": [ANYTHING],
    "livenessProbe": _PROBE,
    "readinessProbe": _PROBE,
    "startupProbe": _PROBE,
    "lifecycle": ANYTHING,
    "terminationMessagePath": TEXT,
    "terminationMessagePolicy": TEXT,
    "imagePullPolicy": TEXT,
    "securityContext": ANYTHING,
    "stdin": FLAG,
    "stdinOnce": FLAG,
    "tty": FLAG,
}
_REQUIREMENT: Members = {"key": KEPT, "operator": KEPT, "values": [str]}
_TERM: Members = {"matchExpressions": [_REQUIREMENT], "matchFields": [_REQUIREMENT]}
_POD_TERM: Members = {
    "labelSelector": SELECTOR,
    "namespaces": [str],
    "topologyKey": KEPT,
    "namespaceSelector": SELECTOR,
    "matchLabelKeys": [str],
    "mismatchLabelKeys": [str],
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
_SPREAD: Members = {
    "maxSkew": int,
    "topologyKey": KEPT,
    "whenUnsatisfiable": KEPT,
    "labelSelector": SELECTOR,
    "minDomains": int,
    "nodeAffinityPolicy": str | None,
    "nodeTaintsPolicy": str | None,
    "matchLabelKeys": [str],
}
_OBJECT = dict[str, Any] | None
_VOLUME: Members = {
    "name": KEPT,
    "hostPath": {"path": KEPT, "type": str | None},
    "emptyDir": _OBJECT,
    "secret": _OBJECT,
    "persistentVolumeClaim": {"claimName": KEPT, "readOnly": FLAG},
    "downwardAPI": _OBJECT,
    "configMap": _OBJECT,
    "projected": _OBJECT,
    "csi": _OBJECT,
    "ephemeral": _OBJECT,
    "image": _OBJECT,
    "nfs": _OBJECT,
    "iscsi": _OBJECT,
    "fc": _OBJECT,
    "flexVolume": _OBJECT,
    "gcePersistentDisk": _OBJECT,
    "awsElasticBlockStore": _OBJECT,
    "azureDisk": _OBJECT,
    "azureFile": _OBJECT,
    "cephfs": _OBJECT,
    "cinder": _OBJECT,
    "rbd": _OBJECT,
    "vsphereVolume": _OBJECT,
    "portworxVolume": _OBJECT,
    "gitRepo": _OBJECT,
}
POD_SPEC: Members = {
    "volumes": [_VOLUME],
    "initContainers": [_CONTAINER],
    "containers": [_CONTAINER],
    "ephemeralContainers": [{**_CONTAINER, "targetContainerName": TEXT}],
    "restartPolicy": TEXT,
    "terminationGracePeriodSeconds": int,
    "activeDeadlineSeconds": int,
    "dnsPolicy": TEXT,
    "nodeSelector": STRINGS,
    "serviceAccountName": TEXT,
    "serviceAccount": TEXT,
    "automountServiceAccountToken": bool,
    "nodeName": TEXT,
    "hostNetwork": FLAG,
    "hostPID": FLAG,
    "hostIPC": FLAG,
    "shareProcessNamespace": bool,
    "securityContext": ANYTHING,
    "imagePullSecrets": [ANYTHING],
    "hostname": TEXT,
    "subdomain": TEXT,
    "affinity": _AFFINITY,
    "schedulerName": TEXT,
    "tolerations": [{"key": TEXT, "operator": TEXT, "value": TEXT, "effect": TEXT, "tolerationSeconds": int}],
    "hostAliases": [ANYTHING],
    "priorityClassName": TEXT,
    "priority": int,
    "dnsConfig": ANYTHING,
    "readinessGates": [{"conditionType": KEPT}],
    "runtimeClassName": str | None,
    "enableServiceLinks": bool,
    "preemptionPolicy": str | None,
    "overhead": AMOUNTS,
    "topologySpreadConstraints": [_SPREAD],
    "setHostnameAsFQDN": bool,
    "os": ANYTHING,
    "hostUsers": bool,
    "schedulingGates": [{"name": KEPT}],
    "resourceClaims": [{"name": KEPT, "resourceClaimName": str | None, "resourceClaimTemplateName": str | None}],
    "resources": _RESOURCES,
    "hostnameOverride": str | None,
    "schedulingGroup": ANYTHING,
}
POD = ObjectSchema(
    {
        "metadata": METADATA,
        "spec": POD_SPEC,
        "status": {
            "observedGeneration": COUNT,
            "phase": TEXT,
            "conditions": CONDITIONS,
            "message": TEXT,
            "reason": TEXT,
            "nominatedNodeName": TEXT,
            "hostIP": TEXT,
            "hostIPs": [{"ip": KEPT}],
            "podIP": TEXT,
            "podIPs": [{"ip": KEPT}],
            "startTime": str | None,
            "initContainerStatuses": [dict[str, Any]],
            "containerStatuses": [dict[str, Any]],
            "qosClass": TEXT,
            "ephemeralContainerStatuses": [ANYTHING],
            "resize": TEXT,
            "resourceClaimStatuses": [ANYTHING],
            "extendedResourceClaimStatus": ANYTHING,
            "allocatedResources": AMOUNTS,
            "resources": _RESOURCES,
        },
    }
)
_TEMPLATE: Members = {"metadata": METADATA, "spec": POD_SPEC}
_STRATEGY: Members = {
    "type": TEXT,
    "rollingUpdate": {"partition": int, "maxUnavailable": INT_OR_STRING, "maxSurge": INT_OR_STRING},
}
_SCALED_STATUS: Members = {
    "observedGeneration": COUNT,
    "replicas": COUNT,
    "updatedReplicas": COUNT,
    "fullyLabeledReplicas": COUNT,
    "readyReplicas": COUNT,
    "availableReplicas": COUNT,
    "unavailableReplicas": COUNT,
    "terminatingReplicas": int,
    "currentReplicas": COUNT,
    "currentRevision": TEXT,
    "updateRevision": TEXT,
    "conditions": CONDITIONS,
    "collisionCount": int,
}
_COUNTED_STATUS: Members = {**_SCALED_STATUS, "replicas": int}
DEPLOYMENT = ObjectSchema(
    {
        "metadata": METADATA,
        "spec": {
            "replicas": int,
            "selector": SELECTOR,
            "template": _TEMPLATE,
            "strategy": _STRATEGY,
            "minReadySeconds": COUNT,
            "revisionHistoryLimit": int,
            "paused": FLAG,
            "progressDeadlineSeconds": int,
        },
        "status": _SCALED_STATUS,
    }
)
REPLICA_SET = ObjectSchema(
    {
        "metadata": METADATA,
        "spec": {"replicas": int, "minReadySeconds": COUNT, "selector": SELECTOR, "template": _TEMPLATE},
        "status": _COUNTED_STATUS,
    }
)
STATEFUL_SET = ObjectSchema(
    {
        "metadata": METADATA,
        "spec": {
            "replicas": int,
            "selector": SELECTOR,
            "template": _TEMPLATE,
            "volumeClaimTemplates": [ANYTHING],
            "serviceName": KEPT,
            "podManagementPolicy": TEXT,
            "updateStrategy": _STRATEGY,
            "revisionHistoryLimit": int,
            "minReadySeconds": COUNT,
            "persistentVolumeClaimRetentionPolicy": ANYTHING,
            "ordinals": ANYTHING,
        },
        "status": {**_COUNTED_STATUS, "availableReplicas": int},
    }
)
DAEMON_SET = ObjectSchema(
    {
        "metadata": METADATA,
        "spec": {
            "selector": SELECTOR,
            "template": _TEMPLATE,
            "updateStrategy": _STRATEGY,
            "minReadySeconds": COUNT,
            "revisionHistoryLimit": int,
        },
        "status": {
            "currentNumberScheduled": int,
            "numberMisscheduled": int,
            "desiredNumberScheduled": int,
            "numberReady": int,
            "observedGeneration": COUNT,
            "updatedNumberScheduled": COUNT,
            "numberAvailable": COUNT,
            "numberUnavailable": COUNT,
            "collisionCount": int,
            "conditions": CONDITIONS,
        },
    }
)
JOB = ObjectSchema(
    {
        "metadata": METADATA,
        "spec": {
            "parallelism": int,
            "completions": int,
            "activeDeadlineSeconds": int,
            "podFailurePolicy": ANYTHING,
            "successPolicy": ANYTHING,
            "backoffLimit": int,
            "backoffLimitPerIndex": int,
            "maxFailedIndexes": int,
            "selector": SELECTOR,
            "manualSelector": bool,
            "template": _TEMPLATE,
            "ttlSecondsAfterFinished": int,
            "completionMode": str | None,
            "suspend": bool,
            "podReplacementPolicy": str | None,
            "managedBy": str | None,
        },
        "status": {
            "conditions": CONDITIONS,
            "startTime": str | None,
            "completionTime": str | None,
            "active": COUNT,
            "succeeded": COUNT,
            "failed": COUNT,
            "terminating": int,
            "completedIndexes": TEXT,
            "failedIndexes": str | None,
            "uncountedTerminatedPods": ANYTHING,
            "ready": int,
        },
    }
)
