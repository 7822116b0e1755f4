"""Gangs: pods that are placed together or not at all. Which seats they get, and what becomes of one that gets none."""
