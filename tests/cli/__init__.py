"""Tests of `ullage.cli`."""
