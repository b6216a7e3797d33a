#!/usr/bin/env bash
# --output of all subcommands that have it: a file that is there stays as it is until the new one is whole.
#
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 1

page=(schedule --kind 1f1b --ranks 4 --microbatches 64 --format html)
mkdir folder && cd folder || exit 1

# limited COMMAND...: files end at 1 KiB, as on a disk that is full
limited() {
    (
        trap '' XFSZ
        ulimit -f 1
        exec "$@"
    ) >"$work/out" 2>"$work/err" </dev/null
    status=$?
}

only_files_are() { [ "$(ls -A | sort | tr '\n' ' ')" = "$1" ]; }
file_is() { [ "$(cat "$1")" = "$2" ]; }
mode_is() { [ "$(stat -c %a "$1")" = "$2" ]; }

echo old >page.html
limited "$kith" "${page[@]}" --output page.html
check "a disk that is full is a failure" status_is 2
check "it says so" err_has "cannot write page.html"
check "the old file is as it was" file_is page.html old
check "nothing else is left" only_files_are "page.html "
limited "$kith" "${page[@]}" --output new.html
check "a new file that cannot be whole is not there" only_files_are "page.html "
limited "$kith" topo --format html --output page.html "$KITH_SOURCE_DIR/tests/topology/fixtures/nccl-mesh.xml"
check "kith topo leaves the old file too" file_is page.html old

# modes, links
(umask 027 && "$kith" "${page[@]}" --output new.html)
check "a new file has the mode that the mask gives" mode_is new.html 640
chmod 604 page.html
succeeds "$kith" "${page[@]}" --output page.html
check "an old file keeps its mode" mode_is page.html 604
check "and has the new page" grep -q "</html>" page.html
rm new.html
ln -s page.html link.html
echo old >page.html
succeeds "$kith" "${page[@]}" --output link.html
check "a link stays a link" test -L link.html
check "and what it names is written" grep -q "</html>" page.html
ln -s nowhere.html loose.html
succeeds "$kith" "${page[@]}" --output loose.html
check "a link to nothing makes what it names" grep -q "</html>" nowhere.html
rm loose.html nowhere.html link.html
ln page.html twin.html
succeeds "$kith" schedule --kind gpipe --ranks 2 --microbatches 2 --output page.html
check "two names stay names of one file" cmp -s page.html twin.html
check "nothing is left beside them" only_files_are "page.html twin.html "

# what is no file
mkfifo pipe
cat pipe >"$work/piped" &
succeeds "$kith" "${page[@]}" --output pipe
wait $!
check "a pipe stays a pipe" test -p pipe
check "and gets the page" grep -q "</html>" "$work/piped"
run "$kith" "${page[@]}" --output /dev/stdout
check "/dev/stdout" out_has "</html>"
[ -e /dev/full ] && fails 2 "cannot write /dev/full" "$kith" "${page[@]}" --output /dev/full
fails 2 "No such file" "$kith" "${page[@]}" --output nowhere/page.html
fails 2 "name of the file is empty" "$kith" "${page[@]}" --output ""
fails 2 "name of the file is empty" "$kith" topo --output "" x
finish
