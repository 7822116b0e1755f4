"""Tests of kube-scheduler's scores."""
