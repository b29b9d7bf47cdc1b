"""Grafana's dashboards as typed code, over the metric catalogue and the recording rules.

`grafana/dashboards` is made from here by `make generate`. It takes grafana-foundation-sdk, which
only those who change a dashboard need: no other room imports this one.
"""
