"""Permissions of the scheduler for VMs: permits, migrations, the certificate that VM agents are shown."""

from ullage.deploy.component import Feature, RbacRule, RuleScope
from ullage.deploy.roles.words import READ, VMS

VM_SYSTEM = (
    RbacRule(
        group=VMS,
        resources=("virtualmachines",),
        verbs=("get", "patch"),
        feature=Feature.VMS,
        why="The size of a VM is read again before its approval shrinks; its last migration is noted.",
        seldom="the cluster has VMs",
    ),
    RbacRule(
        group=VMS,
        resources=("virtualmachinemigrations",),
        verbs=("get", "create", "delete"),
        feature=Feature.VMS,
        why="VMs leave nodes under pressure.",
        seldom="a node with VMs is under pressure",
    ),
    RbacRule(
        group="authentication.k8s.io",
        resources=("tokenreviews",),
        verbs=("create",),
        feature=Feature.VMS,
        why="VM agents and readers of /state show tokens.",
        seldom="the cluster has VMs",
    ),
    RbacRule(
        group="authorization.k8s.io",
        resources=("subjectaccessreviews",),
        verbs=("create",),
        feature=Feature.VMS,
        why="Who may get /state.",
        seldom="somebody gets /state",
    ),
    RbacRule(
        group="",
        resources=("secrets",),
        verbs=("create",),
        scope=RuleScope.NAMESPACE,
        feature=Feature.VMS,
        why="The certificate that VM agents are shown. A create cannot be limited by name.",
        seldom="the cluster has VMs",
    ),
    RbacRule(
        group="",
        resources=("secrets",),
        verbs=(*READ, "update"),
        names=("ullage-scheduler-tls",),
        scope=RuleScope.NAMESPACE,
        feature=Feature.VMS,
        why="The certificate is renewed, and shared by replicas.",
        seldom="the cluster has VMs",
    ),
    RbacRule(
        group="",
        resources=("configmaps",),
        verbs=("create", "patch"),
        scope=RuleScope.NAMESPACE,
        feature=Feature.VMS,
        why="The CA that VM agents trust (ConfigMap ullage-scheduler-ca).",
        seldom="the cluster has VMs",
    ),
)
