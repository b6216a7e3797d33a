/* tools/tune/nccl_way.c - what NCCL's log says about the way that it took. See links.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "links.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void tune_ways_read(const char *text, tune_ways *ways)
{
    static const char mark[] = " via ";
    for (const char *at = text; (at = strstr(at, mark)) != NULL;) {
        at += sizeof mark - 1;
        ways->p2p += strncmp(at, "P2P/", 4) == 0;
        ways->shm += strncmp(at, "SHM/", 4) == 0;
        ways->net += strncmp(at, "NET/", 4) == 0;
    }
}

bool tune_ways_fit(const tune_ways *ways, const char *class_name, char *reason, size_t nbytes)
{
    const char *took = ways->net > 0 ? "the network" : ways->shm > 0 ? "the host's memory" : "direct access";
    bool fits = true;
    if (strcmp(class_name, "nccl-p2p") == 0)
        fits = ways->shm == 0 && ways->net == 0;
    else if (strcmp(class_name, "nccl-shm") == 0)
        fits = ways->p2p == 0 && ways->net == 0;
    else if (strcmp(class_name, "nccl-net") == 0)
        fits = ways->p2p == 0 && ways->shm == 0;
    if (!fits)
        snprintf(reason, nbytes, "NCCL took %s, by its log", took);
    return fits;
}

static void read_file(const char *path, tune_ways *ways)
{
    FILE *in = fopen(path, "r");
    char *line = NULL;
    size_t room = 0;
    while (in != NULL && getline(&line, &room, in) > 0)
        tune_ways_read(line, ways);
    free(line);
    if (in != NULL)
        fclose(in);
}

tune_ways tune_ways_take(const char *folder)
{
    tune_ways ways = { 0, 0, 0 };
    DIR *in = opendir(folder);
    for (struct dirent *entry; in != NULL && (entry = readdir(in)) != NULL;) {
        char path[1024];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        read_file(path, &ways);
        unlink(path);
    }
    if (in != NULL)
        closedir(in);
    rmdir(folder);
    return ways;
}
