# tests/tools/browser.sh - a page of the command in headless Chromium. Sourced after lib.sh, not run.
#
# check_page NAME looks at $work/page.html: nothing is reported on its console, nothing runs, it is not blank, it fits a narrow
# window, what is wide can be scrolled with the keyboard, its links lead somewhere, it is dark for readers who want that, it
# prints. A page beside it measures: it shows the report in a frame of 400 points and writes what it finds into its own
# title, which the browser prints.
#
# SPDX-License-Identifier: BSD-3-Clause
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || {
    echo "SKIPPED: chromium is not installed"
    exit 77
}

browse() {
    HOME=$work timeout -k 5 60 "$browser" --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \
        --disable-extensions --hide-scrollbars --allow-file-access-from-files --user-data-dir="$work/profile" \
        --enable-logging=stderr --virtual-time-budget=4000 "$@" 2>"$work/log"
}

measure() {
    cat >"$work/measure.html" <<'PAGE'
<!DOCTYPE html><title>waiting</title><iframe src="page.html" width="400" height="800" style="border:0"></iframe>
<script>
addEventListener("load", () => {
    const d = document.querySelector("iframe").contentDocument, w = d.defaultView;
    const wide = [...d.querySelectorAll("*")].filter(e => e.scrollWidth > e.clientWidth + 1 &&
        w.getComputedStyle(e).overflowX === "auto");
    document.title = [
        "width=" + w.innerWidth,
        "overflow=" + (d.documentElement.scrollWidth > w.innerWidth),
        "scripts=" + d.scripts.length,
        "images=" + d.images.length,
        "handlers=" + d.querySelectorAll("[onerror],[onload],[onclick]").length,
        "unreachable=" + wide.filter(e => e.tabIndex < 0).length,
        "frames=" + wide.length,
        "texts=" + d.querySelectorAll("svg text").length,
        "headings=" + d.querySelectorAll("h2").length,
        "links=" + [...d.querySelectorAll("nav a")].filter(a => !d.querySelector(a.getAttribute("href"))).length,
        "owned=" + (d.title === "owned"),
        "background=" + w.getComputedStyle(d.body).backgroundColor.replace(/ /g, ""),
    ].join(" ");
});
</script>
PAGE
    found=$(browse "$@" --dump-dom "file://$work/measure.html" | grep -oE '<title>[^<]*' | head -n 1)
    cp "$work/log" "$work/err"
    echo "$found" >"$work/out"
}

no_console() { ! grep -q CONSOLE "$work/log"; }
nbytes() { wc -c <"$1"; }

echo '<!DOCTYPE html><title>blank</title>' >"$work/blank.html"
browse --window-size=1200,900 --screenshot="$work/blank.png" "file://$work/blank.html" >/dev/null
[ -s "$work/blank.png" ] || {
    echo "SKIPPED: chromium does not work here"
    tail -n 5 "$work/log"
    exit 77
}

check_page() {
    local name=$1 wanted
    browse --window-size=1200,900 --screenshot="$work/page.png" "file://$work/page.html" >/dev/null
    check "$name: no message on the console" no_console
    check "$name: not blank" test "$(nbytes "$work/page.png")" -gt $((4 * $(nbytes "$work/blank.png")))
    measure
    check "$name: no message on the console of a narrow window" no_console
    for wanted in width=400 overflow=false scripts=0 images=0 handlers=0 unreachable=0 links=0 owned=false \
        "background=rgb(255,255,255)"; do
        check "$name: $wanted" out_has "$wanted"
    done
    check "$name: the picture has texts" sh -c "! grep -q 'texts=0 ' '$work/out'"
    measure --blink-settings=preferredColorScheme=0
    check "$name: dark" out_has "background=rgb(20,24,29)"
    browse --no-pdf-header-footer --print-to-pdf="$work/page.pdf" "file://$work/page.html" >/dev/null
    check "$name: prints" test "$(head -c 5 "$work/page.pdf")" = %PDF-
}
