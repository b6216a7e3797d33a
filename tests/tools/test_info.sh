#!/usr/bin/env bash
# kith info: the JSON that scripts rely on, and the text.
#
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/lib.sh"

succeeds "$kith" info --json
cp "$work/out" "$work/json"
if command -v python3 >/dev/null; then
    cat >"$work/look.py" <<'PY'
import json, sys
report = json.load(open(sys.argv[1]))
for key in "version", "backends", "devices", "blas", "config", "algorithms":
    assert key in report, key
for part in "backends", "devices":
    assert report[part], part
    for entry in report[part]:
        assert isinstance(entry["name"], str) and isinstance(entry["available"], bool), entry
        assert entry["available"] or entry["reason"], entry
names = [entry["name"] for entry in report["backends"]]
assert "shm" in names, names
assert "host" in [entry["name"] for entry in report["devices"]]
for entry in report["config"]:
    assert entry["env"] == "KITH_" + entry["name"].upper(), entry
    assert entry["help"] and entry["origin"] and entry["owner"], entry
assert len(report["algorithms"]["list"]) >= 14
for entry in report["algorithms"]["list"]:
    assert isinstance(entry["deterministic"], bool), entry
PY
    check "the JSON report" python3 "$work/look.py" "$work/json"
fi
[ "$HAS_JANSSON" = 1 ] || { fails 1 "use --json" "$kith" info; finish; }

is_narrow() { ! grep -qE '^.{101}' "$work/out"; }
succeeds "$kith" info
check "the version" out_has "kith $(sed -n 's/^{"version": *"\([^"]*\)".*/\1/p' "$work/json" | head -n 1)"
check "shm is usable" grep -qE '^  shm .*yes' "$work/out"
check "host is there" grep -qE '^  host +yes' "$work/out"
check "at most 100 columns" is_narrow
succeeds "$kith" info --config
check "settings of the core" grep -qE '^Settings of core$' "$work/out"
check "a setting with its origin" grep -qE '^  KITH_BACKEND +auto +default' "$work/out"
KITH_BACKEND=shm run "$kith" info --config
check "set by the environment" grep -qE '^  KITH_BACKEND +shm +environment' "$work/out"
succeeds "$kith" info --algorithms
check "algorithms of all_reduce" grep -qE '^  all_reduce +[a-z_]+ +(yes|no)' "$work/out"
fails 2 "there is nothing to do with 'extra'" "$kith" info extra
fails 2 "unknown option --jsn; did you mean --json?" "$kith" info --jsn
finish
