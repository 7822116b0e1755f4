"""PUT namespaces/NAME/finalize: what the controller that empties a namespace says when it is done."""

from ullage.kube.transport import Response
from ullage.sim.apiserver.call import Call
from ullage.sim.apiserver.creation import sent_object
from ullage.sim.apiserver.refusal import not_found
from ullage.sim.apiserver.updating import check_revision, store_update
from ullage.sim.apiserver.views import encoded
from ullage.sim.apiserver.world import World


def finalize(call: Call, world: World) -> Response:
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
