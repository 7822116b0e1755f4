"""History of the dashboard: a bounded log in a file or in memory, and a Prometheus for what is older."""
