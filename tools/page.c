/* tools/page.c - what pages of HTML have in common: head, policy, style and tables. A page is one file that
 * loads nothing.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "draw.h"

static const char page_css[] =
    ":root{--bg:#fff;--fg:#1b2530;--soft:#5f6b77;--line:#d5dce3;--panel:#f6f8fa;--accent:#2f74b5;--warn:#8a5a00;--good:"
    "#1a6b4c;"
    "--nv:#cfe8b0;--pix:#d3eff5;--pxb:#dfeefa;--phb:#fbf3c4;--node:#fde3c8;--sys:#f7cfcf;--unknown:#e3e6ea}\n"
    "@media screen and (prefers-color-scheme:dark){:root{color-scheme:dark;--bg:#14181d;--fg:#e6ebf0;--soft:#9aa6b2;"
    "--line:#39434d;--panel:#1c2229;--accent:#6db3f2;--warn:#e8b64c;--good:#5fd0a3;--nv:#2f4a17;--pix:#123c47;--pxb:#"
    "17324a;"
    "--phb:#443d10;--node:#4d3113;--sys:#5a2226;--unknown:#2c333a}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0;background:var(--bg);color:var(--fg);font:16px/1.5 system-ui,-apple-system,\"Segoe UI\",Roboto,"
    "\"Helvetica Neue\",Arial,sans-serif}\n"
    "main,header,footer{max-width:1280px;margin:0 auto;padding:0 20px}\n"
    "h1{font-size:1.7rem;line-height:1.25;margin:28px 0 4px;overflow-wrap:anywhere}\n"
    "h2{font-size:1.2rem;margin:36px 0 10px;padding-top:4px}\n"
    "h3{font-size:1rem;margin:20px 0 8px}\n"
    "p,li,dt,dd{overflow-wrap:anywhere}dd{margin:0 0 8px 16px}\n"
    ".soft{color:var(--soft)}\n"
    ".facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(130px,1fr));gap:10px;margin:18px 0;padding:0;"
    "list-style:none}\n"
    ".facts li{background:var(--panel);border:1px solid var(--line);border-radius:8px;padding:10px 14px}\n"
    ".facts b{display:block;font-size:1.35rem}\n"
    "nav ul{display:flex;flex-wrap:wrap;gap:4px 16px;padding:0;margin:12px 0;list-style:none}\n"
    "a{color:var(--accent)}\n"
    "a:focus-visible,.scroll:focus-visible{outline:3px solid var(--accent);outline-offset:2px}\n"
    ".scroll{overflow-x:auto;border:1px solid var(--line);border-radius:8px}\n"
    ".picture svg{display:block;width:100%;height:auto;min-width:680px;margin:0 auto}\n"
    ".plots{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,340px),1fr));gap:14px;margin:0 0 "
    "22px}\n"
    ".plot{margin:0;border:1px solid var(--line);border-radius:8px;padding:6px;min-width:0;break-inside:avoid}\n"
    ".plot svg{display:block;width:100%;height:auto}\n"
    ".faster{color:var(--good)}.slower{color:var(--warn)}.faster,.slower{font-weight:600}\n"
    ".scroll+.scroll{margin-top:10px}\n"
    "th.of{border-left:1px solid var(--line)}\n"
    "td{min-width:5.5rem}td.n,.grid td{min-width:0}\n"
    ".picture{margin:0;background:var(--bg)}\n"
    "table{border-collapse:collapse;width:100%;font-size:.9rem;font-variant-numeric:tabular-nums}\n"
    "th,td{padding:6px 12px;text-align:left;border-bottom:1px solid var(--line);vertical-align:top}\n"
    "thead th{background:var(--panel);font-weight:600}\n"
    "thead th,td.n,th.n{white-space:nowrap}\n"
    "td.n,th.n{text-align:right}\n"
    "tbody tr:last-child>*{border-bottom:0}\n"
    ".grid{width:auto}\n"
    ".grid td,.grid th{text-align:center;padding:5px 8px;border:1px solid var(--line);white-space:nowrap}\n"
    ".nv{background:var(--nv)}.pix{background:var(--pix)}.pxb{background:var(--pxb)}.phb{background:var(--phb)}\n"
    ".node{background:var(--node)}.sys{background:var(--sys)}.unknown{background:var(--unknown)}\n"
    ".bad{color:var(--warn);font-weight:600}\n"
    "code{font-family:ui-monospace,\"SF Mono\",Menlo,Consolas,monospace;font-size:.9em}\n"
    "footer{margin:40px auto 28px;color:var(--soft);font-size:.85rem}\n"
    "@media print{body{font-size:10pt}nav{display:none}.scroll{overflow:visible;border:0}"
    ".picture svg{min-width:0}h2,h2+p,h3{break-after:avoid}p,tr,.facts li{break-inside:avoid}"
    ".scroll table{font-size:7.5pt}.scroll th,.scroll td{padding:3px 6px}main,header,footer{max-width:none}}\n";

void ki_page_head(FILE *out, const char *title, const char *generator)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
          out);
    fprintf(out, "<meta name=\"generator\" content=\"%s\">\n<title>", generator);
    ki_text_escape(out, title);
    fputs("</title>\n<style>\n", out);
    fputs(page_css, out);
    ki_style_css(out, ".kith-picture", true);
    fputs("</style>\n</head>\n<body>\n", out);
}

void ki_html_table(FILE *out, const char *label, const char *class_name, const char *const *heads, const char *numeric)
{
    fprintf(out, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"%s\"><table%s%s%s><thead><tr>",
            label, class_name != NULL ? " class=\"" : "", class_name != NULL ? class_name : "",
            class_name != NULL ? "\"" : "");
    for (int i = 0; heads[i] != NULL; i++)
        fprintf(out, "<th scope=\"col\"%s>%s</th>", numeric[i] == 'n' ? " class=\"n\"" : "", heads[i]);
    fputs("</tr></thead><tbody>\n", out);
}

void ki_html_table_end(FILE *out)
{
    fputs("</tbody></table></div>\n", out);
}

void ki_html_cell(FILE *out, const char *text)
{
    fputs("<td>", out);
    ki_text_escape(out, text != NULL ? text : "unknown");
    fputs("</td>", out);
}

void ki_html_number(FILE *out, const char *text)
{
    fputs("<td class=\"n\">", out);
    ki_text_escape(out, text);
    fputs("</td>", out);
}
