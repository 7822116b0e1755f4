"""Preemption."""
