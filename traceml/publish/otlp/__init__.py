"""The catalogue and the steps that stood out, sent through OTLP.

Only `exporting` imports the OpenTelemetry SDK, and only once an endpoint is set:
without one the sidecar stays as small as it is.
"""
