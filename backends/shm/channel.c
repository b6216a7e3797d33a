/* backends/shm/channel.c - the ring of lines and the ring of bytes of a channel; see channel.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "channel.h"

/* Above, a copy from buffer to buffer is worth the hand-shake. */
#define EAGER_MOST 16384

size_t shm_channel_nbytes(const shm_sizes *sizes)
{
    return shm_round_up(sizeof(shm_channel_head), 128) + (size_t)sizes->channel_lines * sizeof(shm_message_line) +
           (size_t)sizes->channel_nbytes;
}

static void attach(shm_group *group, int from, int to, shm_channel_head **head, shm_message_line **lines,
                   unsigned char **bytes)
{
    size_t index = (size_t)from * (size_t)group->size + (size_t)to;
    unsigned char *at = group->arena + group->layout.channels + index * group->layout.channel_stride;
    *head = (shm_channel_head *)(void *)at;
    *lines = (shm_message_line *)(void *)(at + shm_round_up(sizeof(shm_channel_head), 128));
    *bytes = (unsigned char *)(*lines + group->sizes.channel_lines);
}

kith_status shm_channels_create(shm_group *group)
{
    shm_channels *all = shm_new(group->host, 1, sizeof *all);
    if (all != NULL)
        all->of = shm_new(group->host, (size_t)group->size, sizeof *all->of);
    if (all == NULL || all->of == NULL) {
        shm_delete(group->host, all);
        return group->host->fail(KITH_ERR_NO_MEMORY, "no memory for the channels of group %s", group->name);
    }
    all->line_count = group->sizes.channel_lines;
    all->byte_count = group->sizes.channel_nbytes;
    all->eager_nbytes = shm_min((size_t)group->sizes.channel_nbytes / 4, EAGER_MOST);
    for (int r = 0; r < group->size; r++) {
        shm_channel *channel = &all->of[r];
        channel->peer = r;
        attach(group, group->rank, r, &channel->out, &channel->out_lines, &channel->out_bytes);
        attach(group, r, group->rank, &channel->in, &channel->in_lines, &channel->in_bytes);
    }
    group->channels = all;
    return KITH_OK;
}

void shm_channels_destroy(shm_group *group)
{
    shm_channels *all = group->channels;
    if (all == NULL)
        return;
    for (int r = 0; r < group->size; r++) {
        while (all->of[r].early != NULL) {
            shm_early *early = all->of[r].early;
            all->of[r].early = early->next;
            shm_delete(group->host, early);
        }
    }
    shm_delete(group->host, all->of);
    shm_delete(group->host, all);
    group->channels = NULL;
}

/* Position at which nbytes in a row start: at the end, or behind the turn when they do not fit before it. */
static uint64_t body_start(const shm_channels *all, const shm_channel *channel, size_t nbytes)
{
    uint64_t at = channel->bytes_sent % all->byte_count;
    return at + nbytes <= all->byte_count ? channel->bytes_sent : channel->bytes_sent + all->byte_count - at;
}

bool shm_channel_has_room(shm_channels *all, shm_channel *channel, size_t nbytes)
{
    if (channel->lines_sent - channel->lines_free == all->line_count)
        channel->lines_free = shm_load(&channel->out->lines_consumed.value);
    if (channel->lines_sent - channel->lines_free == all->line_count)
        return false;
    if (nbytes == 0)
        return true;
    uint64_t end = body_start(all, channel, nbytes) + shm_round_up(nbytes, SHM_LINE);
    if (end - channel->bytes_free > all->byte_count)
        channel->bytes_free = shm_load(&channel->out->bytes_consumed.value);
    return end - channel->bytes_free <= all->byte_count;
}

shm_message_line *shm_channel_line(shm_channels *all, shm_channel *channel)
{
    return &channel->out_lines[channel->lines_sent & (all->line_count - 1)];
}

unsigned char *shm_channel_body(shm_channels *all, shm_channel *channel, size_t nbytes, shm_message_line *line)
{
    uint64_t start = body_start(all, channel, nbytes);
    channel->bytes_sent = start + shm_round_up(nbytes, SHM_LINE);
    line->body.start = start;
    line->body.end = channel->bytes_sent;
    return channel->out_bytes + start % all->byte_count;
}

void shm_channel_publish(shm_group *group, shm_channel *channel, shm_message_line *line)
{
    shm_store(&line->flag, ++channel->lines_sent);
    shm_wake(group);
}

shm_message_line *shm_channel_peek(shm_channels *all, shm_channel *channel)
{
    shm_message_line *line = &channel->in_lines[channel->lines_received & (all->line_count - 1)];
    return shm_load(&line->flag) == channel->lines_received + 1 ? line : NULL;
}

void shm_channel_consume(shm_group *group, shm_channel *channel, const shm_message_line *line)
{
    shm_line_kind kind = shm_line_kind_of(line);
    if (kind == SHM_LINE_PIECE || (kind == SHM_LINE_EAGER && shm_line_nbytes(line) > SHM_LINE_INLINE))
        shm_store(&channel->in->bytes_consumed.value, line->body.end);
    shm_store(&channel->in->lines_consumed.value, ++channel->lines_received);
    shm_wake(group);
}
