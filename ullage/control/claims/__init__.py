"""Claim controller: status of claims and quotas, and claims made from templates for the pods that name one."""
