/* tools/output.c - see output.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool ki_output_open(ki_output *self, const ki_command *command)
{
    *self = (ki_output){ .command = command };
    self->stream = open_memstream(&self->bytes, &self->nbytes);
    if (self->stream == NULL)
        fprintf(stderr, "kith %s: memory is short\n", command->name);
    return self->stream != NULL;
}

void ki_output_drop(ki_output *self)
{
    if (self->stream != NULL)
        fclose(self->stream);
    free(self->bytes);
    *self = (ki_output){ .command = self->command };
}

/* 0, or errno. */
static int write_to(FILE *file, const char *bytes, size_t nbytes)
{
    errno = 0;
    if (fwrite(bytes, 1, nbytes, file) == nbytes && fflush(file) == 0)
        return 0;
    return errno != 0 ? errno : EIO;
}

static int write_file(const char *path, const char *bytes, size_t nbytes)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL)
        return errno;
    int cause = write_to(file, bytes, nbytes);
    if (fclose(file) != 0 && cause == 0)
        cause = errno;
    return cause;
}

int ki_output_close(ki_output *self, const char *path, bool is_binary)
{
    const char *command = self->command->name;
    int cause = fclose(self->stream) == 0 ? 0 : ENOMEM;
    self->stream = NULL;
    if (cause == 0 && path != NULL)
        cause = write_file(path, self->bytes, self->nbytes);
    else if (cause == 0 && is_binary && isatty(STDOUT_FILENO)) {
        fprintf(stderr, "kith %s: a picture is not written to a terminal; use --output FILE\n", command);
        ki_output_drop(self);
        return KI_EXIT_USAGE;
    } else if (cause == 0)
        cause = write_to(stdout, self->bytes, self->nbytes);
    ki_output_drop(self);
    if (cause == 0)
        return KI_EXIT_OK;
    fprintf(stderr, "kith %s: cannot write %s: %s\n", command, path != NULL ? path : "standard output",
            strerror(cause));
    return KI_EXIT_USAGE;
}
