"""Observability: structured logs, metrics, Kubernetes Events, alert rules. Nothing here changes what is decided or
done."""
