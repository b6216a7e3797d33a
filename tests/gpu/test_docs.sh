#!/usr/bin/env bash
# The commands of the documents for machines with GPUs, on 8 simulated ones: those of docs/gpu.md, docs/train.md, README.md
# and tests/simgpu/README.md, word by word, with a text for FILE and a trainer without a device of its own for
# ./my_trainer. The trainer takes a step, kith train describes; of launchers that are not here, srun and torchrun, the
# environment is set.
#
# SPDX-License-Identifier: BSD-3-Clause
set -u
folder="$(mktemp -d)" || exit 1
trap 'rm -rf "$folder"' EXIT
export PATH="$folder:$KITH_BUILD_DIR/bin:$PATH" KITH_SIMGPU_DEVICES=8
cd "$KITH_SOURCE_DIR" || exit 1
failed=0 count=0
wanted='^ +cuda +yes +8 devices|cuda:0, Simulated GPU' # that kith info or a trainer says

# ranks <number> <names and values of a rank, %r for it...> -- <command...>: as a launcher sets them
cat >"$folder/ranks" <<'END'
#!/usr/bin/env bash
ranks="$1" status=0 set=()
shift
while [ "$1" != -- ]; do set+=("$1"); shift; done
shift
for ((r = 0; r < ranks; r++)); do
    env "${set[@]//%r/$r}" "$@" &
done
for ((r = 0; r < ranks; r++)); do
    wait -n || status=1
done
exit $status
END
cat >"$folder/srun" <<'END'
#!/usr/bin/env bash
[ "$1" = -n ] || exit 2
ranks="$2"
shift 2
exec ranks "$ranks" SLURM_JOB_ID=$$ SLURM_STEP_ID=0 SLURM_NTASKS="$ranks" SLURM_NNODES=1 SLURM_STEP_NUM_NODES=1 SLURM_PROCID=%r \
    SLURM_LOCALID=%r -- "$@"
END
cat >"$folder/torchrun" <<'END'
#!/usr/bin/env bash
[ "$1 $2" = "--no-python --nproc-per-node" ] || exit 2
ranks="$3"
shift 3
exec ranks "$ranks" RANK=%r LOCAL_RANK=%r WORLD_SIZE="$ranks" LOCAL_WORLD_SIZE="$ranks" MASTER_ADDR=127.0.0.1 \
    MASTER_PORT=$((20000 + $$ % 10000)) -- "$@"
END
cat >"$folder/trainer" <<'END'
#!/usr/bin/env bash
exec kith train --model tiny-llama --tp 2 --dp 4 --text ARCHITECTURE.md --seq 16 --global-batch 4 --steps 1 --validation-batches 0
END
chmod +x "$folder"/*
mpirun="$(command -v mpirun.openmpi || true)"

# try <a line of a document>
try() {
    local line="${1%%#*}" said
    line="${line//FILE/ARCHITECTURE.md}"
    line="${line//.\/my_trainer/trainer}"
    [[ $line != *"kith train"* || $line == *--describe* ]] || line+=" --describe"
    if [[ $line == *mpirun* ]]; then
        [ -n "$mpirun" ] || return 0 # the documents' mpirun is any; here it is Open MPI's
        line="${line/mpirun/$mpirun --allow-run-as-root --oversubscribe}"
    fi
    count=$((count + 1))
    if ! said="$(timeout 60 bash -c "$line" 2>&1 </dev/null)" || ! grep -qE "$wanted" <<<"$said"; then
        printf 'FAILED: %s\n%s\n' "$line" "$said"
        failed=1
    fi
}

lines='^    (KITH_DEVICE=[^ ]+ )?(kith (info|run|train -n 8 --device)|mpirun|srun|torchrun) '
while IFS= read -r line; do
    try "$line"
done < <(grep -hE "$lines" docs/gpu.md docs/train.md README.md tests/simgpu/README.md | grep -E 'cuda|kith info' |
    grep -v 'two machines' | sed -E 's/^    //; s/   +.*$//' | sort -u)
echo "$count commands"
[ "$count" -ge 10 ] || failed=1
exit $failed
