"""Simulated VM controller and hypervisor: pods of VirtualMachines, hot-plug that lags, live migration that can fail."""
