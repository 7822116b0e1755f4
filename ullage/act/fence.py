"""The fence: a write on a pod after which every bind decided on the pod as it was before must fail.

Binds carry the resourceVersion they were decided on, and any write changes it. Whoever is about to take GPUs away from
a pod that is not bound yet closes this door first; then looks at the pod, and what it says is final.
"""

from ullage import errors
from ullage.kube.api import KubeApi, MergePatch
from ullage.kube.objects.pod import Pod
from ullage.kube.resources import PODS
from ullage.model.event import ObjectKey

FENCE = "gpu.scheduling/unsettled-bind"


async def fence(api: KubeApi, key: ObjectKey, uid: str, mark: str) -> Pod | None:
    """Whatever has this name then; None if nothing has. Another pod than the one meant is left alone.

    `mark` must name the resourceVersion that is to be history: writing what is there already would change nothing.
    """
    body = {"metadata": {"uid": uid, "annotations": {FENCE: mark}}}
    try:
        return await api.patch(PODS, key.name, MergePatch(body), key.namespace)
    except errors.NotFound:
        return None
    except (errors.Conflict, errors.Invalid):
        return await look(api, key)


async def look(api: KubeApi, key: ObjectKey) -> Pod | None:
    """Whatever has this name now."""
    try:
        return await api.get(PODS, key.name, key.namespace)
    except errors.NotFound:
        return None
