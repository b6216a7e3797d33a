#!/usr/bin/env bash
# kith topo: every option, exit status and form, on machines drawn by hand (fixtures/topo).
#
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/lib.sh"
cd "$here/fixtures/topo" || exit 1

out_matches() { grep -qE -- "$1" "$work/out"; }
out_lacks() { ! grep -qF -- "$1" "$work/out"; }
out_begins() { [ "$(head -c "${#1}" "$work/out" | tr -d '\0')" = "$1" ]; }
err_lines() { [ "$(wc -l <"$work/err")" -eq "$1" ]; }
is_json() { python3 -m json.tool "$work/out" >/dev/null; }
has_python() { command -v python3 >/dev/null; }
# json EXPRESSION: true for the report as r
json() { python3 -c 'import json, sys; r = json.load(open(sys.argv[1])); sys.exit(not eval(sys.argv[2]))' "$work/out" "$1"; }

# ---- reports ----
succeeds "$kith" topo bridges.json
check "the GPUs" out_has "RTX A6000"
check "nothing else is said" err_is_empty
succeeds "$kith" topo --format json bridges.json
if has_python; then
    check "JSON" is_json
    check "four GPUs and their links" json 'len(r["gpus"]) == 4 and r["links"][0][3] == "NV4"'
    check "JSON has the placement" json '"placement" in r'
    cp "$work/out" "$work/machine.json"
    succeeds "$kith" topo diff bridges.json "$work/machine.json"
    check "what was written is read back" out_is_empty
fi
documented_keys() { # in the first column of the table of docs/topology.md, without [i][j]
    sed -n '/^## JSON/,$p' "$KITH_SOURCE_DIR/docs/topology.md" | grep '^|' | cut -d'|' -f2 | grep -oE '`[a-z_]+' |
        tr -d '`' | sort
}
printed_keys() { python3 -c 'import json, sys; print("\n".join(sorted(json.load(open(sys.argv[1])))))' "$1"; }
if has_python; then
    documented_keys >"$work/documented"
    printed_keys "$work/machine.json" >"$work/printed"
    check "all keys are documented, and no others: $(diff "$work/documented" "$work/printed")" \
        cmp -s "$work/documented" "$work/printed"
fi
succeeds "$kith" topo -i bridges.json --format text
cp "$work/out" "$work/text"
succeeds "$kith" topo --input bridges.json
check "text is the default" cmp -s "$work/out" "$work/text"
run "$kith" topo --format json - <bridges.json
succeeds sh -c '"$1" topo --format json - <bridges.json' sh "$kith"
has_python && check "standard input" json 'len(r["gpus"]) == 4'
succeeds "$kith" topo cpus.json
check "a machine without GPUs" out_has "cpus"
succeeds "$kith" topo --format json cpus.json
has_python && check "no placement without GPUs" json '"placement" not in r or r["placement"] is None'

# ---- words ----
succeeds "$kith" topo --format json --machine "2 nodes of 8 H100 on NVSwitch, 8 NICs"
has_python && check "16 GPUs, two nodes" json 'len(r["nodes"]) == 2 and len(r["gpus"]) == 8'
fails 2 "kith topo: " "$kith" topo --machine "8 bananas on NVSwitch"
succeeds "$kith" topo --format json cpus.json --nodes 3
has_python && check "--nodes N" json 'len(r["nodes"]) == 3'
fails 2 "--nodes 3 cannot be used: 1 node is listed" "$kith" topo --nodes 3 bridges.json
fails 2 "--nodes needs a number" "$kith" topo --nodes 0 bridges.json
fails 2 "--nodes needs a list" "$kith" topo --nodes "" bridges.json
succeeds "$kith" topo --gpu A100 unsaid.json
sed 's/"name": "A100", //' unsaid.json >"$work/unnamed.json"
succeeds "$kith" topo --gpu H100 --model gpt2 --tp 2 "$work/unnamed.json"
check "a plan on the machine hears of the GPU, too" out_has "989 TFLOP/s peak"
fails 2 "GPU 'NOSUCH' is not known; valid: a name with one of these in it: GB300" "$kith" topo --gpu NOSUCH unsaid.json
topo_said=$(sed 's/.*: GPU/GPU/' "$work/err")
fails 2 "GPU 'NOSUCH' is not known" "$kith" plan --model gpt2 --gpu NOSUCH
check "both say it in the same words" same "$(sed 's/.*: GPU/GPU/' "$work/err")" "$topo_said"
fails 2 "GPU 'NOSUCH' is not known" "$kith" plan --model gpt2 --gpu NOSUCH --input unsaid.json

# ---- placement ----
succeeds "$kith" topo --tp 2 --format json bridges.json
has_python && check "bridges make the groups" json 'r["placement"]["tp"] == [[0, 3], [1, 2]] and r["bottleneck"]["tp"]["link"] == "NV4"'
succeeds "$kith" topo --tp 2 --export env bridges.json
check "a rank's variables" out_has "CUDA_VISIBLE_DEVICES"
succeeds "$kith" topo --tp 1 --cp 1 --ep 1 --dp 2 --pp 2 --order tp-pp-dp-cp-ep bridges.json
succeeds "$kith" topo --tp 2 --keep-order bridges.json
check "the order of numbers leaves NVLink" out_matches "NODE|SYS"
run "$kith" topo diff "8 H100 on NVSwitch" "8 H100 on PCIe"
check "a number that nobody told" out_has "NVLinks is 18 in 8 H100 on NVSwitch, unknown in 8 H100 on PCIe"
sed '2s/NV4/NV99999999999/' tie.txt >"$work/many.txt"
fails 2 "the row of GPU0 has NV99999999999 in the column of GPU7; valid: 1 to 36" "$kith" topo "$work/many.txt"
succeeds "$kith" topo --format svg \
    "2 nodes of 8 H100 on NVSwitch, 8 NICs of NDR, 16 nodes a leaf, 4 leaves a spine, rails, 2 sockets"
check "what was read is shown whole" out_has "4 leaves a spine, rails, 2 sockets (synthetic)"
long=$(printf 'n%.0s' $(seq 240))
cp bridges.json "$work/$long" && sed -i '/"name": "bridges"/d' "$work/$long"
succeeds "$kith" topo --format svg "$work/$long"
check "a long name ends with an ellipsis" grep -qE 'nnn(\.\.\.|…)' "$work/out"
succeeds "$kith" topo --gpu A6000 --tp 1 --cp 4 tie.txt
check "the narrowest link is compared with the narrowest" out_has "NODE as in the order of the numbers"
succeeds "$kith" topo --tp 16 "2 nodes of 8 H100 on NVSwitch, 8 NICs of NDR"
check "a group that leaves its node is slower" out_has "(1.45 times less)"
check "no node is partitioned for a group of two nodes" out_lacks "partitions of a node"
succeeds "$kith" topo --tp 16 "4 nodes of 8 V100 in a cube mesh, 4 NICs"
check "several NICs carry more than the NVLinks of a pair: no warning" out_lacks "times less"
fails 2 "kith topo: " "$kith" topo --tp 5 bridges.json
fails 2 "kith topo: " "$kith" topo --order tp-tp bridges.json
fails 2 "--tp needs a number of ranks" "$kith" topo --tp 0 bridges.json
fails 2 "--pp needs a number of ranks" "$kith" topo --pp many bridges.json
succeeds "$kith" topo --model llama-2-70b --tp 4 bridges.json
check "the model's traffic" out_has "llama-2-70b"
succeeds "$kith" topo --tp 2 --model llama-2-7b --batch 2 --microbatches 3 --seq 1024 --dtype f16 --require nvlink bridges.json
check "the step that was asked for" out_has "1024"
pairs="2 nodes of 4 H100 PCIe in pairs of bridges, 2 NICs of NDR"
succeeds "$kith" topo --tp 2 --dp 2 --pp 2 --model llama-2-7b "$pairs"
grep '^  step' "$work/out" > "$work/placed"
succeeds "$kith" topo --tp 2 --dp 2 --pp 2 --model llama-2-7b --keep-order "$pairs"
check "the plan prices the order that is kept" sh -c "! grep '^  step' '$work/out' | cmp -s - '$work/placed'"
fails 2 "need --model" "$kith" topo --batch 2 bridges.json
fails 2 "--seq needs a number, 1 or more, not 'long'" "$kith" topo --model llama-2-7b --seq long bridges.json
fails 2 "--dtype needs bf16, f16, f32 or fp8, not 'int'" "$kith" topo --model llama-2-7b --dtype int bridges.json
fails 2 "kith topo: " "$kith" topo --model no-such-model bridges.json
fails 2 "kith topo: " "$kith" topo --tp 2 cpus.json

# ---- exports ----
for form in rankfile hostfile slurm env megatron kith; do
    succeeds "$kith" topo --tp 2 --export $form bridges.json
    check "$form says something" test -s "$work/out"
done
check "the last names its version" out_has '"kith_placement"'
fails 2 "--export needs rankfile, hostfile, slurm, env, megatron or kith, not 'pbs'" "$kith" topo --export pbs bridges.json
fails 2 "exclude each other" "$kith" topo --export env --format json bridges.json
fails 2 "kith topo: " "$kith" topo --export env cpus.json

# ---- --require ----
succeeds "$kith" topo --tp 2 --require nvlink bridges.json
check "the report comes, too" out_has "RTX A6000"
check "a met requirement is silent" err_is_empty
fails 3 "tp group 0 leaves NVLink: " "$kith" topo --tp 4 --require nvlink bridges.json
check "the report comes all the same" out_has "RTX A6000"
fails 3 "tp group 0 leaves NVLink: " "$kith" topo --tp 2 --keep-order --require nvlink bridges.json
check "and how many more" err_has "so do 1 more"
fails 3 "the source does not tell about NVLink" "$kith" topo --tp 2 --require nvlink unsaid.json
succeeds "$kith" topo --tp 1 --require nvlink bridges.json
fails 2 "--require needs nvlink, not 'speed'" "$kith" topo --require speed bridges.json

# ---- pictures ----
for machine in bridges cube hostile cpus unsaid; do
    succeeds "$kith" topo --format svg $machine.json
    check "$machine: SVG" out_has "</svg>"
    has_python && check "$machine: well formed" python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' "$work/out"
    succeeds "$kith" topo --format html $machine.json
    check "$machine: a page" out_has "</html>"
    check "$machine: no script in it" sh -c "! grep -qiE '<script|<img' '$work/out'"
    check "$machine: nothing is loaded" sh -c "! grep -qE '(src|href)=\"[^#\"]|@import|url\\(' '$work/out'"
    if [ "$HAS_CAIRO" = 1 ]; then
        succeeds "$kith" topo --format png --output "$work/$machine.png" $machine.json
        check "$machine: PNG" test "$(head -c 4 "$work/$machine.png" | tail -c 3)" = PNG
        succeeds "$kith" topo --format pdf -o "$work/$machine.pdf" $machine.json
        check "$machine: PDF" test "$(head -c 5 "$work/$machine.pdf")" = %PDF-
    fi
done
succeeds "$kith" topo -f svg --tp 2 cube.json
check "the slowest link of a group is marked" out_matches 'class="worst-label">NV2<'
check "four groups have four colours" test "$(grep -oE 'class="gpu g[0-9]"' "$work/out" | sort -u | wc -l)" -eq 4
succeeds "$kith" topo -f svg --tp 4 bridges.json
check "the slowest link that is not NVLink" out_matches 'class="worst-pci'
succeeds "$kith" topo -f svg hostile.json
check "names are escaped" out_has "H100 &lt;script&gt;"
if [ "$HAS_CAIRO" = 0 ]; then
    fails 2 "libcairo2-dev" "$kith" topo --format png -o "$work/x.png" bridges.json
elif command -v script >/dev/null; then
    run script -qec "'$kith' topo --format png bridges.json" "$work/typescript"
    check "no picture on a terminal" grep -q "not written to a terminal" "$work/typescript"
fi
fails 2 "--format needs text, json, svg, png, pdf or html, not 'gif'" "$kith" topo --format gif bridges.json

# ---- lint and diff ----
succeeds "$kith" topo lint cpus.json
check "no doubt, no word" out_is_empty
run "$kith" topo lint unsaid.json
check "doubts" status_is 1
check "a line is code: text" out_matches '^[a-z0-9-]+: .'
succeeds "$kith" topo diff bridges.json bridges.json
check "equal nodes" out_is_empty
run "$kith" topo diff bridges.json cube.json
check "different nodes" status_is 1
check "what differs" out_has "GPU"
fails 2 "diff needs two machines, not 1" "$kith" topo diff bridges.json
fails 2 "lint takes only" "$kith" topo lint --format json bridges.json
fails 2 "diff takes only" "$kith" topo diff --tp 2 bridges.json cube.json
fails 2 "nowhere: cannot be opened" "$kith" topo lint nowhere
fails 2 "nowhere: cannot be opened" "$kith" topo diff bridges.json nowhere

# ---- constants ----
succeeds "$kith" topo --list-constants
check "a row with its source" out_matches '^nvlink4 .* 20\.6 .*NCCL'
echo '{ "nvlink4": { "effective_gbps": 19.5 } }' >"$work/constants.json"
succeeds "$kith" topo --list-constants --constants "$work/constants.json"
check "a replaced row" out_matches '^nvlink4 .* 19\.5 .*replaced'
succeeds "$kith" topo --constants "$work/constants.json" bridges.json
fails 2 "kith topo: " "$kith" topo --constants nowhere bridges.json
fails 2 "--list-constants stands alone" "$kith" topo --list-constants bridges.json

# ---- what cannot be used ----
fails 2 "nowhere.txt: cannot be opened: No such file" "$kith" topo nowhere.txt
check "one sentence" err_lines 1
fails 2 "is a folder" "$kith" topo .
fails 2 "truncated.json:" "$kith" topo truncated.json
check "nothing on standard output" out_is_empty
head -c 100000 /dev/urandom >"$work/garbage"
fails 2 "garbage" "$kith" topo "$work/garbage"
: >"$work/empty"
fails 2 "empty" "$kith" topo "$work/empty"
fails 2 "the name of a machine is empty" "$kith" topo ""
fails 2 "did you mean --format" "$kith" topo --fromat json bridges.json
fails 2 "needs a value" "$kith" topo --tp

# ---- what cannot be written ----
if [ -e /dev/full ]; then
    fails 2 "cannot write /dev/full: No space left" "$kith" topo --output /dev/full bridges.json
    run sh -c '"$1" topo bridges.json >/dev/full' sh "$kith"
    check "standard output is full" status_is 2
    check "standard output is full: why" err_has "cannot write standard output: No space left"
fi
run sh -c '"$1" topo bridges.json >&-' sh "$kith"
check "closed standard output" status_is 2
check "closed standard output: why" err_has "cannot write standard output"
fails 2 "cannot write $work/none/x.svg: No such file" "$kith" topo --format svg -o "$work/none/x.svg" bridges.json
echo keep >"$work/kept"
run "$kith" topo -o "$work/kept" truncated.json
check "a failure leaves the file as it was" same "$(cat "$work/kept")" keep

# ---- this machine, also as an ordinary user ----
if [ "$HAS_HWLOC" = 1 ]; then
    # hwloc's PCI plugin leaves memory behind and is unloaded, so that it cannot be suppressed by its name.
    export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
    succeeds "$kith" topo
    succeeds "$kith" topo live --format json
    has_python && check "live JSON" is_json
    if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null && chmod 755 "$work" &&
        setpriv --reuid=65534 --clear-groups "$kith" --version >/dev/null 2>&1; then
        succeeds setpriv --reuid=65534 --clear-groups env -u HOME "$kith" topo --format svg
    fi
else
    fails 2 "hwloc" "$kith" topo
fi
finish
