"""Tests of `ullage.webhook`."""
