/* tools/topo_output.c - a report is collected in memory and written at once.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "topo.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool ki_topo_output_open(ki_topo_output *self)
{
    *self = (ki_topo_output){ 0 };
    self->stream = open_memstream(&self->bytes, &self->nbytes);
    if (self->stream == NULL)
        fputs("kith topo: memory is short\n", stderr);
    return self->stream != NULL;
}

void ki_topo_output_drop(ki_topo_output *self)
{
    if (self->stream != NULL)
        fclose(self->stream);
    free(self->bytes);
    *self = (ki_topo_output){ 0 };
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

static bool is_binary(ki_topo_form form)
{
    return form == KI_TOPO_PNG || form == KI_TOPO_PDF;
}

int ki_topo_output_close(ki_topo_output *self, const ki_topo_options *options)
{
    bool is_whole = fclose(self->stream) == 0;
    int cause = is_whole ? 0 : ENOMEM;
    const char *name = options->output != NULL ? options->output : "standard output";
    self->stream = NULL;
    if (cause == 0 && options->output != NULL)
        cause = write_file(options->output, self->bytes, self->nbytes);
    else if (cause == 0 && options->export_form < 0 && is_binary(options->form) && isatty(STDOUT_FILENO)) {
        fputs("kith topo: a picture is not written to a terminal; use --output FILE\n", stderr);
        ki_topo_output_drop(self);
        return KI_TOPO_REFUSED;
    } else if (cause == 0)
        cause = write_to(stdout, self->bytes, self->nbytes);
    ki_topo_output_drop(self);
    if (cause == 0)
        return KI_EXIT_OK;
    fprintf(stderr, "kith topo: cannot write %s: %s\n", name, strerror(cause));
    return KI_TOPO_REFUSED;
}

static bool has_line;

void ki_topo_progress(void *arg, const char *what, double fraction)
{
    (void)arg;
    if (!isatty(STDERR_FILENO))
        return;
    fprintf(stderr, "\r\033[Kkith topo: %s %.0f %%", what, fraction * 100);
    has_line = true;
}

void ki_topo_progress_end(void)
{
    if (has_line)
        fputs("\r\033[K", stderr);
    has_line = false;
}
