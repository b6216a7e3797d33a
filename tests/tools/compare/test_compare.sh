#!/usr/bin/env bash
# kith compare: tables, marks, CSV, pictures, exit statuses, and files that are refused.
#
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/../lib.sh"
. "$here/compare/lib.sh"
cd "$work" || exit 1
make_machines

# row OP BACKEND NBYTES MEDIAN P25 P75 SAMPLES [MORE]: one row, with what the others leave out
row() {
    printf '{"op": "%s", "backend": "%s", "ranks": 4, "nbytes": %s, "time_us_median": %s, "time_us_p25": %s, "time_us_p75": %s, ' \
        "$1" "$2" "$3" "$4" "$5" "$6"
    printf '"samples": %s%s}' "$7" "${8:+, $8}"
}
rows() { (IFS=,; echo "[$*]"); }

# ---- what is compared with what ----

succeeds "$kith" compare node.json
check "one file: its first series is the baseline" out_has "ucx tcp, ucx cma beside shm"
check "has a panel" out_has "all_reduce, f32 sum, 8 ranks"
check "a barrier has no size" grep -qE '^ +- +0\.[0-9]+ us +' out
check "no reliable median" grep -qE '4 KiB .* us +\? +\? ' out
check "pairs are a grid" out_has "from\\to      0      1      2"
check "tables have at most 100 columns" test -z "$(grep -E ' [un]s |B$' out | awk 'length > 100')"
check "all lines have at most 100 columns" test -z "$(sed '/^geometric/,$d' out | awk 'length > 100')"
check "no spaces at the ends of lines" sh -c "! grep -q ' \$' out"
check "an absent link is said to be" out_has "node: link rc is absent: no InfiniBand device"

succeeds "$kith" compare node.json later.json
check "two days: each beside its own" out_has "later ucx cma beside node ucx cma"
check "what one side has alone is listed" out_has "all_pairs, f32, 8 ranks, 1 MiB: nothing of it in later shm, later ucx tcp, later ucx cma"
check "8 % slower is more than chance" grep -qE '^ +all +later shm +0\.92[0-9] .*: 0 \(\+\), [0-9]+ \(-\), 0 ~$' out
succeeds "$kith" compare node.json later.json --baseline later
check "the other way round" grep -qE '^ +all +node shm +1\.08 .*: [0-9]+ \(\+\), 0 \(-\), 0 ~$' out
succeeds "$kith" compare node.json gpu.json
check "series without a counterpart are said to be" out_has "gpu nccl nvlink, gpu nccl pcie beside nothing"
check "sizes that are missing are listed" out_has "all_reduce, f32 sum, 2 ranks: no 64 B, 32 KiB - 256 KiB, 2 MiB in gpu nccl pcie"
succeeds "$kith" compare node.json gpu.json --baseline "gpu nccl nvlink"
check "one series as the baseline of all" \
    out_has "node shm, node ucx tcp, node ucx cma, gpu shm, gpu nccl pcie beside gpu nccl nvlink"
succeeds "$kith" compare gpu.json --baseline "nccl pcie"
check "a backend and link of one file" out_has "shm, nccl nvlink beside nccl pcie"
succeeds "$kith" compare before=node.json after=later.json --baseline node.json
check "labels" out_has "after shm beside before shm"
succeeds "$kith" compare gpu.json
check "one file has no others" sh -c "! grep -q 'gpu shm' out"

# ---- ratios and marks, by hand ----

rows "$(row a x 8 100 99 101 400)" "$(row b x 8 100 99 101 400)" "$(row c x 8 100 50 150 20)" "$(row d x 8 100 99 101 400)" \
    "$(row e x 8 100 null null 400)" "$(row f x 8 100 99 101 400)" >old.json
rows "$(row a x 8 80 79 81 400)" "$(row b x 8 125 124 126 400)" "$(row c x 8 110 60 160 20)" "$(row d x 8 null 99 101 400)" \
    "$(row e x 8 80 null null 400)" "$(row f x 8 80 79 81 400 '"errors": 7')" >new.json
succeeds "$kith" compare old.json new.json
for line in 'a 1.25 (+)' 'b 0.8 (-)' 'c 0.909 ~' 'd ?' 'e 1.25 =' 'f !'; do
    read -r op want <<<"$line"
    check "$op is marked $want" test "$(grep -A 2 "^$op, 4 ranks" out | tail -n 1 | sed 's/.*us *//; s/.*? *?/?/; s/  */ /g')" = "$want"
done
check "the mean of 1.25, 0.8, 0.909 and 1.25" grep -qE '^ +all +new +1\.03 +0\.8 to 1\.25, 4: 1 \(\+\), 1 \(-\), 2 ~$' out

succeeds "$kith" compare old.json new.json --csv -
check "CSV: a heading and each value" test "$(wc -l <out)" -eq 13
check "CSV: all lines are equally long" test "$(awk -F, '{ print NF }' out | sort -u)" = 33
check "CSV: a ratio" grep -qE '^b,,,4,8,.*,new,new,x,,125,124,126,1,400,,,,,,,,old,0\.8,0\.79[0-9]+,0\.80[0-9]+,[0-9.e-]+,slower$' out
check "CSV: no median" grep -qE '^d,.*,new,new,x,,,99,101,1,400,,,,,,,,old,,,,,unreliable$' out
check "CSV: wrong elements" grep -qE ',7,,,,old,,,,,wrong$' out

# ---- pairs ----

rows "$(row all_pairs x 8 2 1.9 2.1 99 '"src": 0, "dst": 1, "busbw_gbps": 0.004')" \
    "$(row all_pairs x 8 3 2.9 3.1 99 '"src": 2, "dst": 0, "busbw_gbps": 0.003')" \
    "$(row all_pairs x 8 5000 4900 5100 99 '"src": 0, "dst": 2, "busbw_gbps": 0.001')" \
    "$(row all_pairs x 1048576 90 89 91 99 '"src": 0, "dst": 1, "busbw_gbps": 11.6')" >pairs.json
succeeds "$kith" compare pairs.json
check "small pairs are about time, each direction its own when there are two" grep -q '^        0      -      2   5000$' out
check "one direction stands for both" grep -q '^        1      2      -      -$' out
check "large pairs are about bandwidth" grep -q '^        0      -   11.6$' out

# ---- beside compute ----

rows "$(row a x 8 100 99 101 400 '"mode": "overlap", "hidden_percent": 62.5')" "$(row a x 8 90 89 91 400 '"mode": "blocking"')" >beside.json
succeeds "$kith" compare beside.json --html - --csv beside.csv
check "beside compute is a point of its own" out_has "<h3>a, 4 ranks, overlapped</h3>"
check "what was hidden" out_has "(62 % hidden)"
check "CSV: what was hidden" grep -q ',overlap,.*,62.5,,' beside.csv

# ---- several runs of a side ----

rows "$(row a x 8 100 99.9 100.1 1000)" >r1.json
rows "$(row a x 8 110 109.9 110.1 1000)" >r2.json
rows "$(row a x 8 104 103.9 104.1 1000)" >r3.json
rows "$(row a x 8 106 105.9 106.1 1000)" >r4.json
succeeds "$kith" compare r1.json r2.json
check "one run of each: different, but in brackets" grep -qE ' 0\.909 \(-\)$' out
check "and why" out_has "A side of one run holds nothing of what differs from run to run"
run "$kith" compare r1.json r2.json --threshold 5 --html brackets.html
check "the threshold counts it" status_is 1
check "and says so, too" out_has "or wrong; a side of one run holds nothing of what differs from run to run"
check "the page has brackets" grep -q '>0\.909 (&minus;)<' brackets.html
check "explained at its head and beside its tables" test "$(grep -c 'A side of one run holds nothing' brackets.html)" -eq 2
run "$kith" compare r1.json b=r3.json b=r4.json
check "one run on one side is enough for them" out_has " (-)"
succeeds "$kith" compare a=r1.json a=r2.json b=r3.json b=r4.json
check "several runs of each: within what runs differ by" grep -qE ' 0\.999 +~$' out
rows "$(row a x 8 130 129.9 130.1 1000)" >r5.json
rows "$(row a x 8 131 130.9 131.1 1000)" >r6.json
run "$kith" compare b=r3.json b=r4.json c=r5.json c=r6.json --threshold 5
check "several runs of each: a mark without brackets" grep -qE ' 0\.80[0-9]+ +-$' out
check "nothing to add" sh -c "! grep -q 'one run' out"
fails 2 "r1.json: is given twice" "$kith" compare r1.json a=r2.json r1.json

# ---- the harness, and several algorithms in one file ----

cat >harness.json <<'JSON'
{"format": "kith-bench-1", "machine": {"system": "Linux", "release": "6.1", "clock": "tsc", "cpus": 2}, "rows": [
 {"driver": "kith-shm", "variant": "mapped", "op": "all_reduce", "dtype": "f32", "ranks": 2, "nbytes": 1000000, "mode": "cold",
  "round": 0, "iterations": 100, "min_us": 90, "p10_us": 95, "median_us": 100, "p90_us": 105, "max_us": 200, "is_right": true},
 {"driver": "kith-shm", "variant": "mapped", "op": "all_reduce", "dtype": "f32", "ranks": 2, "nbytes": 1000000, "mode": "cold",
  "round": 1, "iterations": 100, "min_us": 90, "p10_us": 95, "median_us": 121, "p90_us": 125, "max_us": 200, "is_right": true},
 {"driver": "openmpi", "variant": "raw", "op": "all_reduce", "dtype": "f32", "ranks": 2, "nbytes": 1000000, "mode": "cold",
  "round": 0, "iterations": 100, "min_us": 90, "p10_us": 210, "median_us": 220, "p90_us": 230, "max_us": 300, "is_right": true}]}
JSON
succeeds "$kith" compare harness.json --csv -
check "the harness: rounds are one value, bandwidth by formula" \
    grep -qE '^all_reduce,f32,,2,1000000,,,,cold,,,kith-shm mapped,harness,kith-shm mapped,,110,,,2,200,9\.0909[0-9]*,9\.0909[0-9]*,,0,' out
check "the harness: a ratio" grep -qE ',openmpi raw,harness,openmpi raw,,220,.*,kith-shm mapped,0\.5,' out
sed 's/kith-bench-1/kith-bench-peers-1/; s/"system": "Linux", "release": "6.1"/"processor": "AMD EPYC"/; s/"round": 1,/"section": "tcp",/' \
    harness.json >peers.json
succeeds "$kith" compare peers.json
check "the harness with peers: its processor" out_has "3 rows of peers.json, AMD EPYC"
check "the harness with peers: its sections" out_has "all_reduce, f32, 2 ranks, tcp"

sed 's/"meta"/"cut_off": "SIGINT", "meta"/' node.json >cut.json
succeeds "$kith" compare cut.json --html cut.html
check "a run that was cut off is said to be" grep -q '^cut: .*, cut off by SIGINT$' out
check "a run that was cut off, on the page" grep -q 'Cut off by.*<td>SIGINT</td>' cut.html

# ---- peers ----

make_peers peers.json
succeeds "$kith" compare peers.json node.json --csv peers.csv --svg peers
check "peers: a table for an operation and its ranks" out_has "all_reduce, 2 ranks, cold"
check "peers: the fastest of each size, in one class" grep -qE '^ +8 B +far +1 us +4 +- +-$' out
check "peers: other sizes, other classes" grep -qE '^ +1 MiB +near +100 us +4 +80 us +0\.25$' out
check "peers: the geometric mean of each" grep -qE '^ +mean +4 +0\.25$' out
check "peers: each of them" grep -qE '^ +8 B +far +9 us +4 us +-$' out
check "peers: floors and pairs are none" sh -c "! grep -qE 'floors|pair-' out"
check "peers: lines of CSV" \
    grep -qE '^all_reduce,,,2,8,,,,cold,,,kith-shm ordinary,peers,kith-shm ordinary,,1,,,,,,,,,,,far,mpich,4,,,,peers$' peers.csv
check "peers: their picture" grep -q "best peer, bf16" peers/all_reduce-2-ranks-cold-peers.svg
succeeds "$kith" compare peers.json --csv alone.csv
check "peers: cores that moved are not compared" grep -qE ',openmpi raw,peers,openmpi raw,.*,moved,kith-shm ordinary,,,,,other_cores$' alone.csv
check "peers: cores of one class are" grep -qE ',mpich raw,peers,mpich raw,.*,near,kith-shm ordinary,0\.25,.*,slower$' alone.csv
for change in 's/"kith-shm.ordinary": 100/"kith-shm\/ordinary": 0/' 's/"latency_class": "near"/"class": "near"/' \
    's/"nbytes": 1048576/"nbytes": -1/' 's/"us": {"kith-shm.ordinary": 100.*}}/"us": 7}/'; do
    sed "$change" peers.json >bad.json
    fails 2 "kith compare: bad.json: figure 1: " "$kith" compare bad.json
done

# ---- where the cores were ----

rows "$(row a x 8 100 99 101 400 '"cores": "near"')" "$(row b x 8 100 99 101 400 '"cores": "near"')" \
    "$(row c x 8 100 99 101 400 '"cores": "moved"')" "$(row d x 8 100 99 101 400)" >home.json
rows "$(row a x 8 50 49 51 400 '"cores": "sibling"')" "$(row b x 8 50 49 51 400 '"cores": "near"')" \
    "$(row c x 8 50 49 51 400 '"cores": "moved"')" "$(row d x 8 50 49 51 400 '"cores": "near"')" >away.json
succeeds "$kith" compare home.json away.json --csv cores.csv --threshold 1
for line in 'a near sibling c' 'b near near (+)' 'c moved moved c' 'd - near (+)'; do
    read -r op _ there want <<<"$line"
    check "cores: $line" test "$(grep -A 2 "^$op, 4 ranks" out | tail -n 1 | awk '{print $NF}')" = "$want"
    check "cores of $op in CSV" grep -qE "^$op,.*,away,.*,$there,home," cores.csv
done
check "cores: says why" out_has "c: no ratio, as the cores of both sides were of different classes"
run "$kith" compare away.json home.json --threshold 1
check "cores: some are worse" status_is 1
check "cores: what is on others is not worse" test "$(grep -c 'takes .* longer' out)" = 2

# ---- pairs beside what is expected of them ----

pair() { row all_pairs x 1048576 100 99 101 400 "\"src\": $1, \"dst\": $2, \"busbw_gbps\": $3, \"algbw_gbps\": $3$4"; }
of_link=', "pair_link": "NV18", "expected_gbps": 20'
rows "$(pair 0 1 19 "$of_link, \"below_expected\": false")" "$(pair 0 2 9 "$of_link, \"below_expected\": true")" >pairs.json
succeeds "$kith" compare pairs.json --csv pairs.csv --svg pairs --html pairs.html
check "pairs: what stays below is marked" grep -qE '^ +0 +- +19 +9<$' out
check "pairs: the mark is explained" out_has "<: below what the link of the pair"
check "pairs: CSV" grep -qE ',20,true,,,,,,,$' pairs.csv
check "pairs: the map has a frame, twice, and a legend" sh -c "grep -q 'below what the link' pairs/*.svg && grep -q 'below what the link' pairs.html"
check "pairs: what it is below" grep -q 'below the 20 GB/s expected of NV18' pairs.html
sed 's/"below_expected": true/"below_expected": false/' pairs.json >fine.json
succeeds "$kith" compare fine.json --svg fine
check "pairs: no frame without need" sh -c "! grep -q 'below' out && ! grep -q 'below' fine/*.svg"

rows "$(row a x 8 100 99 101 400 '"algorithm": "ring"')" "$(row a x 8 50 49 51 400 '"algorithm": "tree"')" >forced.json
succeeds "$kith" compare forced.json
check "algorithms of one file are series" out_has "x tree beside x ring"

rows "$(row a shm 8 100 99 101 400 '"link": "shm"')" "$(row a shm 8 99 98 100 400 '"link": "shm-cma"')" \
    "$(row a ucx 8 300 299 301 400 '"link": "ucx-tcp"')" >links.json
succeeds "$kith" compare links.json
check "links that name their backend" out_has "shm-cma, ucx-tcp beside shm"

# ---- exit status ----

succeeds "$kith" compare node.json later.json --threshold 10
check "nothing worse" out_has "nothing is slower by more than 10 %, or wrong"
run "$kith" compare node.json later.json --threshold 5
check "8 % is more than 5 %" status_is 1
check "what is worse" grep -qE '^  all_reduce, f32 sum, 8 ranks, 8 B: later shm takes [78]\.[0-9] % longer \(' out
check "a barrier that is worse" grep -qE '^  barrier, 2 ranks: later ucx tcp takes' out
succeeds "$kith" compare later.json node.json --threshold 0
run "$kith" compare old.json new.json --threshold 1000
check "wrong elements end with 1" status_is 1
check "wrong elements are worse at any threshold" out_has "f, 4 ranks, 8 B: new has wrong elements: 7"

# ---- pictures ----

succeeds "$kith" compare node.json later.json --svg pictures --csv table.csv --html page.html
for name in all_reduce-f32-sum-8-ranks-{time,busbw,ratio,bars} all_gather-f32-2-ranks-time barrier-2-ranks-bars \
    all_pairs-f32-8-ranks-1-mib-pairs{,-2,-3}; do
    check "$name.svg is there" test -s "pictures/$name.svg"
done
check "curves, marks and whiskers" sh -c "cat pictures/*-time.svg | grep -q 'class=\"curve c0\"' && cat pictures/*-time.svg | grep -q 'class=\"mark g1\"'"
check "a value to hover over" grep -q '<title>node shm, 8 B: [0-9.]* us (middle half ' pictures/all_reduce-f32-sum-2-ranks-time.svg
if [ "$HAS_CAIRO" = 1 ]; then
    succeeds "$kith" compare r1.json r2.json --png png
    check "a PNG" test "$(head -c 4 png/a-4-ranks-bars.png | tail -c 3)" = PNG
else
    fails 2 "without cairo" "$kith" compare r1.json r2.json --png png
fi
fails 2 "cannot make the folder" "$kith" compare r1.json --svg no/such/folder
fails 2 "cannot write" "$kith" compare r1.json --html no/such/page.html

# What is read is not written to, by whatever name.
cp r1.json kept.json
ln -s r1.json another.json
fails 2 "--html r1.json would replace r1.json" "$kith" compare r1.json r2.json --html r1.json
fails 2 "--csv another.json would replace r1.json" "$kith" compare r2.json b=r1.json --csv another.json
check "the file is as it was" cmp -s kept.json r1.json
rm another.json kept.json

# ---- what is refused ----

fails 2 "no file was given" "$kith" compare
fails 2 "did you mean --threshold?" "$kith" compare --treshold 5 r1.json
fails 2 "--threshold many is not a number" "$kith" compare --threshold many r1.json
fails 2 "./twice would be written twice" "$kith" compare --csv twice --html ./twice r1.json
fails 2 "cannot both go to standard output" "$kith" compare --csv - --html - r1.json
fails 2 "--baseline x is neither a label, a file nor one of: r1, r2" "$kith" compare r1.json r2.json --baseline x
fails 2 "none.json: cannot be opened: No such file" "$kith" compare none.json
fails 2 "$work: is a folder" "$kith" compare "$work"

# refuses SENTENCE TEXT: as a file
refuses() {
    printf '%s' "$2" >bad.json
    fails 2 "kith compare: bad.json$1" "$kith" compare r1.json bad.json
    check "one sentence: $1" test "$(wc -l <err)" -eq 1
    check "nothing is compared: $1" out_is_empty
}
good=$(row a x 8 100 99 101 400)
refuses ": the file is empty" ""
refuses ":1: '[' or '{' expected near 'hello'" "hello"
refuses ":1: ']' expected near end of file" "[$good"
refuses ":2: invalid token near 'NaN'" "[
${good/99/NaN}]"
refuses ":1: real number overflow" "[${good/99/1e999}]"
refuses ":1: duplicate object key" "[${good/\"ranks\": 4/\"op\": \"b\"}]"
refuses ": is neither a list of rows nor an object with a \"format\"" '{"rows": []}'
refuses ": is neither a list of rows nor an object with a \"format\"" '{"format": 3}'
refuses ': the format "other" is not known' '{"format": "other", "rows": []}'
refuses ': "rows" is not a list' '{"format": "kith-results-1"}'
refuses ": has no rows" "[]"
refuses ': "meta" is not an object' '{"format": "kith-results-1", "meta": 5, "rows": []}'
refuses ': "cpu" of "meta" is neither a text' '{"format": "kith-results-1", "meta": {"cpu": 1.5}, "rows": []}'
refuses ': row 1: is 7; wanted an object' "[7]"
refuses ': row 2: has no "op", which is a name' "[$good, {}]"
refuses ': row 1: "op" is 5; wanted a name' "[${good/\"a\"/5}]"
refuses ': row 1: "nbytes" is -8; wanted a whole number from 0' "[${good/\"nbytes\": 8/\"nbytes\": -8}]"
refuses ': row 1: "nbytes" is 8.5; wanted a whole number' "[${good/\"nbytes\": 8/\"nbytes\": 8.5}]"
refuses ': row 1: "ranks" is 0; wanted a whole number from 1' "[${good/\"ranks\": 4/\"ranks\": 0}]"
refuses ': row 1: has no "time_us_median", which is a number above 0' "[${good/\"time_us_median\": 100, /}]"
refuses ': row 1: "time_us_median" is 1e+308; wanted a number above 0, from 1e-06 to 1e+15' "[${good/100/1e308}]"
refuses ': row 1: "time_us_median" is 0; wanted a number above 0' "[${good/100/0}]"
refuses ': row 1: "time_us_median" is "100"; wanted a number' "[${good/100/\"100\"}]"
refuses ': row 1: "time_us_p25" is 101, above "time_us_p75", which is 99' "[$(row a x 8 100 101 99 400)]"
refuses ': row 1: "time_us_p25" is 99, above "time_us_median", which is 98' "[$(row a x 8 98 99 101 400)]"
refuses ': row 1: "samples" is -1' "[$(row a x 8 100 99 101 -1)]"
refuses ': row 1: "reliable" is 1; wanted true or false' "[$(row a x 8 100 99 101 1 '"reliable": 1')]"
refuses ': row 1: has only one of "src" and "dst"' "[$(row a x 8 100 99 101 1 '"src": 1')]"
refuses ': row 2: is the same point as row 1' "[$good,$good]"
head -c 3000 node.json >bad.json
fails 2 "kith compare: bad.json:" "$kith" compare bad.json
check "half a file: its line" grep -qE '^kith compare: bad.json:[0-9]+: ' err
printf '[{"op": "\\u001b]0;owned\\u0007", "ranks": "\\u001b[31m"}]' >bad.json
fails 2 'row 1: "ranks" is "?[31m"' "$kith" compare bad.json
check "what stops at no end is not read to it" sh -c "'$kith' compare /dev/zero 2>&1 | grep -q '/dev/zero: is larger than 128 MiB'"
finish
