"""How often the diagnosis is right: faults planted into real processes, and what was said of them.

Runs are recorded first and judged afterwards from their journals, so one recording
can be judged again after a rule has changed. Scripts that run in the training
processes import torch, and nothing of TraceML.
"""
