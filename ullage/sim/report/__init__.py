"""Reports of simulations: tables, JSON and a page with plots. Reads only the score sheet's plain JSON; runs nothing.

Everything here is a function of its input: no clock, no path, no randomness, so that equal runs give equal bytes.
"""
