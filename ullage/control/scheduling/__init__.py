"""Scheduler loop: events wake pending pods, decisions are made one by one, writes run concurrently."""
