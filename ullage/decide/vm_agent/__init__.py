"""Decisions of the vm-agent for one VM: the goal, and the next actions. See docs/vms.md, The agent."""
