"""Training scripts that the benchmarks run, each in a process of its own.

They may import torch, and nothing from here but each other; one of them also
runs under the peer, where our package's dependencies are not installed.
"""
