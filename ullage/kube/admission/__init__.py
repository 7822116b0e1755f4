"""Admission on the wire: reviews, patches, and the webhook configurations."""
