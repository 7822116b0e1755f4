"""Permissions of the webhook: claims, its two configurations, its keys."""

from ullage.deploy.component import RbacRule, RuleScope
from ullage.deploy.roles.words import FOLLOW, GPU, READ, WEBHOOKS

WEBHOOK = (
    RbacRule(group=GPU, resources=("gpuclaims",), verbs=FOLLOW, why="The claims pods name."),
    RbacRule(
        group=GPU,
        resources=("gpuclaims",),
        verbs=("get",),
        why="A claim that the watch has not delivered yet.",
        seldom="a pod comes before its claim is seen",
    ),
    RbacRule(
        group="",
        resources=("pods",),
        verbs=("list",),
        why="Whether a pod holds GPUs by a claim that is about to change.",
        seldom="somebody edits a claim in use",
    ),
    # RBAC knows no fields, and no admission policy is asked about these kinds: whoever has this token can also change
    # the rules of these two.
    RbacRule(
        group=WEBHOOKS,
        resources=("mutatingwebhookconfigurations",),
        names=("ullage-pods",),
        verbs=(*READ, "patch"),
        why="API servers are told which authority to trust (caBundle).",
    ),
    RbacRule(
        group=WEBHOOKS,
        resources=("validatingwebhookconfigurations",),
        names=("ullage-guard",),
        verbs=(*READ, "patch"),
        why="API servers are told which authority to trust (caBundle).",
    ),
    RbacRule(
        group="",
        resources=("secrets",),
        verbs=("create",),
        scope=RuleScope.NAMESPACE,
        why="The keys its replicas share.",
    ),
    RbacRule(
        group="",
        resources=("secrets",),
        names=("ullage-webhook-tls",),
        verbs=READ,
        scope=RuleScope.NAMESPACE,
        why="The keys its replicas share.",
    ),
    RbacRule(
        group="",
        resources=("secrets",),
        names=("ullage-webhook-tls",),
        verbs=("update",),
        scope=RuleScope.NAMESPACE,
        why="Keys are renewed.",
        seldom="a certificate is near its end",
    ),
)
