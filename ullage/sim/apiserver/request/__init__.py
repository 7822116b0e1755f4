"""Requests: parsing, authorization, admission interface, selectors, content negotiation and errors."""
