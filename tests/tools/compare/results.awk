# tests/tools/compare/results.awk - result files of machines that do not exist, by a cost model with noise from a fixed seed.
#
#     awk -f results.awk -v "series=shm auto 0.4 11;ucx tcp 14 1.1" -v ops=all_reduce,broadcast [-v NAME=VALUE...]
#
# Each series is a backend, a link, microseconds for a step and GB/s. Names: ranks, sizes (lists with commas), samples,
# noise (share of a time that half of the samples lie within), slower (a factor for all times), seed, machine, gpus,
# version, date, unreliable ("backend nbytes": no median there), wrong (a backend with wrong elements), pairs (nbytes of an
# all_pairs row for each pair), bare (1: the list alone).
#
# SPDX-License-Identifier: BSD-3-Clause
function chance() { state = (state * 16807) % 2147483647; return state / 2147483647 }
function log2(x) { return log(x) / log(2) }
function factor(op, n) { return op == "all_reduce" ? 2 * (n - 1) / n : op ~ /reduce_scatter|all_gather|all_to_all/ ? (n - 1) / n : 1 }
function steps(op, n) { return op == "all_reduce" ? 2 * log2(n) : op == "ping_pong" || op == "all_pairs" ? 1 : log2(n) }

# A line of a row; ends nowhere, so that a comma can follow.
function row(op, backend, link, n, nbytes, alpha, beta, more,    t, bus, has_median, width) {
    t = slower * (alpha * steps(op, n) + nbytes * factor(op, n) / beta / 1000) * (1 + (chance() - 0.5) * noise / 4)
    has_median = unreliable != backend " " nbytes
    width = t * noise * (has_median ? 1 : 8) * (0.8 + 0.4 * chance())
    bus = nbytes * factor(op, n) / t / 1000
    printf "%s{\"op\": \"%s\", \"backend\": \"%s\", \"link\": \"%s\", \"dtype\": \"%s\", \"redop\": \"%s\", \"ranks\": %d, ", comma,
        op, backend, link, op == "barrier" ? "" : "f32", op ~ /reduce/ ? "sum" : "", n
    printf "\"nbytes\": %d, \"place\": \"out\", \"memory\": \"host\", \"group\": \"world\", \"mode\": \"blocking\", ", nbytes
    if (has_median)
        printf "\"time_us_median\": %.6g, \"algbw_gbps\": %.6g, \"busbw_gbps\": %.6g, \"reliable\": true, ", t, bus / factor(op, n), bus
    else
        printf "\"time_us_median\": null, \"algbw_gbps\": null, \"busbw_gbps\": null, \"reliable\": false, "
    printf "\"time_us_min\": %.6g, \"time_us_p25\": %.6g, \"time_us_p75\": %.6g, ", t - width, t - width / 2, t + width / 2
    printf "\"samples\": %d, \"errors\": %d%s}", samples, backend == wrong ? 3 : 0, more
    comma = ",\n"
}

BEGIN {
    if (ranks == "") ranks = "2,4"
    if (sizes == "") sizes = "8,64,512,4096,32768,262144,2097152,16777216"
    if (samples == "") samples = 200
    if (noise == "") noise = 0.03
    if (slower == "") slower = 1
    if (machine == "") machine = "EPYC 9354"
    if (version == "") version = "0.1.0"
    if (date == "") date = "2026-11-30T08:00:00Z"
    state = seed == "" ? 4711 : seed
    if (!bare) {
        printf "{\"format\": \"kith-results-1\", \"meta\": {\"kith_version\": \"%s\", \"date\": \"%s\", ", version, date
        printf "\"command\": \"kith bench %s -n %s --save results.json\", \"hosts\": [\"node1\"], \"cpu\": \"%s\", \"cpus\": 32, ", ops, ranks, machine
        printf "\"memory_bytes\": 270582939648, \"kernel\": \"6.1.0\", \"gpus\": [%s], ", gpus
        printf "\"backends\": [{\"name\": \"shm\", \"version\": \"%s\"}, {\"name\": \"ucx\", \"version\": \"1.17.0\"}]", version
        printf "},\n\"absent_links\": [{\"link\": \"rc\", \"reason\": \"no InfiniBand device\"}],\n\"rows\": "
    }
    printf "[\n"
    count_series = split(series, list, ";")
    count_ops = split(ops, op, ",")
    count_ranks = split(ranks, n, ",")
    count_sizes = split(sizes, size, ",")
    for (s = 1; s <= count_series; s++) {
        split(list[s], of, " ")
        for (o = 1; o <= count_ops; o++)
            for (r = 1; r <= count_ranks; r++)
                for (z = 1; z <= (op[o] == "barrier" ? 1 : count_sizes); z++)
                    row(op[o], of[1], of[2], n[r], op[o] == "barrier" ? 0 : size[z], of[3], of[4], "")
        if (pairs != "")
            for (a = 0; a < n[count_ranks]; a++)
                for (b = 0; b < n[count_ranks]; b++)
                    if (a != b)
                        row("all_pairs", of[1], of[2], n[count_ranks], pairs, of[3], of[4] / (int(a / 4) == int(b / 4) ? 1 : 6),
                            ", \"src\": " a ", \"dst\": " b)
    }
    print "]" (bare ? "" : "}")
}
