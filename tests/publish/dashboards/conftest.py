from importlib.util import find_spec

# What the dashboards are made with takes Python 3.11.
collect_ignore_glob = [] if find_spec("grafana_foundation_sdk") else ["test_*.py"]
