#!/usr/bin/env bash
# What a run tells: the lines, the closing table, the JSON log, trace and timeline, --describe, and sentences about what
# does not fit.
#
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/lib.sh"
model=(--model tiny-llama --global-batch 8)

# ---- lines and table ----
train "$work/log" 4 "${model[@]}" --tp 2 --pp 2 --steps 5 --trace "$work/trace" --timeline "$work/svg"
check "a run with all reports" status_is 0
check "the first line" grep -Eq '^step 1/5  loss 5\.[0-9]{4}  [0-9]+ tokens/s  [0-9]+:[0-9]{2} left$' "$work/out"
check "the last line has the validation loss" grep -Eq '^step 5/5  loss [0-9.]+  validation [0-9.]+  ' "$work/out"
for row in "idle by the plan of pp" "waiting in tp, ep" "sent in a step" "activations, most at once"; do
    check "the table has '$row'" out_has "$row"
done
check "memory is as predicted" \
    awk '/^  (weights|gradients|optimizer) / && $2 $3 != $4 $5 { bad = 1 } END { exit bad }' "$work/out"
check "tp sends what the plan says" awk '/^  tp / && $2 $3 != $5 $6 { bad = 1 } END { exit bad }' "$work/out"
check "nothing on stderr" err_is_empty
check "the timeline is an SVG with both plans" grep -q "as it was measured" "$work/svg"
check "and the plan beside it" grep -q "1f1b as planned" "$work/svg"

# ---- JSON ----
if command -v python3 >/dev/null; then
    cat >"$work/look.py" <<'END'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
start, steps, end = lines[0], lines[1:-1], lines[-1]
assert start["event"] == "start" and end["event"] == "end", lines
assert start["layout"]["tp"] == 2 and start["layout"]["pp"] == 2 and start["layout"]["ranks"] == 4
assert start["groups"]["tp"] == [[0, 1], [2, 3]] and start["groups"]["pp"] == [[0, 2], [1, 3]]
assert start["plan"]["world"] == 4 if "world" in start["plan"] else start["plan"], start["plan"]
assert start["memory"]["parameters"] > 0
assert [s["step"] for s in steps] == [1, 2, 3, 4, 5]
for s in steps:
    assert {"loss", "grad_norm", "lr", "tokens", "tokens_per_s", "time_ms", "comm"} <= set(s), s
    assert {"forward", "backward", "tp", "pp", "dp", "bubble", "optimizer"} <= set(s["time_ms"]), s
    assert {"tp", "pp", "dp"} <= set(s["comm"]), s
    whole, parts = s["time_ms"]["step"], sum(v for k, v in s["time_ms"].items() if k != "step")
    assert s["tokens"] == 128 and abs(parts - whole) < 0.03 * whole, s["time_ms"]
assert "val_loss" in steps[-1] and end["loss"] == steps[-1]["loss"]
trace = json.load(open(sys.argv[2]))["traceEvents"]
assert {e["pid"] for e in trace} == {0, 1, 2, 3}
spans = [e for e in trace if e["ph"] == "X"]
names = {e["name"] for e in spans}
assert {"0F0", "0B0", "1F0", "1B0", "update"} <= names, names
assert all(e["dur"] >= 0 and e["ts"] >= 0 for e in spans)
assert sum(e["ph"] == "b" for e in trace) == sum(e["ph"] == "e" for e in trace) > 0
assert any(e["name"] == "all_reduce" for e in trace)
for rank in range(4): # what one rank computes does not overlap
    mine = sorted((e["ts"], e["ts"] + e["dur"]) for e in spans if e["pid"] == rank and e["tid"] == 0)
    assert all(a[1] <= b[0] + 0.01 for a, b in zip(mine, mine[1:])), mine
END
    check "JSON log and trace" python3 "$work/look.py" "$work/log" "$work/trace"

    # every bucket has its own events, beside backward where it travels early
    train "$work/log" 2 "${model[@]}" --dp 2 --zero1 --bucket-mb 0.05 --steps 4 --trace "$work/trace"
    check "a run with data-parallel ranks" status_is 0
    cat >"$work/buckets.py" <<'END'
import collections, json, sys
open_at, spans = {}, collections.defaultdict(list)
for e in json.load(open(sys.argv[1]))["traceEvents"]:
    key = (e["pid"], e["name"], e.get("id"))
    if e["ph"] == "b" and e["name"].startswith("bucket "):
        assert e["cat"] == "buckets over data-parallel ranks" and e["args"]["bytes"] > 0, e
        open_at[key] = e["ts"]
    elif e["ph"] == "e" and key in open_at:
        assert e["ts"] >= open_at[key], e
        spans[e["pid"], e["args"]["step"], e["name"]].append((open_at.pop(key), e["ts"]))
assert not open_at
buckets = {name.split(":")[0] for _, _, name in spans}
assert len(buckets) > 2, buckets
for rank in (0, 1):
    for step in (2, 3, 4):
        for bucket in buckets:
            (gradients,), (weights,) = (spans[rank, step, f"{bucket}: {what}"] for what in ("gradients", "weights"))
            assert gradients[1] <= weights[0], (rank, step, bucket)
END
    check "buckets in the trace" python3 "$work/buckets.py" "$work/trace"

    # on a terminal one line is rewritten, but not on the one that a launcher stands behind
    cat >"$work/terminal.py" <<'END'
import os, pty, subprocess, sys
leader, follower = pty.openpty()
done = subprocess.Popen(sys.argv[2:], stdout=follower, env={**os.environ, **({"PMIX_RANK": "0"} if sys.argv[1] == "relayed" else {})})
os.close(follower)
seen = b""
try:
    while (piece := os.read(leader, 1 << 16)):
        seen += piece
except OSError: # how a terminal says that nobody writes to it any more
    pass
assert done.wait() == 0 and (b"\r\033[K" in seen) == (sys.argv[1] == "own"), seen
END
    for whose in own relayed; do
        check "progress on a terminal that is $whose" python3 "$work/terminal.py" $whose "$kith" train "${tiny[@]}" \
            --model tiny-llama --global-batch 4 --steps 3
    done
fi

# ---- who is waited for: the tied weight is the pipeline's, and bubble is what the table calls idle by the plan ----
train "$work/tied" 2 --model tiny-gpt2 --global-batch 8 --pp 2 --steps 5
check "a run with a tied weight" status_is 0
check "pp sends what the plan says, with the tied weight" \
    awk '/^  pp / { found = 1; bad = $2 $3 != $5 $6 } END { exit bad || !found }' "$work/out"
train "$work/naive" 4 --model tiny-llama --global-batch 8 --pp 4 --schedule naive --steps 5
check "a run that is mostly idle" status_is 0
if command -v python3 >/dev/null; then
    cat >"$work/times.py" <<'END'
import json, re, sys
def times(path):
    return [s["time_ms"] for s in map(json.loads, open(path)) if "event" not in s]
tied, naive = times(sys.argv[1]), times(sys.argv[2])
for run in tied, naive:
    for t in run:
        parts = sum(v for k, v in t.items() if k != "step")
        assert abs(parts - t["step"]) < 0.03 * t["step"] and t["tp"] == 0, t
    # the calls that would wait are timed: nothing, but when the machine had other things to do
    assert sorted(t["dp"] / t["step"] for t in run)[len(run) // 2] < 0.02, run
rows = dict(re.findall(r"^  (idle .*?)  +(\d\S* \S+)", open(sys.argv[3]).read(), re.M))
units = {"ns": 1e-6, "us": 1e-3, "ms": 1, "s": 1e3}
for key, row in ("bubble", "idle by the plan of pp"), ("pp", "idle in pp beyond that"):
    mean = sum(t[key] for t in naive[1:]) / (len(naive) - 1)
    number, unit = rows[row].split()
    told = float(number) * units[unit]
    assert abs(mean - told) < 0.01 * mean + 1e-3, (key, mean, rows)
    assert mean > 0 or key == "pp", (key, mean)
END
    check "JSON says who was waited for" python3 "$work/times.py" "$work/tied" "$work/naive" "$work/out"
fi

# ---- bytes and memory as they were predicted ----
train "$work/log" 4 --model tiny-gpt2 --global-batch 8 --tp 2 --pp 2 --dtype f64 --steps 2
check "f64 sends what the plan says" awk '/^  (tp|pp) / && $2 $3 != $5 $6 { bad = 1 } END { exit bad }' "$work/out"
train "$work/log" 4 --model tiny-moe --global-batch 8 --tp 2 --ep 2 --zero1 --steps 2
check "the sharded state of experts is as predicted" \
    awk '/^  optimizer / { found = 1; bad = $2 $3 != $4 $5 } END { exit bad || !found }' "$work/out"

# ---- what happened is said ----
train "$work/log" 2 --auto --model tiny-llama --steps 1
check "--auto says in a run what was chosen" grep -q '^--auto: tp [0-9].* is the fastest of' "$work/out"
check "and in the JSON log" grep -q '"why": "tp [0-9].* is the fastest of' "$work/log"
train "$work/log" 1 "${model[@]}" --dtype f16 --loss-scale 1e12 --steps 5 # whatever the processor, beyond what f16 holds
check "a run that diverged is told" out_has "training has diverged"
train "$work/log" 1 --model tiny-llama --batch 8 --microbatches 1 --steps 1
check "one microbatch is one" out_has "1 microbatch of 8 samples"

# ---- --describe starts nothing ----
run "$kith" train --describe -n 4 --tp 2 --pp 2 --schedule zb-v --model tiny-gpt2
check "--describe" status_is 0
for part in "ranks       4: tp 2, pp 2, dp 1, ep 1" "{0,1} {2,3}" "{0,2} {1,3}" "embedding.positions" \
    "parameters of pipeline rank 1 (stage 1, 2)" "memory, counted by a dry run" "row-parallel outputs" "placement"; do
    check "it has '$part'" out_has "$part"
done
run "$kith" train --describe -n 8 --auto --model tiny-llama
check "--auto says what was chosen" out_has "is the fastest of"

fails 2 "cannot be dealt to 3 tensor-parallel ranks" "$kith" train --describe --tp 3 --model tiny-llama
check "and no half of a report" out_is_empty

# ---- what does not fit ----
fails 2 "--seq 65: the model has positions for 64" "$kith" train --text "$text" --model tiny-gpt2 --seq 65
fails 2 "would be written over" "$kith" train "${tiny[@]}" --json-log "$work/one" --trace "$work/./one"
ln "$work/log" "$work/linked"
fails 2 "would be written over" "$kith" train "${tiny[@]}" --json-log "$work/log" --timeline "$work/linked"
cp "$text" "$work/text"
fails 2 "would be written over" "$kith" train --text "$work/text" --trace "$work/../${work##*/}/text"
check "and the text is as it was" cmp "$text" "$work/text"
fails 2 "8 stages (pp 8, 1 of them a rank) for 4 blocks" "$kith" train -n 8 "${tiny[@]}" --model tiny-llama --pp 8
fails 2 "the model has no experts to deal" "$kith" train -n 2 "${tiny[@]}" --model tiny-llama --ep 2
fails 2 "did you mean tiny-llama" "$kith" train "${tiny[@]}" --model tiny-lama
fails 2 "missing.json" "$kith" train "${tiny[@]}" --model "$work/missing.json"
fails 2 "cannot be dealt to 3 tensor-parallel ranks" "$kith" train -n 3 "${tiny[@]}" --model tiny-llama --tp 3
fails 2 "--json-log $work/no/log cannot be written" "$kith" train "${tiny[@]}" --model tiny-llama --steps 1 \
    --json-log "$work/no/log"
finish
