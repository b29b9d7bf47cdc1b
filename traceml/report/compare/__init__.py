"""Two runs or more, compared by their summaries alone: what changed, why, and how sure that is.

Reads `final_summary.json`, ours or the peer's, into `Side`s; no journal, no Snapshot, no diagnosis
of its own.
"""
