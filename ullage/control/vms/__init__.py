"""VMs in `ullage scheduler`: answers to agents, and migrations. See docs/vms.md."""
