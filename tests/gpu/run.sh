#!/usr/bin/env bash
# Everything that needs a real NVIDIA GPU, in one go: builds, runs the tests of simulated GPUs on the card, measures, and
# prints one table. Needs no network; ends within 8 minutes on one card.
#
#     tests/gpu/run.sh [--build DIR] [--no-build] [--deps DIR] [--tests REGEX] [--steps REGEX] [--out FILE] [--seconds N]
#                      [--simulated]
#
#     --build DIR   where it is built, or was; default build/gpu
#     --no-build    DIR holds a build, perhaps one that was made elsewhere and moved here
#     --deps DIR    a prefix with libraries that this machine lacks: include/, lib/ (cmocka, jansson, hwloc, OpenBLAS)
#     --tests REGEX, --steps REGEX
#                   only the tests, only the steps whose names match
#     --out FILE    the table; default DIR/gpu.md
#     --seconds N   all of it ends by then: what takes long is ended, what comes after is left out; default 460
#     --simulated   on the simulated GPU and with tiny sizes: shows that all of this works, times mean nothing
#
# A step that fails, takes too long or lacks something is a row of the table, and the others go on. Exit status: 0, 1 when
# a step failed, 2 wrong usage, 77 when there is no GPU.
#
# SPDX-License-Identifier: BSD-3-Clause
set -u
cd "$(dirname "$0")/../.." || exit 2
export LC_ALL=C

build=build/gpu deps="" tests="" steps="" out="" seconds=460 is_simulated=0 is_built=0 quick=() simulated=()
while [ $# -gt 0 ]; do
    case "$1" in
    --no-build) is_built=1 ;;
    --simulated) is_simulated=1 quick=(--quick) simulated=(--simulated) ;;
    --build | --deps | --tests | --steps | --out | --seconds)
        [ $# -ge 2 ] || { echo "run.sh: $1 needs a value" >&2; exit 2; }
        printf -v "${1#--}" '%s' "$2"
        shift
        ;;
    *)
        sed -n '5,16s/^# \{0,1\}//p' tests/gpu/run.sh >&2
        exit 2
        ;;
    esac
    shift
done
[[ $seconds =~ ^[1-9][0-9]{0,4}$ ]] || { echo "run.sh: --seconds takes 1 to 99999, not $seconds" >&2; exit 2; }

mkdir -p "$build" || exit 2
build="$(cd "$build" && pwd)"
[ -z "$deps" ] || deps="$(cd "$deps" && pwd)" || exit 2
[ -n "$out" ] || out="$build/gpu.md"
rows="$build/gpu-rows.txt" log="$build/gpu.log"
: >"$rows"
: >"$log"
failed=0

# row <part> <what> <measured> <beside> <share>
row() { (IFS=$'\t'; printf '%s\n' "$*") >>"$rows"; }

# is_wanted <step>
is_wanted() { [[ -z $steps || $1 =~ $steps ]]; }

# lacking <step> <what is missing>: no failure of Kith's, but nothing was shown
lacking() {
    is_wanted "$1" || return 0
    printf '%-22s MISSING  %s\n' "$1" "$2"
    row "$1" "not run" "" "" "$2"
    failed=1
}

# left_out <step> <why>: as it should be on this machine
left_out() {
    is_wanted "$1" || return 0
    printf '%-22s left out %s\n' "$1" "$2"
    row "$1" "left out" "" "" "$2"
}

# time_for <limit> <kept>: seconds that a step may take, so that <kept> stay for those that follow
time_for() {
    local left=$((seconds - SECONDS - $2))
    echo $(($1 < left ? $1 : left))
}

# step <name> <seconds> <command...>: rows of its output (lines with tabs) go to the table
step() {
    local name="$1" limit start=$SECONDS status
    limit=$(time_for "$2" 0)
    shift 2
    is_wanted "$name" || return 0
    if [ "$limit" -lt 2 ]; then
        lacking "$name" "no time was left"
        return 1
    fi
    printf '\n==== %s: %s\n' "$name" "$*" >>"$log"
    timeout -k 5 "$limit" "$@" >"$build/gpu-step.txt" 2>&1 </dev/null
    status=$?
    cat "$build/gpu-step.txt" >>"$log"
    grep -P '^[^\t]+\t[^\t]*\t[^\t]*\t[^\t]*\t[^\t]*$' "$build/gpu-step.txt" >>"$rows"
    if [ $status -eq 0 ]; then
        printf '%-22s ok       %d s\n' "$name" $((SECONDS - start))
        return 0
    fi
    if [ $status -eq 77 ]; then
        lacking "$name" "$(tail -n 1 "$build/gpu-step.txt")"
        return 1
    fi
    failed=1
    local why="exit status $status"
    [ $status -ne 124 ] || why="ended after $limit s"
    printf '%-22s FAILED   %s\n' "$name" "$why"
    grep -vP '\t' "$build/gpu-step.txt" | tail -n 12 | sed 's/^/    /'
    row "$name" "FAILED" "" "$why" "$(grep -vP '\t' "$build/gpu-step.txt" | tail -n 1 | cut -c 1-160)"
    return 1
}

# ---- what there is ----

has() { command -v "$1" >/dev/null 2>&1; }
export PATH="$PATH:/usr/local/cuda/bin:/usr/local/nvidia/bin"
if [ -z "${CUDA_HOME:-}" ] && has nvcc; then
    CUDA_HOME="$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")"
fi
export CUDA_HOME="${CUDA_HOME:-/usr/local/cuda}"
export LD_LIBRARY_PATH="$build/lib${deps:+:$deps/lib}:$CUDA_HOME/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export PKG_CONFIG_PATH="${deps:+$deps/lib/pkgconfig:}${PKG_CONFIG_PATH:-}"

if [ $is_simulated -eq 1 ]; then
    export KITH_CUDART_LIBRARY="$build/lib/simgpu/libsimcudart.so" KITH_CUBLAS_LIBRARY="$build/lib/simgpu/libsimcublas.so"
    export KITH_NCCL_LIBRARY="$build/lib/simgpu/libsimnccl.so" KITH_SIMGPU_KERNELS="$build/lib/simgpu/libsimkernels.so"
    export KITH_SIMGPU_DEVICES="${KITH_SIMGPU_DEVICES:-2}"
    cards=$KITH_SIMGPU_DEVICES
    arch=90
elif has nvidia-smi && nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then
    cards=$(nvidia-smi -L | grep -c '^GPU')
    arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d '. ')
elif [ -e /dev/nvidia0 ]; then # without its tools
    cards=$(find /dev -maxdepth 1 -name 'nvidia[0-9]*' | wc -l)
    arch="80;90;100"
else
    echo "run.sh: no NVIDIA GPU here (nvidia-smi lists none); --simulated goes without" >&2
    exit 77
fi

# NCCL that came with a Python package, where the machine has no other: its headers and its library.
nccl_flags=()
if has python3; then
    nccl="$(python3 -c 'import nvidia.nccl as n; print(list(n.__path__)[0])' 2>/dev/null)"
    if [ -e "$nccl/include/nccl.h" ] && [ ! -e /usr/include/nccl.h ] && [ ! -e "$CUDA_HOME/include/nccl.h" ]; then
        nccl_flags=("-DKITH_NCCL_INCLUDE=$nccl/include")
    fi
    if [ -z "${KITH_NCCL_LIBRARY:-}" ] && [ -e "$nccl/lib/libnccl.so.2" ] && [ ! -e "$CUDA_HOME/lib64/libnccl.so.2" ] &&
        ! ldconfig -p 2>/dev/null | grep -q 'libnccl\.so\.2'; then
        export KITH_NCCL_LIBRARY="$nccl/lib/libnccl.so.2"
    fi
fi

# ---- build ----

for tool in cmake cc nvcc python3; do
    has "$tool" || [ $is_built -eq 1 ] || lacking "$tool" "$tool is not on the PATH"
done
if [ $is_built -eq 0 ]; then
    generator=()
    ! has ninja || generator=(-G Ninja)
    prefix=()
    [ -z "$deps" ] || prefix=("-DCMAKE_PREFIX_PATH=$deps")
    step configure 60 cmake -S . -B "$build" "${generator[@]}" "${prefix[@]}" "${nccl_flags[@]}" -DCMAKE_BUILD_TYPE=Release \
        "-DKITH_CUDA_ARCHS=$arch" -DKITH_WITH_BENCH=ON -DKITH_WITH_EXAMPLES=OFF
    step build 240 cmake --build "$build" --parallel "$(nproc)" --target kith_gpu_bench kith_command tests_gpu
fi
bench="$build/bin/kith_gpu_bench" kith="$build/bin/kith"
if [ ! -x "$bench" ]; then
    lacking kith_gpu_bench "it was not built: $(grep -hE 'no kith_gpu_bench|cuda: ' "$log" | head -n 1)"
fi

# ---- tests ----

step card 30 "$bench" "${quick[@]}" card
tests_s=$(time_for 150 150) # what is measured below shall have its time, however long the build took
step tests "$tests_s" python3 tests/gpu/programs.py --build "$build" --devices "$cards" --seconds $((tests_s - 5)) \
    --tests "$tests" "${simulated[@]}"
for dtype in f32 bf16; do
    step "check $dtype" 30 "$bench" "${quick[@]}" check --dtype $dtype
done

# The host is slow beside a card, so both train a small model; a larger one is for the card alone.
small=(--model byte-llama --steps 30) large=(--model gpt2 --seq 1024 --batch 8 --global-batch 16 --steps 12)
if [ $is_simulated -eq 1 ]; then
    small=(--model tiny-llama --steps 2 --seq 16 --global-batch 2)
    large=(--model tiny-gpt2 --steps 2 --seq 16 --global-batch 2)
fi
if [ -x "$kith" ]; then
    step "train f32" 60 tests/gpu/train.sh "$kith" "$build/gpu-train" 0.001 "${small[@]}" -- --dtype f32
    step "train bf16" 60 tests/gpu/train.sh "$kith" "$build/gpu-train" 0.02 "${small[@]}" -- --dtype bf16
    step "train 2 ranks" 60 tests/gpu/train.sh "$kith" "$build/gpu-train" 0.001 "${small[@]}" --ranks 2 --tp 2 -- --dtype f32
    step "train large" 60 tests/gpu/train.sh "$kith" "$build/gpu-train" alone "${large[@]}" -- --dtype bf16
else
    lacking train "the command kith was not built"
fi

# ---- speed ----

for dtype in bf16 f32; do
    step "kernels $dtype" 40 "$bench" "${quick[@]}" kernels --dtype $dtype
    step "products $dtype" 40 "$bench" "${quick[@]}" products --dtype $dtype
done
step "products tf32" 40 "$bench" "${quick[@]}" products --dtype f32 --tf32

# ---- between ranks ----

usable="$("$kith" info 2>/dev/null)"

# is_usable <backend> [variant]: kith info says so
is_usable() { grep -qE "^ *$1 +${2:+$2 +}yes" <<<"$usable"; }

# find_mpirun <variant> <word of its --version> <flags...>: mpirun=(its command), where the module can be used
find_mpirun() {
    local variant="$1" word="$2" command
    shift 2
    is_usable mpi "$variant" || return 1
    for command in "mpirun.$variant" mpirun; do
        if "$command" --version 2>/dev/null | grep -q "$word"; then
            mpirun=("$command" "$@")
            return 0
        fi
    done
    return 1
}

# share_card <backend> <command that starts two ranks...>: what passes through the host between ranks of one card
share_card() {
    local backend="$1"
    shift
    step "$backend, 2 ranks a GPU" 40 "$@" "$bench" "${quick[@]}" --device cuda:0 passing
}

if [ -x "$kith" ] && [ -x "$bench" ]; then
    step "nccl, 1 rank" 40 "$kith" run -n 1 -- "$bench" "${quick[@]}" nccl
    if [ "$cards" -gt 1 ]; then
        step "nccl, $cards ranks" 60 "$kith" run -n "$cards" -- "$bench" "${quick[@]}" nccl
    else
        left_out "nccl, several GPUs" "this machine has one"
    fi
    nccl=$(grep -oE 'NCCL [0-9]+\.[0-9]+' "$rows" | head -n 1 | grep -oE '[0-9.]+$')
    if [ "$(printf '2.30\n%s\n' "${nccl:-0}" | sort -V | head -n 1)" = 2.30 ]; then
        export NCCL_MULTI_RANK_GPU_ENABLE=1
        step "nccl, 2 ranks a GPU" 60 "$kith" run -n 2 -- "$bench" "${quick[@]}" --device cuda:0 nccl
        step "nccl, tests, 2 ranks a GPU" 60 tests/gpu/suites.sh "$build" nccl 2 cuda:0
        unset NCCL_MULTI_RANK_GPU_ENABLE
    else
        left_out "nccl, 2 ranks a GPU" "NCCL ${nccl:-is missing}: 2.30 and later can"
    fi
    share_card shm "$kith" run -n 2 --backend shm --
    if is_usable ucx; then
        share_card ucx "$kith" run -n 2 --backend ucx --
    else
        left_out "ucx, 2 ranks a GPU" "the backend cannot be used here"
    fi
    if find_mpirun openmpi 'Open MPI' --allow-run-as-root --oversubscribe || find_mpirun mpich HYDRA; then
        share_card mpi "${mpirun[@]}" -n 2 env KITH_BACKEND=mpi
    else
        left_out "mpi, 2 ranks a GPU" "the backend cannot be used here, or its mpirun is missing"
    fi
else
    lacking "ranks" "the command kith or kith_gpu_bench was not built"
fi

# ---- the table ----

card=$(sed -n 's/^card\t\([^\t]*\)\t.*sm_.*/\1/p' "$rows" | head -n 1)
{
    printf '%s on %s, %s\n\n' "$([ $is_simulated -eq 0 ] && echo "${card:-GPU}" || echo "simulated, times mean nothing,")" \
        "$(date -u +%Y-%m-%d)" "$(grep -m 1 'model name' /proc/cpuinfo | sed 's/.*: *//')"
    printf '| part | what | measured | beside | share |\n| --- | --- | --- | --- | --- |\n'
    sed -e 's/|/\\|/g' -e 's/\t/ | /g' -e 's/^/| /' -e 's/$/ |/' -e 's/ \{2,\}/ /g' "$rows"
} >"$out"
echo
cat "$out"
printf '\n%d s; table: %s, log: %s\n' "$SECONDS" "$out" "$log"
exit $failed
