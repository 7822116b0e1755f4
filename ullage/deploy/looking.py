"""Read the facts that `ullage check` judges. Writes nothing: the pod it tries is a dry run."""

from collections.abc import Collection, Iterator

from ullage.clock import Clock
from ullage.config.loading import read_settings
from ullage.config.yaml_document import SettingsError
from ullage.deploy.access import missing_rights
from ullage.deploy.applying import unready
from ullage.deploy.component import ComponentSpec, RuleScope
from ullage.deploy.components import COMPONENTS
from ullage.deploy.findings import ClusterFacts, GpuNodeFacts
from ullage.deploy.kinds import ADMISSION_POLICIES, CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from ullage.deploy.labels import COMPONENT_LABEL, NAME_LABEL, PART, VERSION_LABEL
from ullage.deploy.workloads import GPU_NODES, SETTINGS_NAME
from ullage.errors import ApiError, Forbidden, NotFound
from ullage.kube.client.api import KubeApi, ListSelector
from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.client.resources import (
    CONFIG_MAPS,
    DAEMON_SETS,
    DEPLOYMENTS,
    GPU_NODE_STATUSES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODE_POOLS,
    NODES,
    PODS,
)
from ullage.kube.crds.catalog import OURS
from ullage.kube.read.gpu import read_inventory
from ullage.kube.read.karpenter import read_node_pool
from ullage.model.allocation import CLAIM
from ullage.model.karpenter import Tristate
from ullage.model.resources import GPU
from ullage.watch.sources import is_served

_REVIEWS = Resource[JsonObject](
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False, dict
)
_TO_INSTALL = (
    ("create", "apiextensions.k8s.io", "customresourcedefinitions"),
    ("create", "rbac.authorization.k8s.io", "clusterroles"),
    ("create", "admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("create", "apps", "deployments"),
)
_NOT_CALLED = "failed calling webhook"
"""Words of an API server that could not call a webhook."""
TRIED_CLAIM = "ullage-check"


class ClusterLook:
    """Reads one cluster."""

    def __init__(self, api: KubeApi, namespace: str, clock: Clock) -> None:
        self._api = api
        self._namespace = namespace
        self._clock = clock

    async def facts(self) -> ClusterFacts:
        """Read everything once. Raises ApiError if the cluster cannot be read at all."""
        served = await self._api.discover()
        missing = [one.resource.kind for one in OURS if not await is_served(self._api, one.resource)]
        ours = await self._ours()
        registered = await self._exists(MUTATING_WEBHOOKS, "ullage-pods")
        return ClusterFacts(
            server_version=served.server_version,
            namespace=self._namespace,
            namespace_exists=await self._exists(NAMESPACES.whole(), self._namespace),
            missing_kinds=missing,
            forbidden=await self._forbidden(),
            components={_component(one): unready(one) for one in ours},
            versions={_component(one): _labels(one).get(VERSION_LABEL, "unknown") for one in ours},
            missing_rights=await self._missing_rights({_component(one) for one in ours}),
            webhook_registered=registered,
            webhook_trouble=await self._webhook_trouble() if registered else "",
            policy_exists=await self._exists(ADMISSION_POLICIES, "ullage-agent"),
            gpu_nodes=list(await self._gpu_nodes(known=GPU_NODE_STATUSES.kind not in missing)),
            workloads=sorted({one["metadata"]["name"] for one in await self._workloads()}),
            karpenter_enabled=await self._karpenter_enabled(),
            karpenter_served=await is_served(self._api, NODE_POOLS),
            unprotected_node_pools=await self._unprotected(),
        )

    async def _exists(self, resource: Resource[JsonObject], name: str) -> bool:
        try:
            await self._api.get(resource, name)
        except NotFound:
            return False
        return True

    async def _ours(self) -> list[JsonObject]:
        chosen = ListSelector(labels=f"{NAME_LABEL}={PART}")
        found: list[JsonObject] = []
        for resource in (DEPLOYMENTS.whole(), DAEMON_SETS.whole()):
            page = await self._api.list(resource, self._namespace, selection=chosen)
            found += [{"kind": resource.kind, **one} for one in page.items]
        return found

    async def _missing_rights(self, components: Collection[str]) -> dict[str, list[str]]:
        """Rights that the roles of these components lack; none known to a caller who may not read roles."""
        try:
            return {
                name: missing_rights(spec, await self._rules(spec))
                for name, spec in COMPONENTS.items()
                if name in components
            }
        except Forbidden:
            return {}

    async def _rules(self, spec: ComponentSpec) -> dict[RuleScope, list[JsonObject]]:
        """Rules that a component has by its own roles. A role that is bound to nobody gives none."""
        found: dict[RuleScope, list[JsonObject]] = {}
        for scope, roles, bindings, where in (
            (RuleScope.CLUSTER, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, ""),
            (RuleScope.NAMESPACE, ROLES, ROLE_BINDINGS, self._namespace),
        ):
            try:
                role = await self._api.get(roles, spec.name, where)
                await self._api.get(bindings, spec.name, where)
            except NotFound:
                continue
            found[scope] = role.get("rules") or []
        return found

    async def _workloads(self) -> list[JsonObject]:
        try:
            return list((await self._api.list(DEPLOYMENTS.whole())).items)
        except Forbidden:
            return []

    async def _karpenter_enabled(self) -> bool:
        """True if the settings that components are given switch Karpenter on. Settings nobody can read do not."""
        try:
            found = await self._api.get(CONFIG_MAPS.whole(), SETTINGS_NAME, self._namespace)
            text = (found.get("data") or {}).get("settings.yaml", "")
            return read_settings(text, SETTINGS_NAME).karpenter.enabled
        except (NotFound, Forbidden, SettingsError):
            return False

    async def _unprotected(self) -> list[str]:
        """NodePools with our condition; none in a cluster without Karpenter."""
        if not await is_served(self._api, NODE_POOLS):
            return []
        try:
            pools = [read_node_pool(one) for one in (await self._api.list(NODE_POOLS)).items]
        except Forbidden:
            return []
        return sorted(one.name for one in pools if one.unprotected.status is Tristate.TRUE)

    async def _gpu_nodes(self, *, known: bool) -> Iterator[GpuNodeFacts]:
        reports = (await self._api.list(GPU_NODE_STATUSES)).items if known else ()
        ahead = {one.metadata.name: read_inventory(one).dated - self._clock.now() for one in reports}
        labelled, advertised = set[str](), set[str]()
        for node in (await self._api.list(NODES)).items:
            if GPU_NODES.items() <= node.metadata.labels.items():
                labelled.add(node.metadata.name)
            if node.status.allocatable.get(GPU, "0") != "0":
                advertised.add(node.metadata.name)
        return (
            GpuNodeFacts(name=one, reported=one in ahead, ahead=ahead.get(one), labelled=one in labelled)
            for one in sorted(ahead.keys() | labelled | advertised)
        )

    async def _forbidden(self) -> list[str]:
        found = []
        for verb, group, resource in _TO_INSTALL:
            asked = {"resourceAttributes": {"verb": verb, "group": group, "resource": resource}}
            answer = await self._api.create(_REVIEWS, {"spec": asked})
            if not answer.get("status", {}).get("allowed", False):
                found.append(f"{verb} {resource}")
        return found

    async def _webhook_trouble(self) -> str:
        """Complaint of the API server that could not call the webhook, about a pod that is not created."""
        container = {"name": "check", "image": "example.com/none"}
        body = {
            "metadata": {"generateName": "ullage-check-", "annotations": {CLAIM: TRIED_CLAIM}},
            "spec": {"containers": [container]},
        }
        try:
            await self._api.create(PODS, body, "default", dry_run=True)
        except ApiError as error:
            return error.message.rstrip(".") if _NOT_CALLED in error.message else ""
        return ""


def _labels(body: JsonObject) -> dict[str, str]:
    return body["metadata"].get("labels") or {}


def _component(body: JsonObject) -> str:
    return _labels(body).get(COMPONENT_LABEL, str(body["metadata"]["name"]))
