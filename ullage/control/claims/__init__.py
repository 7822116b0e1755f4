"""Keeps true what claims and quotas say of themselves, and gives pods that name a template a claim of their own."""
