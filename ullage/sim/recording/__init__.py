"""Recordings of live clusters: from observed changes to the steps that a simulated world plays again."""
