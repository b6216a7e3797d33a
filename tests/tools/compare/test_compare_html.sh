#!/usr/bin/env bash
# The page of kith compare in a browser: several machines, one of whose files tries to be markup in every name.
#
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/../lib.sh"
. "$here/compare/lib.sh"
. "$here/browser.sh"
cd "$work" || exit 1
make_machines
make_peers peers.json
sed -i "s|\"mpich/raw\"|\"<b onclick=owned()>/raw\"|" peers.json
sed -i "s/--save/--sizes $(seq -s, 1024 1054) --save/" gpu.json # a word that is wider than a narrow window

evil='<script>document.title=\\"owned\\"</script><img src=x onerror=owned()>\\u0026lt;\\u202e'
sed -e "s|\"ucx\"|\"$evil\"|g; s|\"EPYC 9354\"|\"$evil\"|; s|\"node1\"|\"$evil\"|; s|\"all_gather\"|\"$evil\"|g" \
    -e "s|kith bench|$evil|; s|no InfiniBand device|$evil|; s|\"cma\"|\"$evil\"|g" node.json >"<script>owned()<!--.json"
succeeds "$kith" compare "<script>owned()<!--.json" later.json gpu.json peers.json --threshold 2000 --html page.html --svg pictures
check_page machines
for part in peers means curves bars pairs tables machines method; do
    check "has $part" grep -q "id=\"$part\"" page.html
    check "leads to $part" grep -q "href=\"#$part\"" page.html
done
check "says what machines are" grep -q '<td>Xeon 8480+</td>' page.html
check "versions" grep -q '<td>shm 0.2.0, ucx 1.17.0</td>' page.html
check "commands" grep -q '<code>kith bench all_reduce,broadcast -n 2,8 --sizes 1024,' page.html
check "a link that is not there" grep -q '<td>rc</td><td>no InfiniBand device</td>' page.html
check "peers: best in bold, ratios" grep -q '<th scope="row" class="n">8 B</th><td>far</td><td class="n">1 us</td><td class="n faster">4</td>' page.html
check "peers: names are nothing but text" grep -q '&lt;b onclick=owned()&gt;' page.html
check "ratios have marks" grep -qE '<td class="n slower"[^>]*>0\.[0-9]+ \(&minus;\)</td>' page.html
check "no address to load from" sh -c "! grep -qiE '(src|href)=\"[^#]|url\(|@import' page.html"
check "names are there" grep -q '&lt;script&gt;document.title=&quot;owned&quot;&lt;/script&gt;' page.html
check "names are nothing but text" sh -c "! grep -qi '<script\|<img\|<!--' page.html"
check "pictures have plain names" test -z "$(ls pictures | grep -vE '^[a-z0-9_-]+\.svg$')"
check "names in pictures are nothing but text" sh -c "! grep -qi '<script\|<img\|<!--' pictures/*"
finish
