/* tests/layers/checkpoint/ckpt_files.c - folders and files of tests.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#define _GNU_SOURCE /* nftw() */
#include "ckpt_cases.h"

#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *join(const char *a, const char *b)
{
    static _Thread_local char paths[8][512];
    static _Thread_local int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%.255s/%.255s", a, b);
    return path;
}

void make_scratch(rank_info *info, char path[256])
{
    memset(path, 0, 256);
    if (info->rank == 0) {
        const char *base = getenv("TMPDIR");
        snprintf(path, 256, "%.200s/ckpt_XXXXXX", base != NULL ? base : "/tmp");
        REQUIRE(mkdtemp(path) != NULL);
    }
    REQUIRE_OK(kith_broadcast(info->world, path, 256, KITH_UINT8, 0));
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info, (void)kind, (void)where;
    return remove(path);
}

void remove_scratch(rank_info *info, const char *path)
{
    REQUIRE_OK(kith_barrier(info->world));
    if (info->rank == 0)
        REQUIRE(nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0);
}

char *read_file(const char *path, size_t *nbytes)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        rank_fail(__FILE__, __LINE__, "%s cannot be opened", path);
    REQUIRE(fseek(file, 0, SEEK_END) == 0);
    *nbytes = (size_t)ftell(file);
    rewind(file);
    char *text = malloc(*nbytes + 1);
    REQUIRE(text != NULL && fread(text, 1, *nbytes, file) == *nbytes);
    text[*nbytes] = '\0';
    fclose(file);
    return text;
}

void write_file(const char *path, const void *data, size_t nbytes)
{
    FILE *file = fopen(path, "wb");
    REQUIRE(file != NULL && fwrite(data, 1, nbytes, file) == nbytes);
    REQUIRE(fclose(file) == 0);
}

int mkdir_of(const char *path)
{
    return mkdir(path, 0777);
}

void require_equal_files(const char *file, int line, const char *a, const char *b)
{
    size_t a_nbytes, b_nbytes, at = 0;
    char *a_text = read_file(a, &a_nbytes), *b_text = read_file(b, &b_nbytes);
    while (at < a_nbytes && at < b_nbytes && a_text[at] == b_text[at])
        at++;
    if (a_nbytes != b_nbytes || at < a_nbytes)
        rank_fail(file, line, "%s (%zu bytes) and %s (%zu) differ from byte %zu on", a, a_nbytes, b, b_nbytes, at);
    free(a_text);
    free(b_text);
}
