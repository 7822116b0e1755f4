"""Loops: each is one screen of numbered steps that joins watch, state, decide and act; leadership; shutdown."""
