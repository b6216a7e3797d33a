#!/usr/bin/env bash
# The codes of doubts in docs/topology.md are those of the source.
#
# SPDX-License-Identifier: BSD-3-Clause
set -u
cd "$KITH_SOURCE_DIR" || exit 1
# In the source: the first quoted word-with-dashes after ki_topology_doubt( or tell(tr, which report them.
in_source="$(cat topology/*.c | tr '\n' ' ' | grep -oE '(ki_topology_doubt\(|tell\(tr,)[^";]*"[a-z0-9-]+"' | grep -oE '"[a-z0-9-]+"$' | tr -d '"' | sort -u)"
in_page="$(sed -n '/^## Doubts/,/^## Links/p' docs/topology.md | grep -oE '^\|[^|]+\|' | grep -oE '`[a-z0-9-]+`' | tr -d '`' | sort -u)"
[ "$(wc -l <<<"$in_source")" -gt 40 ] || { echo "FAILED: found only $(wc -l <<<"$in_source") codes in the source"; exit 1; }
difference="$(diff <(printf '%s\n' "$in_source") <(printf '%s\n' "$in_page"))" ||
    { echo "FAILED: codes of the source (<) and of docs/topology.md (>) differ:"$'\n'"$difference"; exit 1; }
echo "$(wc -l <<<"$in_source") codes"
