#!/bin/bash
# hosts.sh - runs a command on "hosts" that are network namespaces of this machine.
#
#     hosts.sh [-n hosts] [-r ranks per host] [-b rate] [-i interfaces] [-s] -- command...
#     hosts.sh [-n hosts] [-b rate] [-s] -1 -- mpirun.openmpi ... program...
#
# Each host has a network, a name (kith0, kith1, ...), processes, shared memory and IPC of its own; 10.77.0.1, 10.77.0.2, ... are
# joined by a bridge. With -b each host sends at most at that rate (tc's notation: 1gbit). With -i there are more
# interfaces per host (10.78.<i>.<host>), of which every second one leads nowhere. With -s the hosts share memory and
# processes, as a benchmark needs that meets in shared memory; force the transport then (KITH_UCX_TLS=tcp).
#
# The command runs once per rank with torchrun's variables (RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR,
# MASTER_PORT), KITH_HOSTID, KITH_NETNS_HOST and KITH_NETNS_INDEX. With -1 it runs once, on the first host; Open MPI reaches the others
# through agent.sh, and KITH_NETNS_LIST is the argument for its --host.
#
# Exit status: of the first command that failed; 77 when namespaces cannot be made here. Whatever happens, everything that was
# made is removed.
#
# SPDX-License-Identifier: BSD-3-Clause
set -u

hosts=2 ranks=1 rate="" once="" interfaces=0 share=""
while getopts "n:r:b:i:1s" option; do
    case $option in
    n) hosts=$OPTARG ;;
    r) ranks=$OPTARG ;;
    b) rate=$OPTARG ;;
    i) interfaces=$OPTARG ;;
    1) once=1 ;;
    s) share=1 ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || { sed -n '4,5s/^# *//p' "$0" >&2; exit 2; }

skip()
{
    echo "SKIPPED: hosts in network namespaces: $1"
    exit 77
}

folder=$(cd "$(dirname "$0")" && pwd)
prefix=kithns$$
state=$(mktemp -d "${TMPDIR:-/tmp}/$prefix.XXXXXX") || exit 1
made=()

remove()
{
    trap '' EXIT INT TERM HUP
    for namespace in "${made[@]}"; do
        local processes
        processes=$(ip netns pids "$namespace" 2>/dev/null)
        [ -z "$processes" ] || kill -9 $processes 2>/dev/null
        ip netns del "$namespace" 2>/dev/null
        rm -rf "/etc/netns/$namespace"
    done
    rmdir /etc/netns 2>/dev/null
    rm -rf "$state"
}
trap remove EXIT
trap 'exit 143' TERM
trap 'exit 130' INT
trap 'exit 129' HUP

[ "$(id -u)" = 0 ] || skip "needs root"
for tool in ip unshare nsenter; do
    command -v $tool >/dev/null || skip "no $tool command"
done

make_namespace()
{
    ip netns add "$1" 2>"$state/why" || skip "$(cat "$state/why")"
    made+=("$1")
    ip -n "$1" link set lo up || skip "the loopback interface does not come up"
}

# link <host> <name> <address> <bridge or "">: an interface in the host, and its other end at the bridge
link()
{
    local namespace=$prefix-$1 peer=p$1-$2
    ip -n $prefix-sw link add name "$peer" type veth peer name "$2" netns "$namespace" 2>"$state/why" || skip "$(cat "$state/why")"
    [ -z "$4" ] || ip -n $prefix-sw link set dev "$peer" master "$4"
    ip -n $prefix-sw link set dev "$peer" up
    ip -n "$namespace" addr add "$3" dev "$2"
    ip -n "$namespace" link set dev "$2" up
}

make_hosts()
{
    make_namespace $prefix-sw
    ip -n $prefix-sw link add name br type bridge 2>"$state/why" || skip "$(cat "$state/why")"
    ip -n $prefix-sw link set dev br up
    for ((h = 0; h < hosts; h++)); do
        make_namespace $prefix-$h
        mkdir -p /etc/netns/$prefix-$h
        {
            echo "127.0.0.1 localhost"
            for ((o = 0; o < hosts; o++)); do echo "10.77.0.$((o + 1)) kith$o"; done
        } >/etc/netns/$prefix-$h/hosts
        for ((i = 0; i < interfaces; i++)); do # odd ones end at no bridge
            if ((i % 2 == 0)); then
                ip -n $prefix-sw link show dev br$i >/dev/null 2>&1 || {
                    ip -n $prefix-sw link add name br$i type bridge && ip -n $prefix-sw link set dev br$i up
                }
                link $h net$i 10.78.$i.$((h + 1))/24 br$i
            else
                link $h net$i 10.78.$i.1/24 ""
            fi
        done
        link $h kith 10.77.0.$((h + 1))/24 br
        if [ -n "$rate" ]; then
            ip netns exec $prefix-$h tc qdisc add dev kith root tbf rate "$rate" burst 256kb latency 50ms ||
                skip "tc cannot limit the rate"
        fi
    done
}

# An init process per host holds its other namespaces; on_host enters them.
start_host()
{
    local apart="--ipc --pid --fork --mount-proc --kill-child" own="mount -t tmpfs tmpfs /dev/shm &&"
    [ -z "$share" ] || apart="" own=""
    # shellcheck disable=SC2086
    ip netns exec $prefix-$1 unshare --uts $apart \
        bash -c "hostname kith$1 && $own : >'$state/up$1' && exec sleep infinity" &
    disown # not one of the commands that are waited for
    for ((wait = 0; wait < 100; wait++)); do
        [ -e "$state/up$1" ] && break
        sleep 0.05
    done
    [ -e "$state/up$1" ] || skip "a host does not start"
    # the init is the only process whose parent is unshare
    local init
    init=$(ip netns pids $prefix-$1 | while read -r process; do
        [ "$(cat "/proc/$process/comm" 2>/dev/null)" = sleep ] && echo "$process"
    done | head -n 1)
    [ -n "$init" ] || skip "a host does not start"
    echo "$init" >"$state/kith$1"
    cp "$state/kith$1" "$state/10.77.0.$(($1 + 1))"
}

make_hosts
echo "-n -u -m $([ -n "$share" ] || echo "-i -p")" >"$state/enter"
export KITH_NETNS_STATE=$state
for ((h = 0; h < hosts; h++)); do start_host $h; done

if [ -n "$once" ]; then
    list=""
    for ((h = 0; h < hosts; h++)); do list+="${list:+,}10.77.0.$((h + 1)):$ranks"; done
    # only the network and the name of the first host: the launcher must see the processes of all
    KITH_NETNS_LIST=$list nsenter -t "$(cat "$state/kith0")" -n -u -- "$@" &
    wait $!
    exit $?
fi

export WORLD_SIZE=$((hosts * ranks)) LOCAL_WORLD_SIZE=$ranks MASTER_ADDR=10.77.0.1 MASTER_PORT=${MASTER_PORT:-29577}
pids=()
for ((h = 0; h < hosts; h++)); do
    for ((l = 0; l < ranks; l++)); do
        RANK=$((h * ranks + l)) LOCAL_RANK=$l KITH_HOSTID=kith$h KITH_NETNS_HOST=kith$h KITH_NETNS_INDEX=$h \
            "$folder/agent.sh" -e kith$h "$@" &
        pids+=($!)
    done
done
# kill the others when one fails: they may wait for it forever
status=0
for ((left = ${#pids[@]}; left > 0; left--)); do
    wait -n
    code=$?
    if [ $code -ne 0 ] && [ $status -eq 0 ]; then
        status=$code
        sleep 2
        kill "${pids[@]}" 2>/dev/null
    fi
done
exit $status
