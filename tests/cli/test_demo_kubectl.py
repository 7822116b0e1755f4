"""The real kubectl at a demo: ordinary pods get a node, Events are found by object, and `kubectl top` answers."""

import json
import signal
from pathlib import Path
from time import monotonic, sleep

from tests.cli.demo_process import kubectl, running_demo

_HUGE = {"spec": {"containers": [{"name": "huge", "image": "nginx", "resources": {"requests": {"cpu": "500"}}}]}}


def _events_for(kubeconfig: str, pod: str) -> str:
    """What `kubectl events --for` prints, once there is something."""
    deadline = monotonic() + 60
    while "LAST SEEN" not in (said := kubectl(kubeconfig, "events", "--for", f"pod/{pod}")):
        assert monotonic() < deadline, said
        sleep(0.5)
    return said


def test_ordinary_pods_events_and_top(tmp_path: Path) -> None:
    with running_demo(tmp_path, "--no-browser") as demo:
        config = demo.wait_for(r"^try:.*--kubeconfig (\S+) apply")[1]
        demo.wait_for(r"Scheduled fine-tune")
        kubectl(config, "run", "web", "--image=nginx")
        kubectl(config, "run", "huge", "--image=nginx", "--overrides", json.dumps(_HUGE))
        kubectl(config, "wait", "pod/web", "--for=condition=Ready", "--timeout=60s")
        web = json.loads(kubectl(config, "get", "pod", "web", "-o", "json"))["spec"]
        assert (web["schedulerName"], web["nodeName"][:4]) == ("default-scheduler", "cpu-")

        assert "Successfully assigned default/web to cpu-" in _events_for(config, "web")
        refused = _events_for(config, "huge")
        assert "FailedScheduling" in refused
        assert "0/6 nodes are available: 4 node(s) had untolerated taint(s)" in refused
        chosen = kubectl(config, "get", "events", "--field-selector", "involvedObject.name=fine-tune,reason=Scheduled")
        assert [line.split()[3] for line in chosen.splitlines()[1:]] == ["pod/fine-tune"]

        nodes = kubectl(config, "top", "nodes").splitlines()
        assert {line.split()[0] for line in nodes[1:]} >= {"cpu-a", "cpu-b", "train-a", "serve-b"}
        pods = {line.split()[0]: line.split()[1:] for line in kubectl(config, "top", "pods").splitlines()[1:]}
        assert {"web", "fine-tune", "notebook"} <= pods.keys()
        assert "huge" not in pods, "what does not run uses nothing"
        assert 700 <= int(pods["fine-tune"][0].removesuffix("m")) <= 1800, "a part of the two cores it requests"
        assert "fine-tune" in kubectl(config, "top", "pod", "fine-tune", "--containers")
        assert "metrics.k8s.io/v1beta1" in kubectl(config, "api-resources", "--api-group=metrics.k8s.io")
        assert demo.stop(signal.SIGINT) == 0
    assert demo.left_behind() == []
