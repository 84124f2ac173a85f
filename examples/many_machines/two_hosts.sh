#!/usr/bin/env bash
# Shows the examples run on two machines, with desktops of their own, and one report. Root on Linux only:
#
#     [PYTHON=…] examples/many_machines/two_hosts.sh --html=report.html --self-contained-html [-k sign_in …]
#
# The machines are network namespaces, each with its own sshd and key, host name, processes, /run, /tmp and checkout.
# They lie in namespaces of this script's own: whatever ends it, Ctrl-C or kill -9, nothing is left of them.
set -euo pipefail

project=$(cd "$(dirname "$0")/../.." && pwd)
python=$(command -v "${PYTHON:-python}")
hosts=/run/hosts

start_host() { # name, number of its network
    ip netns add "$1"
    ip link add "to-$1" type veth peer name eth0 netns "$1"
    ip address add "10.0.$2.1/24" dev "to-$1"
    ip link set "to-$1" up
    ip -n "$1" address add "10.0.$2.2/24" dev eth0
    ip -n "$1" link set eth0 up
    ip -n "$1" link set lo up
    ssh-keygen -q -t ed25519 -N "" -f "$hosts/$1"
    introduce "$1" "10.0.$2.2"
    setsid ip netns exec "$1" unshare --mount --uts --pid --fork --kill-child --mount-proc "$0" be-host "$1" &
}

introduce() { # name, address
    printf 'Host %s\n  HostName %s\n' "$1" "$2" >>"$hosts/ssh_config"
    printf '%s %s\n' "$2" "$(<"$hosts/$1.pub")" >>"$hosts/known_hosts"
}

be_host() { # name
    hostname "$1"
    mkdir "$hosts/$1.tmp" && mount -t tmpfs tmpfs "$hosts/$1.tmp"
    mkdir "$hosts/$1.tmp/checkout"
    cp -r "$project"/{pytest_vnc_use,examples,pyproject.toml} "$hosts/$1.tmp/checkout"
    keep_in_sight "$("$python" -c 'import sys; print(sys.prefix)')" "$hosts/$1.tmp"
    mount --move "$hosts/$1.tmp" /tmp
    sed 's|^root:.*|root:*:0:0::/tmp:/bin/sh|' /etc/passwd >/tmp/passwd && mount --bind /tmp/passwd /etc/passwd
    exec /usr/sbin/sshd -D -f /dev/null -h "$hosts/$1" -o AuthorizedKeysFile="$hosts/key.pub" -o PidFile=none -E /tmp/sshd.log
}

keep_in_sight() { # a directory, what is to be /tmp
    [[ $1 == /tmp/* ]] || return 0
    mkdir -p "$2${1#/tmp}" && mount --bind "$1" "$2${1#/tmp}"
}

test_on() { # names
    local workers=()
    for name in "$@"; do
        workers+=(--tx "ssh=$name//ssh_config=$hosts/ssh_config//python=$python//chdir=/tmp/checkout")
    done
    "$python" -m pytest -p no:rerunfailures -o testpaths=examples --vnc-server=xvnc --dist=load "${workers[@]}" "${options[@]}"
}

case ${1:-} in
be-host) be_host "$2" ;;
be-network)
    shift
    options=("$@")
    ip link set lo up
    mount -t tmpfs -o mode=755 tmpfs /run
    mkdir /run/sshd $hosts
    ssh-keygen -q -t ed25519 -N "" -f $hosts/key
    printf '%s\n' "User root" "IdentityFile $hosts/key" "UserKnownHostsFile $hosts/known_hosts" \
        "ConnectionAttempts 30" "BatchMode yes" >$hosts/ssh_config
    start_host one 1
    start_host two 2
    cd "$project"
    test_on one two
    ;;
*) setpriv --pdeathsig KILL unshare --mount --net --pid --fork --kill-child --mount-proc "$0" be-network "$@" ;;
esac
