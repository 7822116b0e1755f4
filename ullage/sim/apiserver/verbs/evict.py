"""POST pods/NAME/eviction: delete a pod if its disruption budgets allow it."""

from dataclasses import dataclass, replace

from ullage.kube.client.transport import Response
from ullage.sim.apiserver.request.api_call import ApiCall
from ullage.sim.apiserver.request.status_errors import (
    StatusError,
    StatusSubject,
    bad_request,
    conflict,
    forbidden,
    not_found,
    too_many,
    unexpected,
)
from ullage.sim.apiserver.rules.workloads import selector_of
from ullage.sim.apiserver.storage.context import ServerContext
from ullage.sim.apiserver.storage.json_bytes import JsonObject
from ullage.sim.apiserver.storage.store import StoredObject
from ullage.sim.apiserver.verbs.binding import DONE
from ullage.sim.apiserver.verbs.conditions import set_condition
from ullage.sim.apiserver.verbs.delete import DeleteOptions, delete_object, options_from

_BUDGETS = "poddisruptionbudgets.policy"
_WOULD_VIOLATE = "Cannot evict pod as it would violate the pod's disruption budget."
_MAX_DISRUPTED = 2000


@dataclass(frozen=True, slots=True)
class _Allowance:
    """Permission of the disruption budgets, and the budget it is charged to, if any."""

    charged: StoredObject | None


def evict(call: ApiCall, world: ServerContext) -> Response:
    """Raises StatusError: 429 if the budget allows it later, 500 if two budgets select the pod."""
    options = _options(call)
    stored = world.store.shelf("pods").get(call.key)
    if stored is None:
        raise not_found(call.kind.about(call.target.name))
    if not _ignores_budgets(stored.obj):
        allowance = _ask_budgets(stored.obj, world)
        if allowance.charged is not None and not options.dry_run:
            _charge(allowance.charged, stored.obj["metadata"]["name"], world)
    _mark_and_delete(call, world, options)
    return Response(201, DONE)


def _options(call: ApiCall) -> DeleteOptions:
    eviction = call.plain_body("Eviction")
    if (eviction.get("metadata") or {}).get("name") != call.target.name:
        raise bad_request("name in URL does not match name in Eviction object")
    options = options_from(eviction.get("deleteOptions") or {})
    return replace(options, dry_run=options.dry_run or call.dry_run("CreateOptions"))


def _ignores_budgets(pod: JsonObject) -> bool:
    """True if the pod does not run yet or no longer: its eviction disrupts nothing."""
    return pod["status"].get("phase") in ("Pending", "Succeeded", "Failed") or bool(
        pod["metadata"].get("deletionTimestamp")
    )


def _ask_budgets(pod: JsonObject, world: ServerContext) -> _Allowance:
    budgets = _budgets_of(pod, world)
    if not budgets:
        return _Allowance(None)
    if len(budgets) > 1:
        raise unexpected(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    budget = budgets[0].obj
    status = budget.get("status") or {}
    if not _ready(pod) and _lets_unready_go(budget["spec"], status):
        return _Allowance(None)
    _check_budget(budget, status)
    return _Allowance(budgets[0])


def _lets_unready_go(spec: JsonObject, status: JsonObject) -> bool:
    desired = status.get("desiredHealthy", 0)
    return spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow" or (status.get("currentHealthy", 0) >= desired > 0)


def _check_budget(budget: JsonObject, status: JsonObject) -> None:
    metadata = budget["metadata"]
    name = metadata["name"]
    if status.get("observedGeneration", 0) < metadata.get("generation", 0):
        message = f"The disruption budget {name} is still being processed by the server."
        raise too_many(_WOULD_VIOLATE, 10, [{"reason": "DisruptionBudget", "message": message}])
    allowed = status.get("disruptionsAllowed", 0)
    about = StatusSubject("poddisruptionbudget", "policy", name)
    if allowed < 0:
        raise forbidden(about, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods") or {}) > _MAX_DISRUPTED:
        raise forbidden(about, "DisruptedPods map too big - too many evictions not confirmed by PDB controller")
    if allowed == 0:
        raise _not_now(name, status)


def _not_now(name: str, status: JsonObject) -> StatusError:
    return too_many(_WOULD_VIOLATE, None, [{"reason": "DisruptionBudget", "message": _why_not(name, status)}])


def _why_not(name: str, status: JsonObject) -> str:
    needs, has = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
    budget = f"The disruption budget {name}"
    refusals = [
        condition
        for condition in status.get("conditions") or []
        if condition.get("type") == "DisruptionAllowed"
        and condition.get("status") == "False"
        and condition.get("message")
    ]
    if refusals and refusals[0].get("reason") == "SyncFailed":
        return f"{budget} does not allow evicting pods currently because it failed sync: {refusals[0]['message']}"
    if has <= needs:
        return f"{budget} needs {needs} healthy pods and has {has} currently"
    if refusals:
        return (
            f"{budget} does not allow evicting pods currently ({refusals[0].get('reason')}): {refusals[0]['message']}"
        )
    return f"{budget} does not allow evicting pods currently"


def _budgets_of(pod: JsonObject, world: ServerContext) -> list[StoredObject]:
    labels = pod["metadata"].get("labels") or {}
    namespace = pod["metadata"]["namespace"]
    found: list[StoredObject] = []
    for stored in world.store.shelf(_BUDGETS).values():
        if stored.obj["metadata"]["namespace"] != namespace:
            continue
        selector = stored.obj["spec"].get("selector")
        if selector is not None and selector_of(selector).matches(labels):
            found.append(stored)
    return found


def _charge(stored: StoredObject, pod: str, world: ServerContext) -> None:
    budget = stored.fresh()
    status = budget["status"]
    status["disruptionsAllowed"] -= 1
    status["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod: world.timestamp()}
    if status["disruptionsAllowed"] == 0:
        condition = {
            "type": "DisruptionAllowed",
            "status": "False",
            "observedGeneration": status.get("observedGeneration", 0),
            "lastTransitionTime": world.timestamp(),
            "reason": "InsufficientPods",
            "message": "",
        }
        others = [item for item in status.get("conditions") or [] if item.get("type") != condition["type"]]
        status["conditions"] = [*others, condition]
    world.store.put(_BUDGETS, stored.key, budget, stored.owners)


def _check_preconditions(call: ApiCall, metadata: JsonObject, options: DeleteOptions) -> None:
    """Asked after the budget, which is charged even if they fail, as with the real server."""
    if options.uid and options.uid != metadata["uid"]:
        why = f"the UID in the precondition ({options.uid}) does not match the UID in record ({metadata['uid']})"
        raise conflict(
            call.kind.about_kind(metadata["name"]), f"{why}. The object might have been deleted and then recreated"
        )
    if options.revision and options.revision != metadata["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({options.revision}) does not match the ResourceVersion in record"
        )
        message = f"{why} ({metadata['resourceVersion']}). The object might have been modified"
        raise conflict(call.kind.about_kind(metadata["name"]), message)


def _mark_and_delete(call: ApiCall, world: ServerContext, options: DeleteOptions) -> None:
    stored = world.store.shelf("pods").get(call.key)
    if stored is not None and not options.dry_run:
        _check_preconditions(call, stored.obj["metadata"], options)
        pod = stored.fresh()
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }
        set_condition(pod["status"], condition, world.timestamp())
        if pod != stored.obj:
            marked = world.store.put("pods", call.key, pod, stored.owners)
            if options.revision:
                options = replace(options, revision=marked.obj["metadata"]["resourceVersion"])
    delete_object(call, world, options)


def _ready(pod: JsonObject) -> bool:
    conditions = pod["status"].get("conditions") or []
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
