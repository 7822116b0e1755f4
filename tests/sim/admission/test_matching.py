"""The door asks about the same writes as the registered webhook configurations."""

from ullage.kube.admission.webhook_configs import WebhookEndpoint, configurations
from ullage.sim.admission.matching import GUARDING, MUTATING, WebhookRule

Rule = tuple[str, str, tuple[str, ...], tuple[str, ...]]


def _registered(which: int) -> set[Rule]:
    hooks = configurations(WebhookEndpoint(), None, ("me",))[which].body["webhooks"]
    return {
        (hook["name"], rule["apiGroups"][0], tuple(rule["operations"]), tuple(rule["resources"]))
        for hook in hooks
        for rule in hook["rules"]
    }


def _at_the_door(hooks: tuple[WebhookRule, ...]) -> set[Rule]:
    return {(hook.name, hook.group, hook.operations, hook.resources) for hook in hooks}


def test_changes_are_asked_for_as_registered() -> None:
    assert _at_the_door(tuple(MUTATING)) == _registered(0)


def test_judgements_are_asked_for_as_registered() -> None:
    assert _at_the_door(tuple(GUARDING)) == _registered(1)


def test_the_scheduler_is_spared_where_the_configuration_spares_it() -> None:
    hooks = configurations(WebhookEndpoint(), None, ("me",))[1].body["webhooks"]
    spared = {
        hook["name"] for hook in hooks if any(one["name"] == "not-the-scheduler" for one in hook["matchConditions"])
    }
    assert {hook.name for hook in GUARDING if hook.spares_scheduler} == spared
