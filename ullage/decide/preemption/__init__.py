"""Preemption: victims to evict so that a pod or a gang of higher priority fits."""
