"""What runs inside the training process: clocks, torch hooks, recorder, sender.

Imports no other room but `wire`. Nothing here may raise into, block, slow or
change the training; the hot path takes no lock and touches no socket or file.
"""
