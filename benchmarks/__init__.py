"""What TraceML costs, side by side with the bare loop and its peer: `python -m benchmarks`.

Every figure comes from real parts: a real training script, a real sidecar, a real
socket. Nothing of the package is changed or faked, and nothing of it imports this.
"""
