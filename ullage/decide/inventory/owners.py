"""Pod of a process, from the process' cgroups.

kubelet names a pod's cgroup after its uid. Drivers and runtimes spell the path to it differently: `cgroupfs` has a
folder `pod<uid>`, systemd a slice `kubepods-burstable-pod<uid>.slice` with underscores for dashes; containerd, CRI-O
and Docker add their own below, some after a colon; kind and other nests put more in front.
"""

import re

_UID = r"[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32}"
_POD = re.compile(rf"(?:^|[/-])pod(?P<uid>{_UID})(?=$|[./:])")


def pod_of(cgroups: str) -> str:
    """Uid of the pod these cgroups (the text of /proc/PID/cgroup) are in; empty if they are in none.

    The uid of a static pod is a digest without dashes, as kubelet made it.
    """
    for line in cgroups.splitlines():
        path = line.split(":", 2)[-1]
        if "kubepods" in path and (found := _POD.search(path)) is not None:
            return found["uid"].replace("_", "-")
    return ""
