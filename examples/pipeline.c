/* examples/pipeline.c - activations travel down a chain of stages, microbatch after microbatch.
 *
 *     kith run -n 4 -- pipeline
 *
 * Each rank is a stage. It posts the receive of the next microbatch before it works on the current one, so that the
 * message travels meanwhile, and it sends its result without waiting. The tag is the number of the microbatch. A
 * stage adds 1 to every element; the last one sees microbatch + number of stages and checks it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "example.h"

enum { HIDDEN = 4096, MICROBATCHES = 16, BUFFERS = 2 };

typedef struct stage {
    kith_group *group;
    int rank, size;
    float input[BUFFERS][HIDDEN], output[BUFFERS][HIDDEN];
    kith_request *receiving[BUFFERS], *sending[BUFFERS];
} stage;

/* The first stage makes its input; the others start to receive it. */
static void begin_input(stage *s, int microbatch)
{
    int slot = microbatch % BUFFERS;
    if (s->rank > 0) {
        must(kith_recv_start(s->group, s->input[slot], HIDDEN, KITH_F32, s->rank - 1, microbatch, &s->receiving[slot]),
             "kith_recv_start");
        return;
    }
    for (int i = 0; i < HIDDEN; i++)
        s->input[slot][i] = (float)microbatch;
}

static void forward(stage *s, int microbatch)
{
    int slot = microbatch % BUFFERS;
    must(kith_wait(&s->receiving[slot]), "receive");
    must(kith_wait(&s->sending[slot]), "send of an earlier microbatch"); /* its buffer is used again now */
    for (int i = 0; i < HIDDEN; i++)
        s->output[slot][i] = s->input[slot][i] + 1;
}

static void pass_on(stage *s, int microbatch)
{
    int slot = microbatch % BUFFERS;
    if (s->rank + 1 < s->size)
        must(kith_send_start(s->group, s->output[slot], HIDDEN, KITH_F32, s->rank + 1, microbatch, &s->sending[slot]),
             "kith_send_start");
}

static int count_wrong(const stage *s, int microbatch)
{
    int wrong = 0;
    for (int i = 0; i < HIDDEN; i++)
        wrong += s->output[microbatch % BUFFERS][i] != (float)(microbatch + s->rank + 1);
    return wrong;
}

int main(void)
{
    static stage s;
    kith_ctx *ctx;
    must(kith_init(NULL, &ctx), "kith_init");
    s.group = kith_world(ctx);
    s.rank = kith_rank(ctx);
    s.size = kith_size(ctx);

    int wrong = 0;
    begin_input(&s, 0);
    for (int m = 0; m < MICROBATCHES; m++) {
        if (m + 1 < MICROBATCHES) begin_input(&s, m + 1);
        forward(&s, m);
        pass_on(&s, m);
        wrong += count_wrong(&s, m);
    }
    must(kith_wait_all(s.sending, BUFFERS), "sends");

    must(kith_agree(s.group, wrong == 0 ? KITH_OK : KITH_ERR_INTERNAL), "a stage saw wrong activations");
    if (s.rank == 0)
        printf("%d microbatches went through %d stages on %s\n", MICROBATCHES, s.size, kith_group_backend(s.group));
    must(kith_finalize(ctx), "kith_finalize");
    return EXIT_SUCCESS;
}
