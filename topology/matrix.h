/* topology/matrix.h - what the steps of reading `nvidia-smi topo -m` share.
 *
 * The text goes through these steps; each is one file:
 *
 *     matrix_clean.c     bytes to lines: escape sequences, odd blanks and line ends go
 *     matrix_header.c    finds the header among other text, joins what was wrapped, names the columns
 *     matrix_cells.c     rows to cells, with or without blanks between them
 *     matrix_tail.c      what the end of a row can mean: CPUs, NUMA nodes, number of the GPU's own memory
 *     matrix_affinity.c  which of these meanings is certain when all rows are seen
 *     matrix_legend.c    what stands around the matrix: legends, names of GPUs, messages of nvidia-smi
 *     matrix_numas.c     NUMA nodes of the kind
 *     matrix_switches.c  cells to PCI switches
 *     read_matrix.c      calls them and builds the kind
 *
 * A step either knows what a text means, or refuses it with file and line. What it had to repair becomes a doubt.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOPOLOGY_MATRIX_H
#define KI_TOPOLOGY_MATRIX_H

#include "model.h"
#include "reader.h"

#include <ctype.h>

enum {
    KI_MATRIX_MOST_LINES = 1 << 20,
    KI_MATRIX_MOST_NVLINKS = 36, /* of one cell; more is a damaged number */
    KI_MATRIX_NUMA_LIMIT = 1024  /* Linux numbers NUMA nodes below this */
};

typedef struct ki_matrix_line {
    char *chars; /* NUL-terminated */
    int number;  /* in the file, from 1 */
} ki_matrix_line;

typedef struct ki_matrix_text {
    char *chars; /* all lines, one behind the other: a line can be joined to the one before it in place */
    ki_matrix_line *lines;
    int line_count;
    bool has_broken_escapes; /* escape sequences that had lost their first byte */
} ki_matrix_text;

/* Status: KITH_ERR_NO_MEMORY, or KITH_ERR_INVALID_ARG for too many lines. */
kith_status ki_matrix_clean(const ki_source *source, ki_matrix_text *text);
void ki_matrix_text_fini(ki_matrix_text *text);
/* Appends line `from` to line `to` (to < from); line `from` is empty afterwards. */
void ki_matrix_join_lines(ki_matrix_text *text, int to, int from);

/* A part of a line. */
typedef struct ki_slice {
    const char *at; /* NULL: not there, or N/A */
    size_t length;
} ki_slice;

/* A device: a column, and the row with the same name. */
typedef struct ki_matrix_device {
    ki_slice name;
    bool is_nic;
    int number;         /* of GPUn or NICn; -1: the column has a device name */
    int line;           /* index of its row's line; -1: no row yet */
    const char *tail;   /* GPU: what stands behind the cells of its row */
    const char *digits; /* GPU: where the digits of a last cell NVn begin that run into the tail; NULL: they do not */
    bool is_lost;       /* all its cells are errors */
    ki_slice cpus, numa, memory_numa;
} ki_matrix_device;

typedef struct ki_matrix_cell {
    unsigned char type; /* kith_link_type; unknown: an error instead of a class */
    unsigned char count;
} ki_matrix_cell;

typedef struct ki_matrix {
    const ki_source *source;
    kith_topology *t;
    ki_matrix_text text;
    int header; /* index of the header's line */
    int end;    /* index of the first line behind the matrix */
    ki_matrix_device *devices;
    int device_count, gpu_count;             /* GPUs come first */
    bool has_numa, has_memory_numa;          /* columns "NUMA Affinity", "GPU NUMA ID" */
    size_t cpus_at, numa_at, memory_numa_at; /* where they begin in the header, if rows can be compared; 0: not */
    ki_matrix_cell *cells;                   /* [device_count * device_count] */
    bool has_prefixes;                       /* a logger wrote something before each line */
    int wrapped_line, glued_line;            /* number of the first line with such damage; 0: none */
    int glued_count;
    int affinity_line;    /* first line whose CPU list ran into its NUMA node; 0: none */
    bool has_blank_numas; /* CPU lists without a NUMA node */
} ki_matrix;

/* "file:line: ..." as KITH_ERR_INVALID_ARG. line is an index; -1: none. */
kith_status ki_matrix_refuse(const ki_matrix *m, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Finds the header, fills devices and columns. */
kith_status ki_matrix_read_header(ki_matrix *m);
/* The device whose row this line is; *rest is what stands behind its name. -1: none. */
int ki_matrix_row_of(const ki_matrix *m, const char *line, const char **rest);
/* Does a matrix begin in this line? Where its first column stands, else NULL. */
const char *ki_matrix_find_header(const char *line);

/* Reads all rows. */
kith_status ki_matrix_read_rows(ki_matrix *m);
/* Is the text at *at a cell? Moves on. A cell NVn takes all digits that follow. */
bool ki_matrix_read_cell(const char **at, ki_matrix_cell *cell);
/* Both directions, the weaker one. */
ki_matrix_cell ki_matrix_relation(const ki_matrix *m, int a, int b);

/* Takes cpus, numa and memory_numa of each GPU out of its tail. */
kith_status ki_matrix_read_affinities(ki_matrix *m);
/* Gives them to the kind's GPUs, and adds the NUMA nodes that they name. */
void ki_matrix_set_affinities(const ki_matrix *m, ki_kind *kind);
void ki_matrix_add_numas(const ki_matrix *m, ki_kind *kind);

/* Around the matrix. */
typedef enum ki_matrix_command { KI_MATRIX_NO_COMMAND, KI_MATRIX_TOPO_M, KI_MATRIX_TOPO_MP } ki_matrix_command;
typedef struct ki_matrix_legend {
    bool is_there, has_nvlink, is_of_2017;
    ki_matrix_command command; /* as typed before the matrix, where the text has that */
} ki_matrix_legend;
ki_matrix_legend ki_matrix_read_legend(const ki_matrix *m);
/* Sets name, uuid and is_mig of GPUs, and device of NICs, from lists in the same text. */
void ki_matrix_read_names(const ki_matrix *m, ki_kind *kind);
void ki_matrix_read_nic_legend(const ki_matrix *m, ki_kind *kind);
/* The line in which nvidia-smi (or the shell) says why there is no matrix; NULL: there is none. */
const char *ki_matrix_find_error(const char *line);

/* Adds PCI switches and sets pci_switch of the kind's GPUs and NICs. */
kith_status ki_matrix_derive_switches(const ki_matrix *m, ki_kind *kind);

static inline bool ki_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static inline const char *ki_skip_blanks(const char *text)
{
    while (ki_is_blank(*text))
        text++;
    return text;
}

static inline bool ki_is_digit(char c)
{
    return isdigit((unsigned char)c) != 0;
}

#endif
