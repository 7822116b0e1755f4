"""Stories that are played on a real control plane with KWOK and in the simulator, and the two players."""
