"""Benchmarks and full-size runs: figures with the peer beside them, written to `bench/results/`."""
