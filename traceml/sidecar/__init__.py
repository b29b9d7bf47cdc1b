"""The process beside the training: ingest, alignment, statistics, and the Snapshot.

Runs without torch. One event loop owns all state; nothing here needs a lock.
"""
