"""Fence: a write on a pod after which every bind decided on an earlier resourceVersion fails.

Binds carry the resourceVersion they were decided on, and any write changes it. A component that is about to take GPUs
from a pod that is not bound yet fences the pod first, then reads it; that state is final. The fence is written through
the pod's status, so it needs no other permission on pods.
"""

from ullage import errors
from ullage.kube.client.api import KubeApi, MergePatch
from ullage.kube.client.resources import PODS
from ullage.kube.objects.pod import KubePod
from ullage.model.fact_event import ObjectKey

FENCE = "gpu.scheduling/unsettled-bind"


async def fence(api: KubeApi, key: ObjectKey, uid: str, mark: str) -> KubePod | None:
    """Fence the pod of this uid. Returns the pod of this name afterwards, None if there is none.

    A pod with another uid is not written. `mark` must contain the resourceVersion that is to become stale: writing a
    value that is there already would not change the resourceVersion.
    """
    body = {"metadata": {"uid": uid, "annotations": {FENCE: mark}}}
    try:
        return await api.patch(PODS, key.name, MergePatch(body), key.namespace, subresource="status")
    except errors.NotFound:
        return None
    except (errors.Conflict, errors.Invalid):
        return await look(api, key)


async def look(api: KubeApi, key: ObjectKey) -> KubePod | None:
    """Pod of this name now, None if there is none."""
    try:
        return await api.get(PODS, key.name, key.namespace)
    except errors.NotFound:
        return None
