"""Gangs: pods that are placed together or not at all. Placement, timeout and back-off of a gang."""
