#!/usr/bin/env bash
# The summaries of the last successful runs of this workflow on a branch: fetch.sh FOLDER
set -euo pipefail
folder=$1
workflow=${GITHUB_WORKFLOW_REF%%@*}
ids=$(gh run list --repo "$GITHUB_REPOSITORY" --workflow "${workflow##*/}" --branch "$BRANCH" \
    --status success --limit "$COUNT" --json databaseId --jq '.[].databaseId')
for id in $ids; do
    [ "$id" = "$GITHUB_RUN_ID" ] && continue
    gh run download "$id" --repo "$GITHUB_REPOSITORY" --name "$NAME" --dir "$folder/$id" ||
        echo "run $id has no artifact $NAME"
done
