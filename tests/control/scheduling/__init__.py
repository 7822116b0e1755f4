"""The scheduler as a whole: stories in virtual time, and runs on the real control plane."""
