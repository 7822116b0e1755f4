"""Words of the declaration: component, rule, port, feature. Data only."""

from dataclasses import dataclass
from enum import StrEnum

PROBES_PORT = 9440
WEBHOOK_PORT = 9443
DASHBOARD_PORT = 8300
PERMITS_PORT = 10299
STATE_PORT = 10298


class Component(StrEnum):
    """Parts that are installed on their own. The value is also the verb of the program."""

    SCHEDULER = "scheduler"
    CONTROLLER = "controller"
    WEBHOOK = "webhook"
    AGENT = "agent"
    VM_AGENT = "vm-agent"
    DASHBOARD = "dashboard"


class Feature(StrEnum):
    """Optional abilities that need further permissions. Without the feature, the rules are not granted."""

    KARPENTER = "karpenter"
    CLUSTER_API = "cluster-api"
    KWOK = "kwok"
    VMS = "vms"


class RuleScope(StrEnum):
    """Reach of a rule: all namespaces, the namespace of the installation, or one of a feature's own."""

    CLUSTER = "cluster"
    NAMESPACE = "namespace"


@dataclass(frozen=True, slots=True, kw_only=True)
class RbacRule:
    """One rule of a role, with its reason."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str
    names: tuple[str, ...] = ()
    """Objects it is limited to, by name; all if empty."""
    scope: RuleScope = RuleScope.CLUSTER
    feature: Feature | None = None
    """Feature it is for; None if the component always needs it."""
    seldom: str = ""
    """Situation in which it is used, if no ordinary day has it. Tests of unused verbs need not see it used."""


@dataclass(frozen=True, slots=True)
class ComponentPort:
    """Port a component listens on."""

    name: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentSpec:
    """Needs of one component."""

    component: Component
    summary: str
    arguments: tuple[str, ...]
    """Arguments of the program. `$(NAMESPACE)` stands for the namespace of the installation."""
    ports: tuple[ComponentPort, ...]
    rules: tuple[RbacRule, ...]
    replicas: int = 2
    """Zero means one on every GPU node: a DaemonSet."""
    probe_port: str = "probes"
    ready_path: str = "/readyz"
    cpu: str = "100m"
    memory: str = "128Mi"
    memory_limit: str = "512Mi"
    priority_class: str = "system-cluster-critical"
    unrestricted: str = ""
    """Reason why it cannot run under the pod security standard `restricted`; empty if it does."""
    grace_seconds: int = 30
    takes_settings: bool = False
    """True if it reads the settings file."""
    by_default: bool = True
    needs: Feature | None = None
    """Feature without which it cannot work."""

    @property
    def value_name(self) -> str:
        """Name among the chart's values."""
        first, *others = self.component.split("-")
        return first + "".join(word.capitalize() for word in others)

    @property
    def name(self) -> str:
        """Name of its objects."""
        return f"ullage-{self.component}"

    @property
    def per_node(self) -> bool:
        return self.replicas == 0
