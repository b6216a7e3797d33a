/* tools/draw_style.c - colours, lines and fonts, once for SVG, PNG, PDF and the page.
 *
 * The colours of groups can be told apart by readers who do not see all colours, and in grey their outlines stay dark
 * enough to print; every coloured box also says its group in words.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "draw.h"

static const ki_style_look looks[KI_STYLE_COUNT] = {
    [KI_STYLE_PAGE] = { "page", 0xffffff, 0xffffff, 0x14181d, 0x14181d, 0, 0, 0, 0, false, false },
    [KI_STYLE_NODE] = { "node", 0xfbfcfd, 0xaab4be, 0x1a2027, 0x5b6773, 1.2, 0, 10, 0, false, false },
    [KI_STYLE_PACKAGE] = { "package", 0xf1f4f7, 0xc3ccd5, 0x20272f, 0x4a5560, 1, 0, 8, 0, false, false },
    [KI_STYLE_NUMA] = { "numa", 0xffffff, 0xc3ccd5, 0x171c22, 0x4a5560, 1, 0, 7, 0, false, false },
    [KI_STYLE_PCI] = { "pci", 0xf4f1ea, 0xc9bda3, 0x262420, 0x6b624f, 1, 0, 6, 0, false, false },
    [KI_STYLE_PCI_INFERRED] = { "pci-inferred", 0xf8f6f1, 0xc9bda3, 0x22211e, 0x6b624f, 1, 4, 6, 0, false, false },
    [KI_STYLE_GPU] = { "gpu", 0xe9edf1, 0x7d8a97, 0x2c343d, 0x7d8a97, 1.4, 0, 5, 0, false, false },
    [KI_STYLE_GPU_OFF] = { "gpu-off", 0xf0f1f2, 0xa9b0b7, 0x262b31, 0x5d656d, 1, 3, 5, 0, false, false },
    [KI_STYLE_NIC] = { "nic", 0xffffff, 0x8797a8, 0x1b222a, 0x6c7b8b, 1, 0, 11, 0, false, false },
    [KI_STYLE_NVSWITCH] = { "nvswitch", 0xe4efd6, 0x76a340, 0x263318, 0x7fae48, 1.2, 0, 6, 0, false, false },
    [KI_STYLE_SWITCH] = { "switch", 0xf4f6f8, 0xb4bec8, 0x1e252c, 0x515d69, 1, 0, 7, 0, false, false },
    [KI_STYLE_PILL] = { "pill", 0xfff3d6, 0xd9a520, 0x3a2f12, 0xb98d1c, 1, 0, 10, 0, false, false },
    [KI_STYLE_LANE] = { "lane", 0xeef1f4, 0xeef1f4, 0x20272f, 0x20272f, 0, 0, 0, 0, false, false },
    [KI_STYLE_F] = { "f", 0x2f6db5, 0xffffff, 0x3a7bc8, 0x14181d, 0.6, 0, 0, 0, false, false },
    [KI_STYLE_F_ALT] = { "f-alt", 0xa9c9ee, 0xffffff, 0x9cc2ec, 0x14181d, 0.6, 0, 0, 0, false, false },
    [KI_STYLE_B] = { "b", 0x2a8a57, 0xffffff, 0x2f9a62, 0x14181d, 0.6, 0, 0, 0, false, false },
    [KI_STYLE_B_ALT] = { "b-alt", 0xa5dcbd, 0xffffff, 0x97d6b2, 0x14181d, 0.6, 0, 0, 0, false, false },
    [KI_STYLE_I] = { "i", 0x0f7f8f, 0xffffff, 0x178fa0, 0x14181d, 0.6, 0, 0, 0, false, false },
    [KI_STYLE_I_ALT] = { "i-alt", 0x9fdbe3, 0xffffff, 0x92d4dd, 0x14181d, 0.6, 0, 0, 0, false, false },
    [KI_STYLE_W] = { "w", 0xb8651b, 0xffffff, 0xc9752a, 0x14181d, 0.6, 0, 0, 0, false, false },
    [KI_STYLE_W_ALT] = { "w-alt", 0xf4cfa3, 0xffffff, 0xefc594, 0x14181d, 0.6, 0, 0, 0, false, false },
    [KI_STYLE_RECOMPUTE] = { "recompute", 0x7b5fc0, 0xffffff, 0x8b70cf, 0x14181d, 0.6, 0, 0, 0, false, false },
    [KI_STYLE_BAR] = { "bar", 0xe9edf1, 0x7d8a97, 0x2c343d, 0x7d8a97, 1, 0, 2, 0, false, false },
    [KI_STYLE_MARK] = { "mark", 0xe9edf1, 0x7d8a97, 0x2c343d, 0x7d8a97, 1.2, 0, 10, 0, false, false },
    [KI_STYLE_HEAT] = { "heat", 0xe2eef8, 0xffffff, 0x1b2f42, 0x14181d, 0.6, 0, 0, 0, false, false },
    [KI_STYLE_NVLINK] = { "nvlink", 0, 0x76a340, 0, 0x7fae48, 1.4, 0, 0, 0, false, true },
    [KI_STYLE_STUB] = { "stub", 0, 0x76a340, 0, 0x7fae48, 2.4, 0, 0, 0, false, true },
    [KI_STYLE_WORST] = { "worst", 0, 0xd0202e, 0, 0xff6b6b, 3.2, 0, 0, 0, false, true },
    [KI_STYLE_WORST_PCI] = { "worst-pci", 0, 0xd0202e, 0, 0xff6b6b, 3.2, 7, 0, 0, false, true },
    [KI_STYLE_SOCKET] = { "socket", 0, 0x8797a8, 0, 0x6c7b8b, 3, 0, 0, 0, false, true },
    [KI_STYLE_AXIS] = { "axis", 0, 0x9aa6b2, 0, 0x5f6b77, 0.7, 0, 0, 0, false, true },
    [KI_STYLE_GRID] = { "grid", 0, 0xe3e8ed, 0, 0x2c343d, 0.7, 0, 0, 0, false, true },
    [KI_STYLE_CURVE] = { "curve", 0, 0x7d8a97, 0, 0x7d8a97, 1.7, 0, 0, 0, false, true },
    [KI_STYLE_CURVE_DASHED] = { "curve-dashed", 0, 0x7d8a97, 0, 0x7d8a97, 1.7, 6, 0, 0, false, true },
    [KI_STYLE_CURVE_DOTTED] = { "curve-dotted", 0, 0x7d8a97, 0, 0x7d8a97, 1.7, 2.5, 0, 0, false, true },
    [KI_STYLE_WHISKER] = { "whisker", 0, 0x7d8a97, 0, 0x7d8a97, 1, 0, 0, 0, false, true },
    [KI_STYLE_TITLE] = { "title", 0x18222c, 0, 0xf2f5f8, 0, 0, 0, 0, 20, true, false },
    [KI_STYLE_HEADING] = { "heading", 0x18222c, 0, 0xf2f5f8, 0, 0, 0, 0, 13, true, false },
    [KI_STYLE_TEXT] = { "text", 0x33404d, 0, 0xc9d2db, 0, 0, 0, 0, 11, false, false },
    [KI_STYLE_STRONG] = { "strong", 0x18222c, 0, 0xf2f5f8, 0, 0, 0, 0, 12, true, false },
    [KI_STYLE_SMALL] = { "small", 0x33404d, 0, 0xc9d2db, 0, 0, 0, 0, 9.5, false, false },
    [KI_STYLE_FAINT] = { "faint", 0x5f6b77, 0, 0x9aa6b2, 0, 0, 0, 0, 9.5, false, false },
    [KI_STYLE_LINK_LABEL] = { "link-label", 0x4a6b22, 0, 0xa9d672, 0, 0, 0, 0, 9.5, true, false },
    [KI_STYLE_WORST_LABEL] = { "worst-label", 0xb01825, 0, 0xff8f8f, 0, 0, 0, 0, 11, true, false },
    [KI_STYLE_ON_DARK] = { "on-dark", 0xffffff, 0, 0xffffff, 0, 0, 0, 0, 9.5, true, false },
    [KI_STYLE_ON_LIGHT] = { "on-light", 0x18222c, 0, 0x101418, 0, 0, 0, 0, 9.5, false, false },
    [KI_STYLE_HEAT_TEXT] = { "heat-text", 0x18222c, 0, 0xf2f5f8, 0, 0, 0, 0, 9.5, false, false },
};

/* fill, stroke, dark fill, dark stroke */
static const unsigned groups[KI_GROUP_COLOURS][4] = {
    { 0xd6e6f7, 0x2f74b5, 0x16324d, 0x5aa0e0 }, /* blue */
    { 0xfde3c8, 0xd9771a, 0x4a2e10, 0xf0a050 }, /* orange */
    { 0xd5efe3, 0x1d8f68, 0x113a2c, 0x45c296 }, /* green */
    { 0xf3daea, 0xb04a8b, 0x43203a, 0xdb7fba }, /* rose */
    { 0xfbf3c4, 0xa89012, 0x3c360f, 0xdcc447 }, /* yellow */
    { 0xd3eff5, 0x2193ab, 0x103741, 0x4fc3da }, /* cyan */
    { 0xe5defa, 0x6f52c4, 0x2d2452, 0xa48bf0 }, /* violet */
    { 0xf0e0d3, 0x8a5a34, 0x3a281a, 0xc4936b }, /* brown */
    { 0xe2ecc9, 0x6d8c1f, 0x2c380f, 0xa5c651 }, /* olive */
    { 0xe3e6ea, 0x59656f, 0x2c333a, 0x9aa7b3 }, /* grey */
};

/* fill, text on it, dark fill, dark text: one hue, so that order is seen without colours, too */
static const unsigned ramp[KI_RAMP_COLOURS][4] = {
    { 0xe2eef8, 0x18222c, 0x1b2f42, 0xf2f5f8 }, { 0xc8dff1, 0x18222c, 0x1f4059, 0xf2f5f8 },
    { 0xa3c9e6, 0x18222c, 0x235475, 0xf2f5f8 }, { 0x78b0d8, 0x18222c, 0x2a6b97, 0xf2f5f8 },
    { 0x4f94c6, 0x101418, 0x3d8abb, 0x101418 }, { 0x2d77b2, 0xffffff, 0x63aadb, 0x101418 },
    { 0x185a94, 0xffffff, 0x98cbf0, 0x101418 }, { 0x0a3c6b, 0xffffff, 0xd3ebfd, 0x101418 },
};

const ki_style_look *ki_style_look_of(ki_style style)
{
    return &looks[style];
}

bool ki_style_has_ramp(ki_style style)
{
    return style == KI_STYLE_HEAT || style == KI_STYLE_HEAT_TEXT;
}

void ki_style_colours(ki_style style, int group, bool is_dark, unsigned *fill, unsigned *stroke)
{
    const ki_style_look *look = &looks[style];
    *fill = is_dark ? look->dark_fill : look->fill;
    *stroke = is_dark ? look->dark_stroke : look->stroke;
    if (group >= 0 && ki_style_has_ramp(style))
        *fill = ramp[group % KI_RAMP_COLOURS][(is_dark ? 2 : 0) + (style == KI_STYLE_HEAT_TEXT)];
    else if (group >= 0) {
        *fill = groups[group % KI_GROUP_COLOURS][is_dark ? 2 : 0];
        *stroke = groups[group % KI_GROUP_COLOURS][is_dark ? 3 : 1];
    }
}

static void css_colours(FILE *out, const char *scope, bool is_dark)
{
    for (int i = 0; i < KI_STYLE_COUNT; i++) {
        const ki_style_look *look = &looks[i];
        unsigned fill, stroke;
        ki_style_colours((ki_style)i, -1, is_dark, &fill, &stroke);
        if (look->font > 0)
            fprintf(out, "%s .%s{fill:#%06x}\n", scope, look->class_name, fill);
        else if (look->is_hollow)
            fprintf(out, "%s .%s{stroke:#%06x}\n", scope, look->class_name, stroke);
        else
            fprintf(out, "%s .%s{fill:#%06x;stroke:#%06x}\n", scope, look->class_name, fill, stroke);
    }
    fprintf(out, "%s text{stroke:#%06x}\n", scope,
            is_dark ? looks[KI_STYLE_NODE].dark_fill : looks[KI_STYLE_NODE].fill);
    for (int i = 0; i < KI_GROUP_COLOURS; i++) {
        unsigned fill, stroke;
        ki_style_colours(KI_STYLE_GPU, i, is_dark, &fill, &stroke);
        fprintf(out, "%s .g%d{fill:#%06x;stroke:#%06x}\n%s .c%d{stroke:#%06x}\n", scope, i, fill, stroke, scope, i,
                stroke); /* c: of lines, which have nothing to fill */
    }
    for (int i = 0; i < KI_RAMP_COLOURS; i++) {
        unsigned fill, text, unused;
        ki_style_colours(KI_STYLE_HEAT, i, is_dark, &fill, &unused);
        ki_style_colours(KI_STYLE_HEAT_TEXT, i, is_dark, &text, &unused);
        fprintf(out, "%s .heat.r%d{fill:#%06x}\n%s .heat-text.r%d{fill:#%06x}\n", scope, i, fill, scope, i, text);
    }
}

void ki_style_css(FILE *out, const char *scope, bool has_dark)
{
    fprintf(out,
            "%s text{font-family:\"Helvetica Neue\",Helvetica,Arial,\"Liberation Sans\",\"DejaVu Sans\",sans-serif;"
            "paint-order:stroke;stroke-width:0}\n"
            "%s path,%s line{fill:none;stroke-linecap:round}\n",
            scope, scope, scope);
    for (int i = 0; i < KI_STYLE_COUNT; i++) {
        const ki_style_look *look = &looks[i];
        if (look->font > 0)
            fprintf(out, "%s .%s{font-size:%gpx%s}\n", scope, look->class_name, look->font,
                    look->is_bold ? ";font-weight:700" : "");
        else if (look->dash > 0)
            fprintf(out, "%s .%s{stroke-width:%g;stroke-dasharray:%g}\n", scope, look->class_name, look->line,
                    look->dash);
        else
            fprintf(out, "%s .%s{stroke-width:%g}\n", scope, look->class_name, look->line);
    }
    /* A rim in the colour of the ground keeps labels readable on lines. */
    fprintf(out, "%s .link-label,%s .worst-label{stroke-width:4}\n", scope, scope);
    css_colours(out, scope, false);
    if (!has_dark)
        return;
    fputs("@media screen and (prefers-color-scheme:dark){\n", out);
    css_colours(out, scope, true);
    fputs("}\n", out);
}
