# bash completion for kith
#
# SPDX-License-Identifier: BSD-3-Clause

_kith_backends() {
    kith info --json 2>/dev/null | tr -d '\n' | sed -e 's/"devices".*//' | grep -oE '"name": *"[a-z0-9_]+"' |
        sed -E 's/.*"([a-z0-9_]+)"$/\1/' | sort -u
}

_kith_bench_ops() {
    echo all_reduce reduce_scatter reduce_scatter_v all_gather all_gather_v broadcast reduce gather gather_v scatter \
        scatter_v all_to_all all_to_all_v barrier ping_pong bidirectional many_to_one ring_exchange all_pairs
}

# Words that may follow an option; fails for options without a list of values.
_kith_values() {
    case "$1" in
    --backend) _kith_backends ;;
    --bind) echo compact spread none ;;
    --redop) echo sum avg prod min max band bor bxor ;;
    --place) echo in out both ;;
    --group) echo world each all ;;
    --memory)
        case "${COMP_WORDS[1]}" in
        bench) echo host mapped device ;;
        *) return 1 ;;
        esac
        ;;
    --dtype)
        case "${COMP_WORDS[1]}" in
        plan) echo bf16 f16 f32 fp8 ;;
        train | generate) echo f32 f64 bf16 f16 ;;
        *) echo f32 f64 bf16 f16 f8e4m3 f8e5m2 int8 uint8 int16 uint16 int32 uint32 int64 uint64 ;;
        esac
        ;;
    --model)
        case "${COMP_WORDS[1]}" in
        train | generate) return 1 ;; # files, too
        *) kith plan --list 2>/dev/null | sed 's/ .*//' ;;
        esac
        ;;
    --token-type) echo u16 u32 ;;
    --optimizer) echo adamw sgd ;;
    --decay) echo constant linear cosine ;;
    --loss-scale) echo dynamic ;;
    --recompute) echo none selective full ;;
    --zero) echo 0 1 2 3 ;;
    --format)
        case "${COMP_WORDS[1]}" in
        plan) echo text json ;;
        schedule) echo text json csv csv-comms deepspeed shallowspeed trace svg png pdf html ;;
        *) echo text json svg png pdf html ;;
        esac
        ;;
    --kind | --compare | --schedule) kith schedule --list 2>/dev/null ;;
    --dialect) echo auto old new ;;
    --color) echo auto always never ;;
    --export) echo rankfile hostfile slurm env megatron kith ;;
    --require) echo nvlink ;;
    --order) echo tp-cp-ep-dp-pp tp-pp-dp ;;
    *) return 1 ;;
    esac
}

_kith() {
    local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD - 1]}" words i
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W "run info topo flight bench compare plan schedule train generate tune help --help --version" -- "$current")
        return
    fi
    # Behind "--" of kith run comes a command line of its own.
    if [ "${COMP_WORDS[1]}" = run ]; then
        for ((i = 2; i < COMP_CWORD; i++)); do
            if [ "${COMP_WORDS[i]}" = -- ]; then
                if declare -F _command_offset >/dev/null; then _command_offset $((i + 1)); else
                    mapfile -t COMPREPLY < <(compgen -f -- "$current")
                fi
                return
            fi
        done
    fi
    if words="$(_kith_values "$previous")"; then
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
        return
    fi
    case "${COMP_WORDS[1]}" in
    run) words="-n --ranks --backend --bind --placement --env --prefix --timeout --grace --verbose --help --" ;;
    info) words="--json --config --algorithms --help" ;;
    topo)
        words="--input --machine --nodes --gpu --constants --tp --cp --ep --dp --pp --order --model --keep-order"
        words+=" --batch --microbatches --seq --dtype --format --output --export --require --list-constants --help lint diff"
        ;;
    flight) words="--json --help" ;;
    bench)
        words="-n --ranks --backend --sizes --min --max --factor --dtype --redop --place --root --mesh --group --memory"
        words+=" --non-blocking --overlap --budget --no-check --timeout --json --csv --save --quiet"
        words+=" --links --model-fit --constants --help $(_kith_bench_ops)"
        case "$previous" in --save | --model-fit) words="" ;; esac
        ;;
    compare)
        words="--baseline --threshold --csv --html --svg --png --help"
        case "$previous" in --baseline | --csv | --html | --svg | --png) words="" ;; esac
        ;;
    plan)
        words="--model --config --list --tp --pp --dp --cp --ep --order --sp --zero --schedule --chunks --batch"
        words+=" --microbatches --global-batch --seq --dtype --recompute --flash --input --nodes --gpu --peak"
        words+=" --efficiency --memory --constants --search --world --top --format --help"
        case "$previous" in --config | --input | --constants) words="" ;; esac
        ;;
    schedule)
        words="--kind --ranks --microbatches --chunks --group-size --warmup-factor --fifo --forward-only --memory-bound"
        words+=" --import --dialect --compare --list --cost --profile --check --lowered --recompute --tied --format"
        words+=" --output --width --color --ascii --help"
        case "$previous" in --import | --profile | --output) words="" ;; esac
        ;;
    train)
        words="-n --ranks --text --tokens --token-type --validation --seq --model --weights --dtype --device --tf32 --dropout --tp --sp"
        words+=" --pp --dp --ep --schedule --chunks --recompute --zero1 --auto --backend --batch --microbatches"
        words+=" --global-batch --steps --seed --optimizer --lr --warmup --decay --min-lr --weight-decay --beta1 --beta2"
        words+=" --eps --momentum --clip --loss-scale --bucket-mb --save --save-every --keep --resume --validate-every"
        words+=" --validation-batches --describe --json-log --trace --timeline --threads --timeout --debug --help"
        case "$previous" in
        --device) words="cuda cuda:0" ;;
        --model) words="byte-llama tiny-llama byte-gpt2 tiny-gpt2 byte-moe tiny-moe gpt2" ;;
        --text | --tokens | --validation | --weights | --save | --resume | --json-log | --trace | --timeline) words="" ;;
        esac
        ;;
    generate)
        words="-n --ranks --tp --checkpoint --model --dtype --device --seq --prompt --prompt-file --prompt-tokens --tokens"
        words+=" --temperature --greedy --top-k --seed --threads --timeout --help"
        case "$previous" in --checkpoint | --model | --prompt-file) words="" ;; esac
        ;;
    tune)
        words="-n --ranks --backend --ops --sizes --budget --output --fit --constants --svg --predict --calibration --help"
        case "$previous" in --output | --fit | --svg | --calibration) words="" ;; esac
        ;;
    help) words="run info topo flight bench compare plan schedule train generate tune" ;;
    *) words="" ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
    case "${COMP_WORDS[1]} $previous" in
    "flight "* | "topo "* | "compare "* | "plan --config" | "plan --input" | "plan --constants" | "schedule --import" | "schedule --profile" | "schedule --output" | \
        "train --model" | "train --text" | "train --tokens" | "train --validation" | "train --weights" | "train --save" | \
        "train --resume" | "train --json-log" | "train --trace" | "train --timeline" | \
        "generate --checkpoint" | "generate --model" | "generate --prompt-file" | \
        "bench --model-fit" | "tune --output" | "tune --fit" | "tune --svg" | \
        "tune --calibration")
        mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$current")
        ;;
    esac
}

complete -F _kith kith
