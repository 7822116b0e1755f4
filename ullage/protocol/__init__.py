"""Protocols with programs of our own on other machines: messages and their rules, without I/O."""
