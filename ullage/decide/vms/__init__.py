"""Decisions on VMs: permits, pressure, migration, configuration changes. See docs/vms.md."""
