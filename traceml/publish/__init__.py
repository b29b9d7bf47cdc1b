"""The metric catalogue, and the ways in which it leaves the sidecar.

Reads the Snapshot and computes nothing of its own.
"""
