"""Pure functions from statistics to findings.

No input or output, no clock, no torch; imports nothing but the statistics it reads.
"""
