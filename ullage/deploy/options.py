"""Options of an installation, as `ullage install` and the values of the chart give them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ullage.deploy.component import Component, Feature
from ullage.deploy.components import COMPONENTS
from ullage.model.lease import LEASE_NAMESPACE

DEFAULT_NAMESPACE = LEASE_NAMESPACE


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallOptions:
    """Choice of one installation. The defaults are those of the chart."""

    namespace: str = DEFAULT_NAMESPACE
    image: str = "ullage:0.1.0"
    components: Sequence[Component] = field(
        default_factory=lambda: [name for name, spec in COMPONENTS.items() if spec.by_default]
    )
    features: Sequence[Feature] = ()
    definitions: bool = True
    """Install the CustomResourceDefinitions of our kinds."""
    pod_group: bool = False
    """Install the definition of PodGroup, for clusters that have none."""
    settings: str = ""
    """Text of a settings file for scheduler, controller, VM agent and dashboard; empty for the defaults."""
    network_policies: bool = False
    monitoring: bool = False
    """ServiceMonitors, alert rules and the Grafana dashboard. Needs the Prometheus operator's kinds."""
    history_claim: str = ""
    """PersistentVolumeClaim for the dashboard's history; empty to keep it in memory."""
    simulate: str = ""
    """Board whose GPUs agents simulate, such as 8xH100-SXM; empty to read the real ones."""
