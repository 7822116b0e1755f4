"""PUT namespaces/NAME/finalize: called by the controller that empties a namespace, when it is done."""

from ullage.kube.client.transport import Response
from ullage.sim.apiserver.request.api_call import ApiCall
from ullage.sim.apiserver.request.status_errors import not_found
from ullage.sim.apiserver.storage.context import ServerContext
from ullage.sim.apiserver.storage.views import encoded
from ullage.sim.apiserver.verbs.create import sent_object
from ullage.sim.apiserver.verbs.update import check_revision, store_update


def finalize(call: ApiCall, world: ServerContext) -> Response:
    """Only `spec.finalizers` is taken; a namespace asked to go, without any left, is gone."""
    dry_run = call.dry_run("UpdateOptions")
    said = sent_object(call)
    old = world.store.shelf("namespaces").get(call.key)
    if old is None:
        raise not_found(call.kind.about(call.target.name))
    check_revision(call, said["metadata"], old)
    obj = old.fresh()
    held = (said.get("spec") or {}).get("finalizers") or []
    obj["spec"] = {"finalizers": held} if held else {}
    return Response(200, encoded(call.kind, store_update(call, world, old, obj, dry_run=dry_run)))
