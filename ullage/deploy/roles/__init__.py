"""Permissions of each component: only the verbs it uses, each with its reason.

`tests/deploy` runs the components with tokens of these roles. A missing verb fails there, and an unused one is reported
from the API server's audit log.
"""

from ullage.deploy.roles.agents import AGENT, VM_AGENT
from ullage.deploy.roles.controller import CONTROLLER
from ullage.deploy.roles.dashboard import DASHBOARD
from ullage.deploy.roles.scheduler import SCHEDULER
from ullage.deploy.roles.webhook import WEBHOOK

__all__ = ["AGENT", "CONTROLLER", "DASHBOARD", "SCHEDULER", "VM_AGENT", "WEBHOOK"]
