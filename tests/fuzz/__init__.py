"""Whatever lies in a run's folder: readers are given what nobody would write, and watched.

`make fuzz` is guided by coverage and needs atheris; the same targets and mutations are part of
the tests, by chance alone.
"""
