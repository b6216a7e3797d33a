/* bench/engine/serve.c
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "serve.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct bench_line {
    FILE *in, *out; /* one stream for both directions would need a seek between reading and writing */
    char *text;
    size_t capacity;
};

static int connect_to(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    if (strlen(path) >= sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

bench_line *bench_serve_connect(const char *path)
{
    int fd = connect_to(path);
    if (fd < 0) {
        fprintf(stderr, "bench: cannot connect to %s: %s\n", path, strerror(errno));
        return NULL;
    }
    bench_line *line = calloc(1, sizeof(*line));
    if (line == NULL || (line->in = fdopen(fd, "r")) == NULL || (line->out = fdopen(dup(fd), "w")) == NULL) {
        fprintf(stderr, "bench: no memory for the line to %s\n", path);
        exit(1); /* nothing is running yet, and the process cannot be of use */
    }
    return line;
}

void bench_serve_close(bench_line *line)
{
    if (line != NULL) {
        fclose(line->in);
        fclose(line->out);
        free(line->text);
        free(line);
    }
}

bool bench_serve_greet(bench_line *line, const bench_driver *driver)
{
    json_t *variants = json_array();
    for (int i = 0; i < driver->variant_count; i++) {
        json_array_append_new(variants, json_string(driver->variants[i].name));
    }
    return bench_serve_write(
        line, json_pack("{s:s, s:i, s:o}", "driver", driver->name, "ranks", driver->peers->size, "variants", variants));
}

json_t *bench_serve_read(bench_line *line)
{
    if (getline(&line->text, &line->capacity, line->in) < 0) {
        return NULL;
    }
    json_t *question = json_loads(line->text, 0, NULL);
    return question != NULL ? question : json_null();
}

bool bench_serve_write(bench_line *line, json_t *reply)
{
    char *text = reply != NULL ? json_dumps(reply, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
    json_decref(reply);
    bool is_written = text != NULL && fprintf(line->out, "%s\n", text) > 0 && fflush(line->out) == 0;
    free(text);
    return is_written;
}

const char *bench_serve_parse(json_t *question, const bench_limits *defaults, bench_request *request)
{
    const char *op_name = NULL, *mode_name = "cold", *variant = NULL;
    json_int_t nbytes = 4;
    bench_op op;
    bench_mode mode;
    *request = (bench_request){ 0 };
    bench_command *command = &request->command;
    command->min_iterations = defaults->min_iterations;
    command->max_iterations = defaults->max_iterations;
    command->budget_ms = defaults->budget_ms;
    if (json_unpack(question, "{s:s, s:s, s?s, s?I, s?i, s?i, s?i, s?F}", "op", &op_name, "variant", &variant, "mode",
                    &mode_name, "nbytes", &nbytes, "round", &request->round, "min_iterations", &command->min_iterations,
                    "max_iterations", &command->max_iterations, "budget_ms", &command->budget_ms) != 0) {
        return "the question is no object with op and variant";
    }
    if (!bench_op_parse(op_name, &op)) {
        return "no such operation";
    }
    if (!bench_mode_parse(mode_name, &mode)) {
        return "no such mode";
    }
    if (nbytes < 0 || strlen(variant) >= sizeof(request->variant) || command->min_iterations < 1 ||
        command->max_iterations < 1 || command->max_iterations > BENCH_MAX_ITERATIONS || command->budget_ms <= 0) {
        return "a number is outside what is allowed";
    }
    command->op = (int)op;
    command->mode = (int)mode;
    command->nbytes = (uint64_t)nbytes;
    memcpy(request->variant, variant, strlen(variant) + 1);
    return NULL;
}
