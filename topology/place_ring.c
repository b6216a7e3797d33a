/* topology/place_ring.c - the order of a group's members in its ring.
 *
 * Up to 16 members exactly, over subsets: first the widest narrowest link of a cycle, then among cycles of links at
 * least as wide the largest sum. Larger groups: nearest neighbour, then 2-opt on the same two keys. Where the given
 * order is as good it stays.
 *
 * A group over several nodes keeps its nodes in the order in which they come (which follows the switches), and the
 * members of one node together; inside a node they form the best path instead of a cycle, which is a cycle through one
 * more member that is equally far from all.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "place.h"

#include "core/base/error.h"
#include "core/base/mem.h"
#include "cost.h"
#include "model.h"

#include <limits.h>
#include <string.h>

/* Parts of groups over several nodes come in many patterns: exact orders must be cheap there. */
enum { EXACT_PATH = 10, MOST_PASSES = 20 };

typedef struct quality {
    int narrowest;
    int64_t sum;
} quality;

static bool is_better(quality a, quality b)
{
    return a.narrowest != b.narrowest ? a.narrowest > b.narrowest : a.sum > b.sum;
}

static quality measure(const int *value, int n, const int *ring)
{
    quality q = { INT_MAX, 0 };
    for (int i = 0; i < n; i++) {
        int link = value[ring[i] * n + ring[(i + 1) % n]];
        q.narrowest = link < q.narrowest ? link : q.narrowest;
        q.sum += link;
    }
    return q;
}

/* What no ring can beat: each member's two widest links. */
static quality limit(const int *value, int n)
{
    quality q = { INT_MAX, 0 };
    for (int i = 0; i < n; i++) {
        int widest = -1, second = -1;
        for (int j = 0; j < n; j++) {
            int link = value[i * n + j];
            if (j == i)
                continue;
            second = link > widest ? widest : link > second ? link : second;
            widest = link > widest ? link : widest;
        }
        q.narrowest = second < q.narrowest ? second : q.narrowest;
        q.sum += widest + second;
    }
    q.sum /= 2;
    return q;
}

/* ---- exact ---- */

/* best[s * n + end]: of paths from 0 through the members s to end. With floor < 0 the narrowest link, else the sum of
 * links, none below floor; -1: no such path. */
static int64_t best_paths(const int *value, int n, int floor, int64_t *best)
{
    int all = 1 << n;
    for (int i = 0; i < all * n; i++)
        best[i] = -1;
    best[1 * n + 0] = floor < 0 ? INT_MAX : 0;
    for (int s = 3; s < all; s += 2)
        for (int end = 1; end < n; end++) {
            if ((s >> end & 1) == 0)
                continue;
            int before = s & ~(1 << end);
            int64_t most = -1;
            for (int from = 0; from < n; from++) {
                int64_t so_far = best[before * n + from], link = value[from * n + end], got;
                if ((before >> from & 1) == 0 || so_far < 0 || link < floor)
                    continue;
                got = floor < 0 ? (so_far < link ? so_far : link) : so_far + link;
                most = got > most ? got : most;
            }
            best[s * n + end] = most;
        }
    int64_t most = -1;
    for (int end = 1; end < n; end++) {
        int64_t path = best[(all - 1) * n + end], link = value[end * n];
        int64_t got = path < 0 || link < floor ? -1 : floor < 0 ? (path < link ? path : link) : path + link;
        most = got > most ? got : most;
    }
    return most;
}

/* Walks the table of sums back from the last member. */
static void walk_back(const int *value, int n, int floor, const int64_t *best, int64_t sum, int *ring)
{
    int s = (1 << n) - 1, next = 0;
    for (int at = n - 1; at > 0; at--) {
        int here = 0;
        for (int end = n - 1; end > 0; end--) {
            int link = value[end * n + next];
            if ((s >> end & 1) != 0 && link >= floor && best[s * n + end] >= 0 && best[s * n + end] + link == sum)
                here = end; /* the smallest: ends are tried downwards */
        }
        ring[at] = here;
        sum -= value[here * n + next];
        s &= ~(1 << here);
        next = here;
    }
    ring[0] = 0;
}

static int order_exactly(const int *value, int n, int *ring)
{
    int64_t *best = (int64_t *)ki_calloc(NULL, ((size_t)1 << n) * (size_t)n, sizeof *best);
    if (best == NULL)
        return -1;
    int narrowest = (int)best_paths(value, n, -1, best);
    int64_t sum = best_paths(value, n, narrowest, best);
    quality given = measure(value, n, ring);
    if (given.narrowest != narrowest || given.sum != sum)
        walk_back(value, n, narrowest, best, sum, ring);
    ki_free(NULL, best);
    return narrowest;
}

/* ---- larger groups ---- */

static void nearest_neighbour(const int *value, int n, int *ring)
{
    for (int i = 0; i < n; i++)
        ring[i] = i;
    for (int at = 1; at < n; at++) {
        int best = at;
        for (int i = at + 1; i < n; i++)
            if (value[ring[at - 1] * n + ring[i]] > value[ring[at - 1] * n + ring[best]])
                best = i;
        int member = ring[best];
        memmove(ring + at + 1, ring + at, (size_t)(best - at) * sizeof *ring);
        ring[at] = member;
    }
}

static void reverse(int *ring, int from, int to)
{
    for (; from < to; from++, to--) {
        int member = ring[from];
        ring[from] = ring[to];
        ring[to] = member;
    }
}

/* Replaces two links by two others: better when the narrower of them widens, else when the sum grows. */
static bool two_opt(const int *value, int n, int *ring)
{
    bool has_changed = false;
    for (int i = 1; i < n - 1; i++)
        for (int j = i + 1; j < n; j++) {
            int after = ring[(j + 1) % n];
            int old_a = value[ring[i - 1] * n + ring[i]], old_b = value[ring[j] * n + after];
            int new_a = value[ring[i - 1] * n + ring[j]], new_b = value[ring[i] * n + after];
            quality old = { old_a < old_b ? old_a : old_b, (int64_t)old_a + old_b };
            quality got = { new_a < new_b ? new_a : new_b, (int64_t)new_a + new_b };
            if (is_better(got, old)) {
                reverse(ring, i, j);
                has_changed = true;
            }
        }
    return has_changed;
}

static int order_by_search(const int *value, int n, int *ring)
{
    int *other = (int *)ki_calloc(NULL, (size_t)n, sizeof *other);
    if (other == NULL)
        return -1;
    nearest_neighbour(value, n, other);
    for (int pass = 0; pass < MOST_PASSES && two_opt(value, n, other); pass++)
        ;
    if (is_better(measure(value, n, other), measure(value, n, ring)))
        memcpy(ring, other, (size_t)n * sizeof *ring);
    ki_free(NULL, other);
    return measure(value, n, ring).narrowest;
}

static int order(const int *value, int n, int *ring, int exact)
{
    for (int i = 0; i < n; i++)
        ring[i] = i;
    if (n < 2)
        return INT_MAX;
    if (n < 4) /* one cycle */
        return measure(value, n, ring).narrowest;
    quality given = measure(value, n, ring);
    if (!is_better(limit(value, n), given))
        return given.narrowest;
    return n <= exact ? order_exactly(value, n, ring) : order_by_search(value, n, ring);
}

int ki_ring_order(const int *value, int n, int *ring)
{
    return order(value, n, ring, KI_EXACT_RING);
}

/* ---- groups of GPUs ---- */

enum { ROOM = KI_MAX_GPUS + 1 }; /* members of one node, and the one that a path adds */

kith_status ki_ring_maker_init(ki_ring_maker *maker, const kith_topology *t, ki_cost_session *session)
{
    *maker = (ki_ring_maker){ .t = t, .session = session, .owns_session = session == NULL };
    maker->value = (int *)ki_calloc(NULL, (size_t)ROOM * (ROOM + 1 + 2 * KI_RINGS_REMEMBERED), sizeof(int));
    if (maker->value == NULL)
        return KITH_ERR_NO_MEMORY;
    maker->order = maker->value + ROOM * ROOM;
    for (int i = 0; i < KI_RINGS_REMEMBERED; i++) {
        maker->memory[i].kind = -1;
        maker->memory[i].members = maker->order + (1 + 2 * i) * ROOM;
        maker->memory[i].order = maker->memory[i].members + ROOM;
    }
    kith_status status = session == NULL ? ki_cost_session_create(t, &maker->session) : KITH_OK;
    if (status != KITH_OK)
        ki_ring_maker_fini(maker);
    return status;
}

void ki_ring_maker_fini(ki_ring_maker *maker)
{
    ki_free(NULL, maker->value);
    if (maker->owns_session)
        ki_cost_session_destroy(maker->session);
    maker->value = NULL;
    maker->session = NULL;
}

static const ki_ring_memory *recall(const ki_ring_maker *m, int kind, const int *members, int count, bool is_path)
{
    for (int i = 0; i < KI_RINGS_REMEMBERED; i++) {
        const ki_ring_memory *memory = &m->memory[i];
        if (memory->kind == kind && memory->count == count && memory->is_path == is_path &&
            memcmp(memory->members, members, (size_t)count * sizeof *members) == 0)
            return memory;
    }
    return NULL;
}

static const ki_ring_memory *remember(ki_ring_maker *m, int kind, const int *members, int count, bool is_path)
{
    ki_ring_memory *memory = &m->memory[m->next];
    m->next = (m->next + 1) % KI_RINGS_REMEMBERED;
    memory->kind = kind;
    memory->count = count;
    memory->is_path = is_path;
    memcpy(memory->members, members, (size_t)count * sizeof *members);
    int n = count + is_path, end = 0; /* a path begins after the member that is not there */
    while (is_path && m->order[end] != count)
        end++;
    for (int i = 0; i < count; i++)
        memory->order[i] = m->order[(end + is_path + i) % n];
    return memory;
}

/* Order of positions of one kind; a path has one more member, as far from everyone. */
static kith_status order_in_node(ki_ring_maker *m, int kind_index, int *members, int count, bool is_path)
{
    const kith_node_kind *kind = kith_topology_kind(m->t, kind_index);
    const ki_ring_memory *memory = recall(m, kind_index, members, count, is_path);
    if (memory == NULL) {
        int n = count + is_path;
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++)
                m->value[i * n + j] = i == j                     ? 0
                                      : i == count || j == count ? INT_MAX / 2
                                                                 : ki_gpu_pair_value(kind, members[i], members[j]);
        if (order(m->value, n, m->order, is_path ? EXACT_PATH : KI_EXACT_RING) < 0)
            return KITH_ERR_NO_MEMORY;
        memory = remember(m, kind_index, members, count, is_path);
    }
    for (int i = 0; i < count; i++)
        m->order[i] = members[memory->order[i]];
    memcpy(members, m->order, (size_t)count * sizeof *members);
    return KITH_OK;
}

/* How many members follow each other on the node of ring[from]. */
static int run_on_node(const kith_topology *t, const int *ring, int from, int size)
{
    int node, gpu, count = 1;
    if (!kith_topology_locate(t, ring[from], &node, &gpu))
        return 0;
    int first = kith_topology_first_gpu(t, node), behind = kith_topology_first_gpu(t, node + 1);
    while (from + count < size && ring[from + count] >= first && ring[from + count] < behind)
        count++;
    return count;
}

kith_status ki_ring_of_group(ki_ring_maker *m, const int *group, int size, int *ring)
{
    int members[KI_MAX_GPUS];
    memcpy(ring, group, (size_t)size * sizeof *ring);
    for (int from = 0, count; from < size; from += count) {
        int node, gpu;
        count = run_on_node(m->t, ring, from, size);
        if (count < 1 || count > KI_MAX_GPUS || !kith_topology_locate(m->t, ring[from], &node, &gpu))
            return ki_fail(KITH_ERR_INTERNAL, "placement: GPU %d is not in the topology", ring[from]);
        bool is_path = count < size;
        if (count < (is_path ? 3 : 4)) /* there is only one order, or it does not matter */
            continue;
        int first = kith_topology_first_gpu(m->t, node);
        for (int i = 0; i < count; i++)
            members[i] = ring[from + i] - first;
        kith_status status = order_in_node(m, kith_topology_node(m->t, node)->kind, members, count, is_path);
        if (status != KITH_OK)
            return status;
        for (int i = 0; i < count; i++)
            ring[from + i] = first + members[i];
    }
    return KITH_OK;
}
