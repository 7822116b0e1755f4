"""Reports of simulations: tables, JSON and a page with plots. Knows only the score sheet's plain JSON; never runs one.

Everything here is a function of its input alone: no clock, no path, no chance, so that equal runs give equal bytes.
"""
