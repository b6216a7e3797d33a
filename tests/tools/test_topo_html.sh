#!/usr/bin/env bash
# The page of kith topo in a browser.
#
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/lib.sh"
. "$here/browser.sh"
cd "$here/fixtures/topo" || exit 1

for machine in cube hostile cpus; do
    succeeds "$kith" topo --format html --output "$work/page.html" $machine.json
    check_page $machine
done
finish
