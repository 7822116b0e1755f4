"""`ullage vm-agent`: resizes the VMs of one node. Decisions are in `decide.vm_agent`; see docs/vms.md, The agent."""
