"""Findings of `ullage check`: what is missing or in the way of a cluster, each with the next step. Pure.

The codes are a closed list; docs/troubleshooting.md has an entry for each.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ullage import __version__
from ullage.model.lease import LEASE_NAMESPACE

OLDEST_MINOR, NEWEST_MINOR = 34, 37
"""Minors of Kubernetes 1 that the tests run on."""
MOST_SKEW = 30.0
"""Seconds by which the clock of a node may differ before it is told."""
MOST_SILENCE = 90.0
"""Seconds after which a report of GPUs is stale: the scheduler places nothing there."""
MOST_NAMES = 5
RIVAL_SCHEDULERS = ("volcano-scheduler", "kai-scheduler", "yunikorn-scheduler", "koord-scheduler", "hami-scheduler")
AUTOSCALERS = ("cluster-autoscaler", "karpenter")


class FindingCode(StrEnum):
    """Kinds of findings."""

    SERVER_TOO_OLD = "ServerTooOld"
    SERVER_UNTRIED = "ServerUntried"
    MAY_NOT_INSTALL = "MayNotInstall"
    DEFINITIONS_MISSING = "DefinitionsMissing"
    NAMESPACE_MISSING = "NamespaceMissing"
    COMPONENT_MISSING = "ComponentMissing"
    COMPONENT_NOT_READY = "ComponentNotReady"
    RIGHTS_MISSING = "RightsMissing"
    OTHER_VERSION = "OtherVersion"
    WEBHOOK_UNREGISTERED = "WebhookUnregistered"
    WEBHOOK_UNREACHABLE = "WebhookUnreachable"
    POLICY_MISSING = "PolicyMissing"
    NO_GPUS = "NoGpus"
    NODES_WITHOUT_AGENT = "NodesWithoutAgent"
    REPORTS_STALE = "ReportsStale"
    CLOCK_SKEW = "ClockSkew"
    OTHER_SCHEDULER = "OtherScheduler"
    OTHER_AUTOSCALER = "OtherAutoscaler"
    HANDOVER_UNPROTECTED = "HandoverUnprotected"
    KARPENTER_NOT_INSTALLED = "KarpenterNotInstalled"


class FindingWeight(StrEnum):
    """Weight of a finding: a problem stops Ullage or pods, a warning may surprise."""

    PROBLEM = "problem"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding, in a sentence, with the next step."""

    code: FindingCode
    weight: FindingWeight
    says: str
    next_step: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuNodeFacts:
    """GPU node as seen from outside."""

    name: str
    reported: bool = False
    """True if there is a GpuNodeStatus of it."""
    labelled: bool = True
    """True if it has the label of GPU Feature Discovery, which the agent's nodeSelector asks for."""
    ahead: float | None = None
    """Seconds from now to the time of its last report; below 0: in the past. None without a report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """Facts that findings are made of."""

    server_version: str = "v1.37.1"
    namespace: str = LEASE_NAMESPACE
    namespace_exists: bool = True
    missing_kinds: Sequence[str] = ()
    forbidden: Sequence[str] = ()
    """Permissions the caller lacks to install."""
    components: Mapping[str, str] = field(default_factory=dict)
    """Installed components by name, with what is not ready; empty if nothing."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Version of each installed component."""
    missing_rights: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Rights that installed components declare and their roles lack, such as `create pods/binding`."""
    webhook_registered: bool = True
    webhook_trouble: str = ""
    """Answer of the API server when it could not call the webhook; empty if it could."""
    policy_exists: bool = True
    gpu_nodes: Sequence[GpuNodeFacts] = ()
    workloads: Sequence[str] = ()
    """Names of Deployments of all namespaces."""
    karpenter_enabled: bool = False
    """True if the installed settings switch Karpenter on."""
    karpenter_served: bool = False
    """True if the cluster serves Karpenter's kinds."""
    unprotected_node_pools: Sequence[str] = ()
    """NodePools with the condition HandoverUnprotected."""


def findings(facts: ClusterFacts) -> list[Finding]:
    """Every finding, problems first."""
    found = [*_server(facts), *_installed(facts), *_admission(facts), *_gpus(facts), *_rivals(facts)]
    return sorted(found, key=lambda one: one.weight is not FindingWeight.PROBLEM)


def _problem(code: FindingCode, says: str, next_step: str) -> Finding:
    return Finding(code, FindingWeight.PROBLEM, says, next_step)


def _warning(code: FindingCode, says: str, next_step: str) -> Finding:
    return Finding(code, FindingWeight.WARNING, says, next_step)


def _server(facts: ClusterFacts) -> Iterator[Finding]:
    minor = _minor(facts.server_version)
    if minor is not None and minor < OLDEST_MINOR:
        yield _problem(
            FindingCode.SERVER_TOO_OLD,
            f"Kubernetes {facts.server_version} is older than 1.{OLDEST_MINOR}, the oldest that Ullage is made for.",
            "Upgrade the cluster.",
        )
    elif minor is None or minor > NEWEST_MINOR:
        yield _warning(
            FindingCode.SERVER_UNTRIED,
            f"Kubernetes {facts.server_version} is newer than 1.{NEWEST_MINOR}, the newest that Ullage is tested on.",
            "Look for a newer Ullage; try this one in a test cluster first.",
        )
    if facts.forbidden:
        yield _warning(
            FindingCode.MAY_NOT_INSTALL,
            f"You may not {_few(facts.forbidden)}.",
            "Install with the rights of a cluster admin. Users of Ullage do not need them.",
        )


def _minor(version: str) -> int | None:
    parts = version.removeprefix("v").split(".")
    return int(parts[1]) if len(parts) > 1 and parts[0] == "1" and parts[1].isdecimal() else None


def _installed(facts: ClusterFacts) -> Iterator[Finding]:
    if facts.missing_kinds:
        yield _problem(
            FindingCode.DEFINITIONS_MISSING,
            f"The cluster does not serve {_few(facts.missing_kinds)}.",
            "Run `ullage install --apply`.",
        )
    if not facts.namespace_exists:
        yield _problem(
            FindingCode.NAMESPACE_MISSING,
            f"There is no namespace {facts.namespace}, where Leases of GPUs are kept.",
            "Run `ullage install --apply`, or name another one with --namespace.",
        )
    for name in ("scheduler", "webhook"):
        if name not in facts.components:
            yield _problem(
                FindingCode.COMPONENT_MISSING,
                f"There is no {name} in namespace {facts.namespace}.",
                f"Run `ullage install --apply --only {name}`.",
            )
    for name, missing in sorted(facts.components.items()):
        if missing:
            yield _problem(
                FindingCode.COMPONENT_NOT_READY,
                f"The {name} is not ready: {missing}.",
                f"Look at `kubectl -n {facts.namespace} describe pods -l app.kubernetes.io/component={name}`.",
            )
    for name, rights in sorted(facts.missing_rights.items()):
        if rights:
            yield _problem(
                FindingCode.RIGHTS_MISSING,
                f"The {name} may not {_few(rights)}: somebody changed its roles or their bindings.",
                "Run `ullage install --apply` as it was installed, or `helm upgrade`. The component goes on by itself.",
            )
    others = sorted(f"{name} {version}" for name, version in facts.versions.items() if version != __version__)
    if others:
        yield _warning(
            FindingCode.OTHER_VERSION,
            f"The cluster runs {_few(others)}; this is ullage {__version__}.",
            "Run `ullage install --apply` of the version you want; components may differ by one minor meanwhile.",
        )


def _admission(facts: ClusterFacts) -> Iterator[Finding]:
    if "webhook" in facts.components and not facts.webhook_registered:
        yield _problem(
            FindingCode.WEBHOOK_UNREGISTERED,
            "API servers do not know the webhook: pods see all GPUs of their node.",
            "Run `ullage webhook --install`.",
        )
    if facts.webhook_registered and facts.webhook_trouble:
        yield _problem(
            FindingCode.WEBHOOK_UNREACHABLE,
            f"API servers cannot call the webhook: {facts.webhook_trouble}.",
            "Check its pods, its Service and NetworkPolicies. `ullage webhook --remove` lets pods in without it.",
        )
    if "agent" in facts.components and not facts.policy_exists:
        yield _problem(
            FindingCode.POLICY_MISSING,
            "The admission policy ullage-agent is missing: an agent's token could write to every node.",
            "Run `ullage install --apply`.",
        )


def _gpus(facts: ClusterFacts) -> Iterator[Finding]:
    if not facts.gpu_nodes:
        yield _warning(
            FindingCode.NO_GPUS,
            "No node has GPUs: none is labelled by GPU Feature Discovery, advertised by a device plugin or reported.",
            "Install the NVIDIA GPU operator, or try simulated ones: `ullage install --apply --simulate 8xH100-SXM`.",
        )
    silent = [node for node in facts.gpu_nodes if not node.reported]
    if silent:
        unlabelled = [node.name for node in silent if not node.labelled]
        yield _warning(
            FindingCode.NODES_WITHOUT_AGENT,
            f"No agent reports {_few([node.name for node in silent])}: only counted GPUs are placed there.",
            f"Install GPU Feature Discovery, or `kubectl label node {unlabelled[0]} nvidia.com/gpu.present=true`: "
            f"a device plugin advertises the GPUs of {_few(unlabelled)}, and the label that agents go by is missing."
            if unlabelled
            else "Check that the agent's nodeSelector and runtimeClassName fit these nodes.",
        )
    reports = [(node.name, node.ahead) for node in facts.gpu_nodes if node.ahead is not None]
    stale = [name for name, ahead in reports if ahead < -MOST_SILENCE]
    if stale:
        yield _problem(
            FindingCode.REPORTS_STALE,
            f"The last report of {_few(stale)} is older than {MOST_SILENCE:.0f} s: nothing is placed there.",
            "Look at the agent's log on these nodes, and at their clocks.",
        )
    early = [name for name, ahead in reports if ahead > MOST_SKEW]
    if early:
        yield _warning(
            FindingCode.CLOCK_SKEW,
            f"The clock of {_few(early)} is more than {MOST_SKEW:.0f} s ahead of this machine's.",
            "Check NTP on these nodes and here.",
        )


def _rivals(facts: ClusterFacts) -> Iterator[Finding]:
    for rival in RIVAL_SCHEDULERS:
        if any(rival in name for name in facts.workloads):
            yield _warning(
                FindingCode.OTHER_SCHEDULER,
                f"{rival} runs here. Two schedulers that count the same GPUs give them out twice.",
                "Give each its own nodes by taints, or follow docs/migration.md.",
            )
    for scaler in AUTOSCALERS:
        known = scaler == "karpenter" and facts.karpenter_enabled
        if not known and any(name == scaler or name.endswith(f"-{scaler}") for name in facts.workloads):
            yield _warning(
                FindingCode.OTHER_AUTOSCALER,
                f"{scaler} runs here. It may remove nodes that Ullage has just bought, or buy for the same pods.",
                "Keep it off pools with a NodeProvisioner; with Karpenter, see docs/karpenter.md.",
            )
    yield from _karpenter(facts)


def _karpenter(facts: ClusterFacts) -> Iterator[Finding]:
    if facts.karpenter_enabled and not facts.karpenter_served:
        yield _warning(
            FindingCode.KARPENTER_NOT_INSTALLED,
            "karpenter.enabled is true, and the cluster serves no nodepools.karpenter.sh: nothing is bought.",
            "Install Karpenter, which is picked up within 30 s; or switch the setting off.",
        )
    if facts.unprotected_node_pools:
        yield _warning(
            FindingCode.HANDOVER_UNPROTECTED,
            f"New nodes of NodePool {_few(facts.unprotected_node_pools)} are open to every scheduler at first: "
            "their GPUs may be taken by pods they were not bought for.",
            "Add the startup taint gpu.scheduling/handover=unclaimed:NoSchedule to the NodePool.",
        )


def _few(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
