#!/usr/bin/env bash
# Compare a run with all baselines that there are: compare.sh BASELINES CANDIDATE
set -euo pipefail
flags=(--format github --threshold "$THRESHOLD" --output-dir "compare/$NAME")
[ -n "$FAIL_ON" ] && flags+=(--fail-on "$FAIL_ON")
[ "$SAME_ENVIRONMENT" = true ] && flags+=(--require-same-environment)
for limit in $MAX; do flags+=(--max "$limit"); done

found=0
for summary in "$1"/*/final_summary.json; do
    [ -e "$summary" ] && flags+=(--base "$summary") && found=1
done
if [ "$found" = 0 ]; then
    echo "verdict=NO BASELINE" >> "$GITHUB_OUTPUT"
    echo "TraceML: no baseline yet, nothing to compare with." | tee -a "$GITHUB_STEP_SUMMARY"
    exit 0
fi

status=0
traceml compare "${flags[@]}" "$2" || status=$?
for file in "compare/$NAME"/*_vs_*.json; do
    [ -e "$file" ] && echo "verdict=$(jq -r .verdict "$file")" >> "$GITHUB_OUTPUT"
done
exit "$status"
