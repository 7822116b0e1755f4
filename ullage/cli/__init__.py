"""The command line: one file per verb. Parses, calls, prints; knows how everything is wired together."""
