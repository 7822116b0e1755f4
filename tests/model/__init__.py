"""Tests of `ullage.model`."""
