"""What is left of an object that leaves its cluster."""

from typing import Any

from ullage.kube.manifests.pruning import pruned

SPEC: dict[str, Any] = {
    "containers": [
        {
            "name": "main",
            "image": "x",
            "command": ["run"],
            "args": ["--token=t"],
            "env": [{"name": "A", "value": "b"}],
            "envFrom": [{"secretRef": {"name": "s"}}],
            "resources": {"limits": {"nvidia.com/gpu": "1"}},
            "ports": [{"hostPort": 80}],
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        }
    ],
    "initContainers": [{"name": "first", "restartPolicy": "Always", "command": ["x"]}],
    "volumes": [
        {"name": "data", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "scratch", "emptyDir": {}},
        {"name": "keys", "secret": {"secretName": "s"}},
    ],
    "serviceAccountName": "robot",
    "nodeSelector": {"a": "b"},
    "tolerations": [{"operator": "Exists"}],
    "priority": 7,
}
KEPT = {
    "containers": [
        {
            "name": "main",
            "image": "x",
            "resources": {"limits": {"nvidia.com/gpu": "1"}},
            "ports": [{"hostPort": 80}],
        }
    ],
    "initContainers": [{"name": "first", "restartPolicy": "Always"}],
    "volumes": [
        {"name": "data", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "scratch", "emptyDir": {}},
    ],
    "nodeSelector": {"a": "b"},
    "tolerations": [{"operator": "Exists"}],
    "priority": 7,
}
META = {
    "name": "a",
    "uid": "u",
    "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "gpu.scheduling/claim": "c"},
    "managedFields": [{}],
}
META_KEPT = {"name": "a", "uid": "u", "annotations": {"gpu.scheduling/claim": "c"}}


def test_a_pod_keeps_what_placement_looks_at() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": META, "spec": SPEC, "status": {"phase": "Running"}}
    assert pruned(pod) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": META_KEPT,
        "spec": KEPT,
        "status": {"phase": "Running"},
    }


def test_so_does_the_template_of_a_workload() -> None:
    deployment = {"kind": "Deployment", "metadata": META, "spec": {"replicas": 2, "template": {"spec": SPEC}}}
    assert pruned(deployment)["spec"] == {"replicas": 2, "template": {"metadata": {}, "spec": KEPT}}


def test_other_objects_stay_as_they_are_but_for_their_metadata() -> None:
    pool = {"kind": "NodeProvisioner", "metadata": META, "spec": {"template": {"gpus": {"count": 8}}}}
    assert pruned(pool) == {**pool, "metadata": META_KEPT}
    assert pruned({"kind": "PriorityClass", "metadata": {"name": "x"}, "value": 3})["value"] == 3
