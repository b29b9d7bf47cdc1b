"""Rules for Prometheus: values that join the nodes of a job, and alerts. Declared once, here.

`traceml rules` prints them; what lies in `deploy/prometheus` is made from them.
"""
