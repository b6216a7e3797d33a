#!/usr/bin/env bash
# kith plan: the numbers that scripts rely on, the report, and what is refused.
#
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/lib.sh"

is_narrow() { ! grep -qE '^.{101}' "$work/out"; }

# The table of 160 all-reduces: 512 MiB each, 80 GiB, 95 ms on NVLink, 1.34 s on PCIe.
layout="--model llama-2-70b --tp 8 --batch 4 --seq 4096"
succeeds "$kith" plan $layout
check "the table" out_has "160 all-reduces of 512 MiB: 80 GiB"
check "NVLink" grep -qE 'NVLink 4 +900 GB/s +95\.4 ms' "$work/out"
check "PCIe" grep -qE 'PCIe 5 +64 GB/s +1\.34 s +14\.1 times' "$work/out"
check "exact counts are beside it" grep -qE 'row-parallel outputs +all_reduce +160 +256 MiB' "$work/out"
check "at most 100 columns" is_narrow
check "nothing on stderr" err_is_empty

if command -v python3 >/dev/null; then
    cat >"$work/look.py" <<'PY'
import json, sys
plan = json.load(open(sys.argv[1]))
axes = plan["axes"]
assert axes["tp"]["ops"] == 160 and axes["tp"]["bytes_per_op"] == 536870912, axes["tp"]
assert axes["tp"]["bytes"] == 85899345920, axes["tp"]
assert abs(axes["tp"]["time_s"]["nvlink"] - 0.0954) < 1e-3 and abs(axes["tp"]["time_s"]["pcie"] - 1.342) < 1e-3
for axis in "tp", "cp", "ep", "dp", "pp":
    for entry in [axes[axis]] + ([axes[axis]["step"]] if axis == "tp" else []):
        for key in "ops", "bytes_per_op", "bytes", "per":
            assert key in entry, (axis, key)
        assert set(entry["time_s"]) == {"nvlink", "pcie", "ib"}, entry
step = sum(row["ops"] for row in plan["traffic"] if row["axis"] == "tp")
assert step == axes["tp"]["step"]["ops"] == 324, step
memory = plan["memory"]
assert abs(memory["weights"] + memory["gradients"] + memory["optimizer"] + memory["activations"] - memory["total"]) < 8
assert memory["capacity"] is None and memory["fits"] is None, memory
assert plan["bubble"] == 0 and plan["step_s"] == plan["steps"]["nvlink"]["total_s"] and plan["steps"]["placed"] is None
assert plan["model"]["parameters"] == 68976648192 and plan["layout"]["world"] == 8
PY
    succeeds "$kith" plan $layout --format json
    cp "$work/out" "$work/json"
    check "the JSON report" python3 "$work/look.py" "$work/json"
    succeeds "$kith" plan --model llama-2-13b --search --world 16 --gpu A100 --zero 1 --top 3 --format json
    check "the JSON of a search" python3 -c 'import json, sys
found = json.load(open(sys.argv[1]))
assert found["count"] == len(found["plans"]) == 3 < found["tried"], found["count"]
times = [plan["step_s"] for plan in found["plans"]]
assert times == sorted(times) and all(plan["memory"]["fits"] for plan in found["plans"]), times' "$work/out"
fi

succeeds "$kith" plan --model "Mixtral 8x7B" --tp 2 --ep 4 --pp 4 --sp --microbatches 8 --zero 1 --gpu H100 --flash \
    --schedule interleaved --chunks 2
check "all_to_all" grep -qE '^  ep +tokens to experts and back +all_to_all +128' "$work/out"
check "it fits" out_has "fits: "
check "at most 100 columns" is_narrow
succeeds "$kith" plan --model gpt-3-175b --gpu H100
check "it does not fit" out_has "DOES NOT FIT into 74.5 GiB"
succeeds "$kith" plan --model llama-2-7b --dtype f32 --order pp-tp-cp --tp 2 --pp 2 --cp 2 --dp 1 --global-batch 4 \
    --recompute full --peak 100 --efficiency 0.4 --memory 240
check "what is given holds" out_has "100 TFLOP/s peak, 40 % of it reached"
check "the order" out_has "(order pp-tp-cp)"
fails 1 "order 'pp-tp' must name each axis" "$kith" plan --model llama-2-7b --order pp-tp --cp 2

succeeds "$kith" plan --model llama-2-13b --search --world 16 --gpu A100 --zero 1
check "a table" grep -qE '^ +1 +[0-9]+ ' "$work/out"
check "at most 100 columns" is_narrow
fails 1 "fits into memory" "$kith" plan --model llama-2-70b --search --world 8 --memory 1
fails 1 "no layout of 7 ranks" "$kith" plan --model gpt2 --search --world 7 --global-batch 6
fails 1 "tp 7 does not divide the number of heads of 12" "$kith" plan --model gpt2 --search --world 7 --tp 7
fails 1 "tp 3 does not divide world 16" "$kith" plan --model gpt2 --search --world 16 --tp 3
fails 1 "pp 4 does not divide the 3 ranks that" "$kith" plan --model gpt2 --search --world 12 --tp 4 --pp 4
fails 1 "world 32 is more than the 16 GPUs" "$kith" plan --model gpt2 --search --world 32 \
    --input "2 nodes of 8 H100 on NVSwitch, 8 NICs of NDR"

# Every kind of kith schedule: its bubble is that of the schedule.
for kind in $("$kith" schedule --list); do
    succeeds "$kith" plan --model llama-2-7b --pp 4 --microbatches 8 --schedule "$kind"
    check "$kind: a bubble" grep -qE '^  bubble: [0-9.]+ % of the ideal time' "$work/out"
    check "$kind: its name" out_has "  schedule $kind"
done
check "auto has one chunk" test -z "$(grep "chunks of the model" "$work/out")"
succeeds "$kith" plan --model llama-2-7b --pp 4 --microbatches 8 --schedule dualpipe-v
check "two chunks in a V" out_has "schedule dualpipe-v, 2 chunks of the model on each stage"
fails 1 "zb-v with 3 chunks a rank: it has 2" "$kith" plan --model llama-2-7b --pp 2 --chunks 3 --schedule zb-v
fails 1 "1f1b with 3 chunks a rank: it has 1" "$kith" plan --model llama-2-7b --pp 2 --chunks 3 --search --world 8
succeeds "$kith" plan --model llama-2-13b --search --world 32 --gpu A100 --zero 1 --global-batch 64 --schedule auto
check "a search" out_has "of those that fit"

machine="2 nodes of 8 H100 on NVSwitch, 8 NICs"
succeeds "$kith" plan --model llama-2-7b --tp 8 --input "$machine"
check "what remains" out_has "16 ranks: tp 8, cp 1, ep 1, dp 2, pp 1"
check "the peak of its GPUs" out_has "989 TFLOP/s peak,"
check "a column for the machine" grep -qE '^ +NVLink +PCIe InfiniBand +here$' "$work/out"
check "at most 100 columns" is_narrow
succeeds "$kith" plan --model llama-2-13b --search --input "$machine" --zero 1
check "times of the machine" out_has "times on the machine"
fails 1 "more ranks than the 16 GPUs that may be used" "$kith" plan --model llama-2-7b --tp 8 --pp 4 --input "$machine"

# A terminal on standard error sees how far a search is, and nothing of it stays; a file sees nothing.
if command -v python3 >/dev/null 2>&1; then
    check "progress on a terminal" python3 -c 'import os, pty, subprocess, sys
leader, follower = pty.openpty()
command = [sys.argv[1], "plan", "--model", "llama-2-13b", "--search", "--input", sys.argv[2], "--zero", "1"]
done = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=follower)
os.close(follower)
seen = b""
try:
    while (piece := os.read(leader, 1 << 16)):
        seen += piece
except OSError: # how a terminal says that nobody writes to it any more
    pass
done.wait()
wanted = b"kith plan: placing 100 %"
assert done.returncode == 0 and wanted in seen and b"kith plan: laying out" in seen, (wanted, seen)
assert seen.endswith(b"\r\x1b[K"), seen' "$kith" "$machine"
fi
succeeds "$kith" plan --model llama-2-13b --search --input "$machine" --zero 1
check "no progress in a file" test ! -s "$work/err"

succeeds "$kith" plan --list
check "GPT-2 is there" grep -qE '^gpt2 +0\.1244 billion' "$work/out"
printf '%s' '{"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
"intermediate_size": 11008, "vocab_size": 32000}' >"$work/config.json"
succeeds "$kith" plan --config "$work/config.json"
check "its parameters" out_has "6.738 billion parameters"
sed 's/"num_hidden_layers": 32/"num_hidden_layers": 5000/' "$work/config.json" >"$work/long.json"
sed -i 's/"vocab_size": 32000/"vocab_size": -1/' "$work/config.json"
fails 1 "config.json:2: 'vocab_size' must be a whole number" "$kith" plan --config "$work/config.json"
fails 1 "nothing.json" "$kith" plan --config "$work/nothing.json"

fails 2 "did you mean llama-2-7b, llama-2-70b, llama-3-70b?" "$kith" plan --model lama-2-70b
fails 2 "--zero 4: it must be a whole number from 0 to 3" "$kith" plan --model gpt2 --zero 4
fails 1 "valid: 1, 2, 3, 4, 6, 12" "$kith" plan --model gpt2 --tp 5
fails 2 "GPU 'Voodoo' is not known" "$kith" plan --model gpt2 --gpu Voodoo
fails 2 "GPU 'Voodoo' is not known" "$kith" plan --model gpt2 --gpu Voodoo --input "8 GPUs"
fails 2 "GPU 'Voodoo' is not known" "$kith" topo --gpu Voodoo "8 GPUs"
fails 2 "give either --model NAME or --config FILE" "$kith" plan --tp 8
fails 2 "give either --model NAME or --config FILE" "$kith" plan --model gpt2 --config x
fails 2 "--tp x: it must be a whole number" "$kith" plan --model gpt2 --tp x
fails 2 "--efficiency 1.5: it must be a number above 0, at most 1" "$kith" plan --model gpt2 --efficiency 1.5
for word in nan inf 0x1 1e999 0,5 "" " 0.5" -1 0 1d; do
    fails 2 "--efficiency $word: it must be a number above 0" "$kith" plan --model gpt2 --efficiency "$word"
    fails 2 "it must be a number above 0" "$kith" plan --model gpt2 --memory "$word"
done
fails 2 "--schedule custom is not one of naive, gpipe, 1f1b, interleaved, zb-h1, zb-h2, zb-v, looped-bfs," \
    "$kith" plan --model gpt2 --schedule custom
fails 1 "pp up to 4096, or naive, gpipe, 1f1b" "$kith" plan --config "$work/long.json" --pp 5000 --schedule zb-h1
fails 2 "--dtype f64 is not one of bf16, f16, f32, fp8" "$kith" plan --model gpt2 --dtype f64
fails 2 "--schedule 2f2b is not one of naive, gpipe, 1f1b" "$kith" plan --model gpt2 --schedule 2f2b
fails 2 "--search needs --world N or --input FILE" "$kith" plan --model gpt2 --search
fails 2 "--nodes goes with --input" "$kith" plan --model gpt2 --nodes 2
fails 2 "unknown option --modl; did you mean --model?" "$kith" plan --modl gpt2
fails 2 "there is nothing to do with 'gpt2'" "$kith" plan gpt2
finish
