"""What an operator does on a cluster whose controllers run: roll out, scale, taint, drain, take back, remove."""

import re

from tests.sim.http.write_sequence import Story, step

CLUSTER = """
apiVersion: v1
kind: Node
metadata: {name: "{ns}-a", labels: {set: "{ns}"}, annotations: {kwok.x-k8s.io/node: fake}}
status:
  capacity: {cpu: "32", memory: 64Gi, pods: "110", nvidia.com/gpu: "8"}
  allocatable: {cpu: "32", memory: 64Gi, pods: "110", nvidia.com/gpu: "8"}
---
apiVersion: v1
kind: Node
metadata: {name: "{ns}-b", labels: {set: "{ns}"}, annotations: {kwok.x-k8s.io/node: fake}}
status:
  capacity: {cpu: "32", memory: 64Gi, pods: "110"}
  allocatable: {cpu: "32", memory: 64Gi, pods: "110"}
"""
WORK = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeName: "{ns}-a"
      terminationGracePeriodSeconds: 1
      containers: [{name: c, image: "example.test/c:1"}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: every}
spec:
  selector: {matchLabels: {app: every}}
  template:
    metadata: {labels: {app: every}}
    spec:
      nodeSelector: {set: "{ns}"}
      terminationGracePeriodSeconds: 1
      containers: [{name: c, image: "example.test/c:1"}]
---
apiVersion: v1
kind: Pod
metadata: {name: bare}
spec: {nodeName: "{ns}-b", terminationGracePeriodSeconds: 1, containers: [{name: c, image: "example.test/c:1"}]}
"""
IMAGE = "jsonpath={.spec.template.spec.containers[0].image}"

STORY: Story = [
    step("create -f -", CLUSTER),
    step("apply -f -", WORK),
    step("rollout status deploy/web --timeout=40s"),
    step("wait --for=condition=Ready pod/bare --timeout=40s"),
    step("wait --for=jsonpath={.status.numberReady}=2 ds/every --timeout=40s"),
    step("get nodes -l set={ns}"),
    step("get pods -l app=web"),
    step("get deploy,rs,ds,pdb"),
    step("get deploy,ds -o wide"),
    step("cordon {ns}-a"),
    step("cordon {ns}-a"),
    step("get node {ns}-a"),
    step("uncordon {ns}-a"),
    step("taint node {ns}-a k=v:NoSchedule"),
    step("taint node {ns}-a k=v:NoSchedule"),
    step("taint node {ns}-a k=w:NoSchedule --overwrite"),
    step("get node {ns}-a -o jsonpath={.spec.taints}"),
    step("taint node {ns}-a k-"),
    step("drain {ns}-b"),
    step("drain {ns}-b --ignore-daemonsets --force --timeout=40s"),
    step("get node {ns}-b"),
    step("drain {ns}-a --ignore-daemonsets --timeout=2s"),
    step("uncordon {ns}-a"),
    step("scale deploy web --replicas=4"),
    step("wait --for=jsonpath={.status.readyReplicas}=4 deploy/web --timeout=40s"),
    step("set image deploy/web c=example.test/c:2"),
    step("rollout status deploy/web --timeout=40s"),
    step("rollout history deploy/web"),
    step("rollout undo deploy/web"),
    step("rollout status deploy/web --timeout=40s"),
    step(f"get deploy web -o {IMAGE}"),
    step("rollout history deploy/web"),
    step("delete deploy web"),
    step("delete ds every --cascade=foreground"),
    step("get ds,deploy"),
    step("delete node {ns}-a {ns}-b"),
    step("get nodes -l set={ns}"),
]

_GENERATED = re.compile(r"\b(web|every)-[a-z0-9]{5,10}(-[a-z0-9]{5})?\b")
_PROGRESS = ("Waiting for", "evicting pod", "error when evicting", "There are pending pods", "error: unable to drain")


def settled(text: str) -> str:
    """Without names made up by controllers, and without what depends on who is faster."""
    lines = [_GENERATED.sub(r"\1-x", line) for line in text.splitlines()]
    return "\n".join(line for line in lines if not line.startswith(_PROGRESS) and "global timeout" not in line)
