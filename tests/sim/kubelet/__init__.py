"""Tests of `ullage.sim.kubelet`."""
