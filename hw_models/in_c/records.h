/* Records of a run: demands, works and queues (inputs); flows, workers and memories (state); pending instants. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "columns.h"

#define NOBODY (-1)
#define DUST 1e-6 /* of dsascape.hw_models.simulation.clock and dsascape.hw_models.simulation.bandwidth */
#define NOTHING_LEFT 1e-9 /* of dsascape.hw_models.simulation.bandwidth */
#define LATEST_PS 4e18
/* Limits beyond which Python runs the program: running flows, memories, kinds of units, servers, length of arrays. */
#define MOST_FLOWS 256
#define MOST_PORTS 64
#define MOST_KINDS 1024
#define MOST_SERVERS (1 << 20)
#define MOST_ROWS (INT_MAX / 4)

typedef struct { int port; double weight; } Load;
typedef struct { int first, count; } Span;

typedef struct {
    int members, limit, moves;
    int64_t startup_ps, whole_ps;
    double duration_ps, bytes_per_ps;
    Span loads, crossing, traffic; /* spans of Handler.loads */
} Demand;

typedef struct { int queue, kind, members; int64_t startup_ps; Span parts; } Work;
typedef struct { int kind, servers, in_flight; int *positions; int next, count; } Queue;

typedef struct {
    double left_ps, speed;
    int64_t marked_ps, updated_ps;
    int64_t *paced_ps; /* duration by limit; NULL if the limit never changed */
    int limit, turn, demand, worker, position;
} Flow;

typedef struct {
    int queue, kind, is_pipelined;
    int position, cause, freed_by, missing;
    int64_t asked_ps, busy_ps;
    int at_work; /* server only: unfinished parts of its instruction */
    int issued, most_issued, is_full; /* this and the next two lines: pipelined server only */
    int *backlog; int backlog_next, backlog_count;
    int64_t *free_since_ps; int free_count;
} Worker;

typedef struct { int position, buffer, worker; int64_t size_bytes; } Wish;
typedef struct { Wish *wishes; int first, count, room; } Wishes;
typedef struct { int64_t time_ps, used_bytes; } Change;

typedef struct {
    double capacity, full, load, moved_bytes;
    int64_t capacity_bytes, used_bytes;
    int limit, freed_by, was_short, is_changed;
    Wishes new, waiting;
    Change *history; int history_count, history_room;
} Port;

typedef struct { int actor, turn; } Turn; /* actor: a flow, or -1 - worker */
typedef struct { int64_t time_ps; Turn *turns; int count, room, next; } Instant;

typedef struct { int *first, *items; } Rows; /* row i: items[first[i]] up to, not including, items[first[i + 1]] */

typedef struct {
    PyObject_HEAD
    int count, n_works, n_demands, n_loads, n_queues, n_ports, n_workers, n_buffers, n_spaces, n_limits, n_kinds;
    int unfinished;
    int64_t now_ps, events;
    const char *failure; int is_mistake; /* is_mistake: of the program, which other engines cannot run either */
    int *work_of;
    Rows after, allocates, frees;
    Work *works; Demand *demands; Load *loads; Queue *queues; Port *ports; Worker *workers;
    int *space_of; Rows spaces; int64_t *space_bytes;
    int *holders, *allocators, *first_flow;
    int64_t *issued_ps, *start_ps, *end_ps, *startup_ps;
    int *released_by, *limits;
    int *blocked_head, *blocked_next, *blocked_place, *blocked_worker; /* linked lists of blocked successors */
    int *parts_left; /* unfinished parts, by instruction on a pipelined server */
    Flow *flows; int n_flows;
    int *running; int n_running; /* running flows */
    int contended;
    int *changed; int n_changed, is_settled_later;
    int64_t *waited_ps; int *waited_order; int n_waited; /* by kind and the kind it waited for; n_kinds means space */
    Instant *instants; int n_instants, instants_room, free_instant;
    int *buckets; int n_buckets; /* a power of two */
    int now; /* current instant */
    int64_t *coming_ps; int n_coming, coming_room; /* heap: times of the pending instants */
} Handler;

static void fail(Handler *h, const char *why) { if (!h->failure) h->failure = why; }

static void fail_program(Handler *h, const char *why) { if (!h->failure) { h->failure = why; h->is_mistake = 1; } }

/* Return `items` with room for one more than `count`, or NULL with a failure set. */
static void *grown(Handler *h, void *items, int count, int *room, size_t size) {
    if (count < *room) return items;
    int wanted = *room ? 2 * *room : 8;
    void *found = *room > MOST_ROWS ? NULL : realloc(items, (size_t)wanted * size);
    if (!found) { fail(h, "memory"); return NULL; }
    *room = wanted;
    return found;
}

/* Add `each_ps` to a sum `times` times; fail on overflow. */
static void add_ps(Handler *h, int64_t *sum_ps, int64_t each_ps, int times) {
    int64_t all_ps;
    if (__builtin_mul_overflow(each_ps, (int64_t)times, &all_ps) || __builtin_add_overflow(*sum_ps, all_ps, sum_ps))
        fail(h, "too long");
}
