#!/usr/bin/env bash
# kith flight on records written by hand (fixtures/).
#
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/lib.sh"
cd "$here/fixtures" || exit 1

if [ "$HAS_JANSSON" = 0 ]; then
    fails 2 "built without jansson" "$kith" flight good
    finish
fi

# finds FOLDER SENTENCE...: the whole report, without the groups' heads
finds() {
    local folder=$1
    shift
    run "$kith" flight "$folder"
    check "$folder: something is found" status_is 1
    check "$folder: what" same "$(grep '^  ' "$work/out" | sed 's/^  //')" "$(printf '%s\n' "$@")"
    check "$folder: nothing else is said" err_is_empty
}

for folder in good varying appended; do
    succeeds "$kith" flight $folder
    check "$folder: nothing wrong" grep -q '^  nothing wrong$' "$work/out"
    check "$folder: nothing else is said" err_is_empty
done
succeeds "$kith" flight good/rank0.jsonl good/rank1.jsonl good/rank2.jsonl good/rank3.jsonl
check "the head of a group" out_has "group tp: world ranks 0-3; records of 4 of 4, seq 35 to 41"

finds behind \
    "rank 2 never called seq 41 (reduce_scatter, group tp): last called seq 40 (all_gather, done); ranks 0, 1, 3 are waiting in it; it is in seq 7 (all_reduce, group dp)" \
    "rank 3 never called seq 7 (all_reduce, group dp): last called seq 6 (all_reduce, done); rank 2 is waiting in it; it is in seq 41 (reduce_scatter, group tp)"
finds far "rank 1 never called seq 4 (group g): last called seq 3 (all_reduce, done)"
finds silent \
    "rank 1 never called seq 0 (barrier, group g): it called nothing; rank 0 is waiting in it"
finds mismatch \
    "seq 1 differs (group world): ranks 0, 2, 3 called all_reduce of 1024 f32, sum; rank 1 called all_reduce of 2048 f32, sum (and so do 1 later ones)" \
    "seq 1 (all_reduce, group world) failed on ranks 0-3: mismatch" \
    "seq 2 (all_reduce, group world) has not ended on ranks 0-3; every rank with a record called it"
a="seq 5 differs (group g): rank 0 called reduce of 1024 f32, sum, root 0; rank 1 called"
finds differ_op "$a broadcast of 1024 f32, root 0"
finds differ_count "$a reduce of 8 f32, sum, root 0"
finds differ_dtype "$a reduce of 1024 bf16, sum, root 0"
finds differ_redop "$a reduce of 1024 f32, max, root 0"
finds differ_root "$a reduce of 1024 f32, sum, root 3"
finds timeout \
    "no record of rank 2 (group pp): dead, or it wrote none" \
    "seq 3 (barrier, group pp) failed on ranks 0, 1, 3: timeout" \
    "group pp cannot be used any more on ranks 0, 1, 3: timeout: barrier (sequence 3) of group pp: rank 2 is missing"
finds stalled \
    "seq 3 (all_reduce, group g) has not ended on rank 9; on others it is done" \
    "recv with group rank 1 of rank 5 (group g) has not ended" \
    "recv with group rank 0 of rank 9 (group g) has not ended"
finds huge "seq 9223372036854775806 differs (group g): rank 0 called all_reduce of 1 f32, sum; rank 1 called all_reduce of 2 f32, sum" \
    "rank 0 never called seq 9223372036854775807 (all_reduce, group g): last called seq 9223372036854775806 (all_reduce, done)"
finds members "rank 1 lists other members of group g (members/1.json) than the others"

# Files that cannot be used: all are named, the rest is still reported.
run "$kith" flight bad
check "bad files" status_is 2
for sentence in \
    'bad/foreign.json, line 1: "rank" of the header is not among its "members"' \
    'bad/garbage.json, line 1: ' \
    'bad/members.json, line 1: "members" of the header is not a list of ranks' \
    'bad/noheader.json, line 1: this is not a flight record: the first line has no "kith_flight"' \
    'bad/order.json, line 3: "seq" is not above that of the operation before' \
    'bad/state.json, line 2: "state" is not done, active or failed' \
    'bad/truncated.json, line 3: ' \
    'bad/version.json, line 1: the record has a version that this command does not know (it knows 1)' \
    'rank 1 of group g is in bad/order.json already'; do
    check "said: $sentence" err_has "kith flight: " && check "said: $sentence" err_has "$sentence"
done
check "where the file ends" grep -qE 'truncated.json, line 3: .* \(the file ends in this line\)$' "$work/err"
check "what came before is used" out_has "group g: world ranks 0, 1; records of 2 of 2"
check "a log in a folder is passed over" sh -c "! grep -q notes.log '$work/err'"
fails 2 "notes.log, line 1: " "$kith" flight bad/notes.log
fails 2 "bad/empty.json: the file is empty" "$kith" flight bad/empty.json
fails 2 "nowhere: cannot be opened: No such file" "$kith" flight nowhere
fails 2 "is in twice/a.json already" "$kith" flight twice
head -c 100000 /dev/urandom >"$work/random"
fails 2 "random, line 1: " "$kith" flight "$work/random"
mkdir "$work/none"
fails 2 "there is no flight record in" "$kith" flight "$work/none"
fails 2 "no file or folder with flight records was given" "$kith" flight
fails 2 "did you mean --json" "$kith" flight --jsom x

# JSON.
run "$kith" flight --json behind bad/truncated.json
check "JSON with a bad file" status_is 2
if command -v python3 >/dev/null; then
    cat >"$work/look.py" <<'PY'
import json, sys
report = json.load(open(sys.argv[1]))
groups = {(group["name"], group["id"]): group for group in report["groups"]}
tp = groups["tp", "2f"]
assert tp["members"] == [0, 1, 2, 3] and tp["first_seq"] == 39 and tp["last_seq"] == 41, tp
assert [entry["file"] for entry in tp["records"]] == ["behind/rank%d.jsonl" % rank for rank in range(4)]
finding, = tp["findings"]
assert (finding["kind"], finding["seq"], finding["ranks"]) == ("behind", 41, [2]), finding
assert report["bad_files"][0]["file"] == "bad/truncated.json" and report["bad_files"][0]["line"] == 3
PY
    check "the JSON report" python3 "$work/look.py" "$work/out"
fi
finish
