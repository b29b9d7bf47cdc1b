"""What stays of a run: the summary, and the one renderer of the phase table.

Reads the Snapshot and computes no statistic of its own.
"""
