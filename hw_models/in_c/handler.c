/* What happens in each instant of a simulation, compiled: bound work on servers and pipelined servers, space, shared
 * bandwidth. SimPy keeps the instants and says which of them comes next (hw_models/clock.py).
 *
 * This does what hw_models/{running,units,pipelining,space,bandwidth}.py do, turn by turn and rounding by rounding, on
 * plain numbers that hw_models/compiled_run.py makes of a program and a machine: it knows no kind of instruction and no
 * kind of machine. Functions are called as the methods they stand for. Whatever goes wrong ends the run; Python then
 * does it again and says what.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NOBODY (-1)
#define DUST 1e-6 /* of hw_models.clock and hw_models.bandwidth */
#define MOST_FLOWS 256
#define MOST_PORTS 64
#define MOST_SERVERS 65536 /* of a queue */
#define MOST_ROWS (INT_MAX / 4)
#define LATEST_PS 4e18

typedef struct { int port; double weight; } Load;
typedef struct { int first, count; } Span;

typedef struct {
    int members, limit, moves;
    int64_t startup_ps, whole_ps;
    double duration_ps, bytes_per_ps;
    Span loads, crossing, traffic; /* of Handler.loads */
} Demand;

typedef struct { int queue, kind, members; int64_t startup_ps; Span parts; } Work;
typedef struct { int kind, servers, in_flight; int *positions; int next, count; } Queue;

typedef struct {
    double left_ps, speed;
    int64_t marked_ps, updated_ps;
    int64_t *paced_ps; /* by limit; NULL where that never changed */
    int limit, turn, demand, worker, position;
} Flow;

typedef struct {
    int queue, kind, is_pipelined;
    int position, cause, freed_by, missing;
    int64_t asked_ps, busy_ps;
    int at_work; /* of a server */
    int issued, most_issued, is_full; /* of a pipelined server, as what follows */
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

typedef struct { int *first, *items; } Rows; /* row i: items[first[i]] to items[first[i + 1]] */

typedef struct {
    PyObject_HEAD
    int count, n_works, n_demands, n_loads, n_queues, n_ports, n_workers, n_buffers, n_spaces, n_limits, n_kinds;
    int unfinished;
    int64_t now_ps, events;
    const char *failure;
    int *work_of;
    Rows after, allocates, frees;
    Work *works; Demand *demands; Load *loads; Queue *queues; Port *ports; Worker *workers;
    int *space_of; Rows spaces; int64_t *space_bytes;
    int *holders, *allocators, *first_flow;
    int64_t *issued_ps, *start_ps, *end_ps, *startup_ps;
    int *released_by, *limits;
    int *blocked_head, *blocked_next, *blocked_place, *blocked_worker; /* those that wait for an end, by instruction */
    int *parts_left; /* of instructions on pipelined servers */
    Flow *flows; int n_flows;
    int *running; int n_running; /* flows under way */
    int contended;
    int *changed; int n_changed, is_settled_later;
    int64_t *waited_ps; int *waited_order; int n_waited; /* by kind and what was waited for; kind n_kinds is space */
    Instant *instants; int n_instants, instants_room, free_instant;
    int *buckets; int n_buckets; /* a power of two */
    int now; /* instant */
    int64_t *new_ps; int n_new, new_room;
} Handler;

static void take(Handler *h, int w);

static void fail(Handler *h, const char *why) { if (!h->failure) h->failure = why; }

/* Return `items` with room for one more than `count`, or NULL with a failure noted. */
static void *grown(Handler *h, void *items, int count, int *room, size_t size) {
    if (count < *room) return items;
    int wanted = *room ? 2 * *room : 8;
    void *found = *room > MOST_ROWS ? NULL : realloc(items, (size_t)wanted * size);
    if (!found) { fail(h, "memory"); return NULL; }
    *room = wanted;
    return found;
}

/* Add a time as often as `times` says. */
static void add_ps(Handler *h, int64_t *sum_ps, int64_t each_ps, int times) {
    int64_t all_ps;
    if (__builtin_mul_overflow(each_ps, (int64_t)times, &all_ps) || __builtin_add_overflow(*sum_ps, all_ps, sum_ps))
        fail(h, "too long");
}

/* ---- clock: instants and turns ---- */

static int bucket_of(const Handler *h, int64_t time_ps) {
    uint64_t mixed = (uint64_t)time_ps * 0x9E3779B97F4A7C15u;
    return (int)(mixed >> 40) & (h->n_buckets - 1);
}

static void add_turn(Handler *h, int number, int actor, int turn) {
    Instant *at = &h->instants[number];
    Turn *turns = grown(h, at->turns, at->count, &at->room, sizeof(Turn));
    if (!turns) return;
    at->turns = turns;
    turns[at->count++] = (Turn){actor, turn};
}

static int new_instant(Handler *h, int64_t time_ps) {
    int number = h->free_instant;
    if (number >= 0) h->free_instant = h->instants[number].next;
    else {
        Instant *more = grown(h, h->instants, h->n_instants, &h->instants_room, sizeof(Instant));
        if (!more) return -1;
        h->instants = more;
        number = h->n_instants++;
        h->instants[number] = (Instant){0};
    }
    h->instants[number].time_ps = time_ps;
    h->instants[number].count = 0;
    return number;
}

static void after(Handler *h, int64_t delay_ps, int actor, int turn) {
    if (!delay_ps) { add_turn(h, h->now, actor, turn); return; }
    int64_t time_ps;
    if (__builtin_add_overflow(h->now_ps, delay_ps, &time_ps)) { fail(h, "too late"); return; }
    int bucket = bucket_of(h, time_ps), number = h->buckets[bucket];
    while (number >= 0 && h->instants[number].time_ps != time_ps) number = h->instants[number].next;
    if (number < 0) {
        int64_t *new_ps = grown(h, h->new_ps, h->n_new, &h->new_room, sizeof(int64_t));
        if (!new_ps) return;
        h->new_ps = new_ps;
        if ((number = new_instant(h, time_ps)) < 0) return;
        h->instants[number].next = h->buckets[bucket];
        h->buckets[bucket] = number;
        new_ps[h->n_new++] = delay_ps;
    }
    add_turn(h, number, actor, turn);
}

/* Return the instant at a time, which is to come no longer; -1 if there is none. */
static int pop_instant(Handler *h, int64_t time_ps) {
    int *link = &h->buckets[bucket_of(h, time_ps)];
    while (*link >= 0 && h->instants[*link].time_ps != time_ps) link = &h->instants[*link].next;
    int number = *link;
    if (number >= 0) *link = h->instants[number].next;
    return number;
}

static int64_t whole_ps(Handler *h, double wait_ps) {
    if (!(wait_ps >= 0 && wait_ps < LATEST_PS)) { fail(h, "too late"); return 1; }
    int64_t whole = (int64_t)wait_ps;
    double rest = wait_ps - (double)whole;
    return rest <= DUST || rest <= wait_ps * 1e-14 ? whole : whole + 1;
}

/* ---- space ---- */

static void settle_later(Handler *h, int port) {
    if (!h->n_changed) h->is_settled_later = 1;
    if (!h->ports[port].is_changed) {
        h->ports[port].is_changed = 1;
        h->changed[h->n_changed++] = port;
    }
}

static void note_used(Handler *h, Port *port) {
    if (port->history_count && port->history[port->history_count - 1].time_ps == h->now_ps) {
        port->history[port->history_count - 1].used_bytes = port->used_bytes;
        return;
    }
    Change *history = grown(h, port->history, port->history_count, &port->history_room, sizeof(Change));
    if (!history) return;
    port->history = history;
    history[port->history_count++] = (Change){h->now_ps, port->used_bytes};
}

static void add_wish(Handler *h, Wishes *to, Wish wish) {
    if (to->first && to->first + to->count == to->room) {
        memmove(to->wishes, to->wishes + to->first, (size_t)to->count * sizeof(Wish));
        to->first = 0;
    }
    Wish *wishes = grown(h, to->wishes, to->first + to->count, &to->room, sizeof(Wish));
    if (!wishes) return;
    to->wishes = wishes;
    wishes[to->first + to->count++] = wish;
}

static void ask(Handler *h, int w, int position, int buffer) {
    int space = h->space_of[buffer];
    for (int n = h->spaces.first[space]; n < h->spaces.first[space + 1]; n++) {
        int port = h->spaces.items[n];
        h->workers[w].missing++;
        add_wish(h, &h->ports[port].new, (Wish){position, buffer, w, h->space_bytes[n]});
        settle_later(h, port);
    }
}

static void give_back(Handler *h, int buffer, int position) {
    int space = h->space_of[buffer];
    for (int n = h->spaces.first[space]; n < h->spaces.first[space + 1]; n++) {
        Port *port = &h->ports[h->spaces.items[n]];
        port->used_bytes -= h->space_bytes[n];
        port->freed_by = position;
        if (port->waiting.count || port->new.count) settle_later(h, h->spaces.items[n]);
        else note_used(h, port);
    }
}

static int by_position(const void *one, const void *other) {
    const Wish *a = one, *b = other;
    if (a->position != b->position) return a->position < b->position ? -1 : 1;
    return a->buffer < b->buffer ? -1 : a->buffer > b->buffer;
}

/* ---- running ---- */

/* Return whether all that an instruction waits for has ended; the first `ended` have. */
static int ready(Handler *h, int position, int w, int ended) {
    int first = h->after.first[position], count = h->after.first[position + 1] - first;
    for (int place = ended; place < count; place++) {
        int before = h->after.items[first + place];
        if (h->end_ps[before] < 0) {
            h->blocked_place[position] = place;
            h->blocked_worker[position] = w;
            h->blocked_next[position] = h->blocked_head[before];
            h->blocked_head[before] = position;
            return 0;
        }
    }
    return 1;
}

static void start(Handler *h, int position, int cause, int64_t startup_ps) {
    h->start_ps[position] = h->now_ps;
    if (h->issued_ps[position] < 0) h->issued_ps[position] = h->now_ps;
    h->released_by[position] = cause;
    h->startup_ps[position] = startup_ps;
}

static void finish(Handler *h, int position, int limit) {
    h->end_ps[position] = h->now_ps;
    h->limits[position] = limit;
    h->unfinished--;
    int blocked = h->blocked_head[position];
    h->blocked_head[position] = NOBODY;
    while (blocked >= 0) { /* the first by position of those that are left */
        int *link = &blocked, *least = &blocked;
        for (; *link >= 0; link = &h->blocked_next[*link]) if (*link < *least) least = link;
        int waiting = *least;
        *least = h->blocked_next[waiting];
        int place = h->blocked_place[waiting], w = h->blocked_worker[waiting];
        if (ready(h, waiting, w, place + 1)) after(h, 0, -1 - w, position);
    }
    for (int n = h->frees.first[position]; n < h->frees.first[position + 1]; n++) {
        int buffer = h->frees.items[n];
        if (--h->holders[buffer]) continue;
        int allocator = h->allocators[buffer];
        if (allocator < 0 || h->issued_ps[allocator] < 0) { fail(h, "freed before it has its space"); return; }
        give_back(h, buffer, position);
    }
}

/* ---- bandwidth ---- */

static void pace(Handler *h, Flow *flow, int limit) {
    int64_t lasted_ps = h->now_ps - flow->marked_ps;
    if (lasted_ps) {
        if (!flow->paced_ps && !(flow->paced_ps = calloc((size_t)h->n_limits, sizeof(int64_t)))) fail(h, "memory");
        else flow->paced_ps[flow->limit] += lasted_ps;
    }
    flow->limit = limit;
    flow->marked_ps = h->now_ps;
}

/* See max_min_rates: the rate of each flow under way, and the port that slows it; -1: none does. */
static void max_min_rates(Handler *h, double *rates, int *slowed_by) {
    double spare[MOST_PORTS], weights[MOST_PORTS];
    int waiting[MOST_FLOWS], left = 0, ports = h->n_ports;
    for (int p = 0; p < ports; p++) { spare[p] = h->ports[p].capacity; weights[p] = 0.0; }
    for (int n = 0; n < h->n_running; n++) {
        const Demand *asks = &h->demands[h->flows[h->running[n]].demand];
        for (int l = 0; l < asks->loads.count; l++) {
            Load load = h->loads[asks->loads.first + l];
            weights[load.port] += load.weight;
        }
        int at = left++;
        for (; at && h->demands[h->flows[h->running[waiting[at - 1]]].demand].bytes_per_ps > asks->bytes_per_ps; at--)
            waiting[at] = waiting[at - 1];
        waiting[at] = n;
        slowed_by[n] = -1;
    }
    while (left) {
        double level = INFINITY;
        int full = -1, taken = 0, kept = 0, frozen[MOST_FLOWS];
        for (int p = 0; p < ports; p++)
            if (weights[p] > 0 && spare[p] / weights[p] < level) { level = spare[p] / weights[p]; full = p; }
        double least = h->demands[h->flows[h->running[waiting[0]]].demand].bytes_per_ps;
        if (least <= level * (1 + 1e-12)) {
            level = least;
            frozen[taken++] = waiting[0];
            memmove(waiting, waiting + 1, (size_t)--left * sizeof(int));
        } else {
            for (int n = 0; n < left; n++) {
                const Demand *asks = &h->demands[h->flows[h->running[waiting[n]]].demand];
                int uses = 0;
                for (int l = 0; l < asks->loads.count; l++) uses |= h->loads[asks->loads.first + l].port == full;
                if (uses) { slowed_by[waiting[n]] = full; frozen[taken++] = waiting[n]; }
                else waiting[kept++] = waiting[n];
            }
            left = kept;
            if (!taken) { fail(h, "nobody is slowed"); return; }
        }
        for (int n = 0; n < taken; n++) {
            const Demand *asks = &h->demands[h->flows[h->running[frozen[n]]].demand];
            rates[frozen[n]] = level;
            for (int l = 0; l < asks->loads.count; l++) {
                Load load = h->loads[asks->loads.first + l];
                double rest = spare[load.port] - load.weight * level;
                spare[load.port] = rest > 0.0 ? rest : 0.0;
                weights[load.port] -= load.weight;
                if (weights[load.port] < DUST) weights[load.port] = 0.0;
            }
        }
    }
}

static void share(Handler *h) {
    double rates[MOST_FLOWS];
    int slowed_by[MOST_FLOWS];
    if (h->n_running > MOST_FLOWS) { fail(h, "too many flows"); return; }
    max_min_rates(h, rates, slowed_by);
    if (h->failure) return;
    for (int n = 0; n < h->n_running; n++) {
        Flow *flow = &h->flows[h->running[n]];
        const Demand *asks = &h->demands[flow->demand];
        double speed = asks->bytes_per_ps > 0 ? rates[n] / asks->bytes_per_ps : 1.0;
        int limit = slowed_by[n] >= 0 ? h->ports[slowed_by[n]].limit : asks->limit;
        if (speed != flow->speed || !flow->turn) {
            double left_ps = flow->left_ps - (double)(h->now_ps - flow->updated_ps) * flow->speed;
            flow->left_ps = left_ps > 0.0 ? left_ps : 0.0;
            flow->updated_ps = h->now_ps;
            flow->speed = speed;
            flow->turn++;
            after(h, whole_ps(h, flow->left_ps / speed), h->running[n], flow->turn);
        }
        if (limit != flow->limit) pace(h, flow, limit);
    }
}

static void flow_starts(Handler *h, int number) {
    Flow *flow = &h->flows[number];
    const Demand *asks = &h->demands[flow->demand];
    flow->left_ps = asks->duration_ps;
    flow->limit = asks->limit;
    flow->updated_ps = flow->marked_ps = h->now_ps;
    h->running[h->n_running++] = number;
    for (int l = 0; l < asks->crossing.count; l++) {
        Load load = h->loads[asks->crossing.first + l];
        Port *port = &h->ports[load.port];
        port->load = port->load + load.weight;
        if (port->load > port->full) h->contended = 1;
    }
    if (h->contended) share(h);
    else { flow->turn = 1; after(h, asks->whole_ps, number, 1); }
}

static void moved(Handler *h, int number, int limit);

static void flow_ends(Handler *h, int number) {
    Flow *flow = &h->flows[number];
    const Demand *asks = &h->demands[flow->demand];
    int place = 0;
    while (h->running[place] != number) place++;
    memmove(h->running + place, h->running + place + 1, (size_t)(--h->n_running - place) * sizeof(int));
    for (int l = 0; l < asks->crossing.count; l++) {
        Load load = h->loads[asks->crossing.first + l];
        h->ports[load.port].load -= load.weight;
    }
    for (int l = 0; l < asks->traffic.count; l++) {
        Load load = h->loads[asks->traffic.first + l];
        h->ports[load.port].moved_bytes += load.weight;
    }
    if (!h->n_running) {
        for (int p = 0; p < h->n_ports; p++) h->ports[p].load = 0.0;
        h->contended = 0;
    } else if (h->contended) {
        h->contended = 0;
        for (int p = 0; p < h->n_ports; p++) h->contended |= h->ports[p].load > h->ports[p].full;
        share(h);
    }
    int limit = flow->limit;
    if (flow->paced_ps) { /* what set the pace longest; of equals, the last by name: limits are in the order of names */
        pace(h, flow, limit);
        for (int other = 0, is_first = 1; flow->paced_ps && other < h->n_limits; other++)
            if (flow->paced_ps[other] && (is_first || flow->paced_ps[other] >= flow->paced_ps[limit])) {
                limit = other;
                is_first = 0;
            }
        free(flow->paced_ps);
        flow->paced_ps = NULL;
    }
    moved(h, number, limit);
}

/* ---- workers ---- */

static void new_flow(Handler *h, int w, int position, int part, int64_t *delay_ps) {
    int number = h->first_flow[position] + part;
    Flow *flow = &h->flows[number];
    *flow = (Flow){0};
    flow->speed = 1.0;
    flow->demand = h->works[h->work_of[position]].parts.first + part;
    flow->worker = w;
    flow->position = position;
    if (delay_ps) after(h, *delay_ps, number, 0);
    else flow_starts(h, number);
}

static void note_wait(Handler *h, const Worker *worker, int what) {
    int place = worker->kind * (h->n_kinds + 1) + what, members = h->works[h->work_of[worker->position]].members;
    int64_t *waited_ps = &h->waited_ps[place];
    if (*waited_ps < 0) {
        *waited_ps = 0;
        h->waited_order[h->n_waited++] = place;
    }
    if (!worker->is_pipelined) add_ps(h, waited_ps, h->now_ps - worker->asked_ps, members);
    for (int n = 0; n < worker->free_count; n++) {
        int64_t since_ps = worker->free_since_ps[n];
        add_ps(h, waited_ps, h->now_ps - (worker->asked_ps > since_ps ? worker->asked_ps : since_ps), members);
    }
}

/* Note that alike members have done their part of a server's instruction, which ends with the last of them. */
static void done(Handler *h, Worker *worker, int demand, int limit) {
    add_ps(h, &worker->busy_ps, h->now_ps - h->start_ps[worker->position], h->demands[demand].members);
    if (--worker->at_work) return;
    worker->freed_by = worker->position;
    finish(h, worker->position, limit);
}

/* Give an instruction a channel of a pipelined server. */
static void serve(Handler *h, int w, int position, int cause) {
    const Work *work = &h->works[h->work_of[position]];
    int64_t left_ps = work->startup_ps - (h->now_ps - h->issued_ps[position]);
    if (left_ps < 0) left_ps = 0;
    start(h, position, cause, left_ps);
    h->parts_left[position] = work->parts.count;
    for (int part = 0; part < work->parts.count; part++) new_flow(h, w, position, part, &left_ps);
}

static int begin(Handler *h, int w) {
    Worker *worker = &h->workers[w];
    int position = worker->position;
    const Work *work = &h->works[h->work_of[position]];
    if (worker->is_pipelined) {
        h->issued_ps[position] = h->now_ps;
        worker->issued++;
        worker->freed_by = worker->cause;
        if (worker->free_count) {
            memmove(worker->free_since_ps, worker->free_since_ps + 1, (size_t)--worker->free_count * sizeof(int64_t));
            serve(h, w, position, worker->cause);
        } else worker->backlog[(worker->backlog_next + worker->backlog_count++) % worker->most_issued] = position;
        worker->is_full = worker->issued == worker->most_issued;
        return !worker->is_full;
    }
    start(h, position, worker->cause, work->startup_ps);
    worker->at_work = work->parts.count;
    for (int part = 0; part < work->parts.count; part++) {
        int demand = work->parts.first + part;
        int64_t startup_ps = h->demands[demand].startup_ps;
        if (startup_ps) new_flow(h, w, position, part, &startup_ps);
        else if (h->demands[demand].moves) new_flow(h, w, position, part, NULL);
        else done(h, worker, demand, h->demands[demand].limit);
    }
    return !worker->at_work;
}

static int with_inputs(Handler *h, int w) {
    Worker *worker = &h->workers[w];
    int position = worker->position, first = h->allocates.first[position], end = h->allocates.first[position + 1];
    if (first == end) return begin(h, w);
    worker->asked_ps = h->now_ps;
    for (int n = first; n < end; n++) {
        h->allocators[h->allocates.items[n]] = position;
        ask(h, w, position, h->allocates.items[n]);
    }
    return 0;
}

static void take(Handler *h, int w) {
    Worker *worker = &h->workers[w];
    Queue *queue = &h->queues[worker->queue];
    while (queue->next < queue->count && !h->failure) {
        worker->position = queue->positions[queue->next++];
        worker->asked_ps = h->now_ps;
        worker->cause = worker->freed_by;
        if (!ready(h, worker->position, w, 0) || !with_inputs(h, w)) return;
    }
}

static void moved(Handler *h, int number, int limit) {
    const Flow *flow = &h->flows[number];
    Worker *worker = &h->workers[flow->worker];
    if (!worker->is_pipelined) {
        done(h, worker, flow->demand, limit);
        if (!worker->at_work) take(h, flow->worker);
        return;
    }
    int position = flow->position;
    add_ps(h, &worker->busy_ps, h->now_ps - h->start_ps[position], h->demands[flow->demand].members);
    if (--h->parts_left[position]) return;
    worker->issued--;
    finish(h, position, limit);
    if (worker->backlog_count) {
        int next = worker->backlog[worker->backlog_next];
        worker->backlog_next = (worker->backlog_next + 1) % worker->most_issued;
        worker->backlog_count--;
        serve(h, flow->worker, next, position);
    } else worker->free_since_ps[worker->free_count++] = h->now_ps;
    if (worker->is_full) {
        worker->is_full = 0;
        worker->freed_by = position;
        take(h, flow->worker);
    }
}

static void take_turn(Handler *h, Turn turn) {
    if (turn.actor < 0) { /* a worker, for which all inputs are there since the instruction `turn` has ended */
        int w = -1 - turn.actor;
        h->workers[w].cause = turn.turn;
        note_wait(h, &h->workers[w], h->works[h->work_of[turn.turn]].kind);
        if (with_inputs(h, w)) take(h, w);
        return;
    }
    const Flow *flow = &h->flows[turn.actor];
    if (turn.turn) {
        if (turn.turn == flow->turn) flow_ends(h, turn.actor);
    } else if (h->demands[flow->demand].moves) flow_starts(h, turn.actor);
    else moved(h, turn.actor, h->demands[flow->demand].limit);
}

/* Grant what the changes of this instant allow: SharedSpace.happen and Space.grant. */
static void grant(Handler *h) {
    int granted[MOST_PORTS * 4], freed_by[MOST_PORTS * 4], n_granted = 0, n_changed = h->n_changed;
    int ports[MOST_PORTS];
    memcpy(ports, h->changed, (size_t)n_changed * sizeof(int));
    for (int n = 0; n < n_changed; n++) h->ports[ports[n]].is_changed = 0;
    h->n_changed = h->is_settled_later = 0;
    for (int n = 0; n < n_changed; n++) {
        Port *port = &h->ports[ports[n]];
        Wishes *waiting = &port->waiting, *new = &port->new;
        if (new->count > 1) qsort(new->wishes, (size_t)new->count, sizeof(Wish), by_position);
        for (int each = 0; each < new->count; each++) add_wish(h, waiting, new->wishes[each]);
        new->count = 0;
        while (waiting->count) {
            Wish wish = waiting->wishes[waiting->first];
            if (wish.size_bytes > port->capacity_bytes - port->used_bytes) { port->was_short = 1; break; }
            port->used_bytes += wish.size_bytes;
            waiting->first++;
            if (!--waiting->count) waiting->first = 0;
            if (!--h->workers[wish.worker].missing) {
                if (n_granted == MOST_PORTS * 4) { fail(h, "too many are granted"); return; }
                granted[n_granted] = wish.worker;
                freed_by[n_granted++] = port->freed_by;
            }
        }
        note_used(h, port);
    }
    for (int n = 0; n < n_granted; n++) {
        Worker *worker = &h->workers[granted[n]];
        if (h->now_ps > worker->asked_ps) {
            worker->cause = freed_by[n];
            note_wait(h, worker, h->n_kinds);
        }
        if (begin(h, granted[n])) take(h, granted[n]);
    }
}

/* ---- what Python sees ---- */

PyDoc_STRVAR(happen_doc, "happen(now_ps)\n--\n\nDo all that happens at ``now_ps``; return the delays of new instants.");

static PyObject *handler_happen(Handler *h, PyObject *argument) {
    int64_t now_ps = PyLong_AsLongLong(argument);
    if (now_ps == -1 && PyErr_Occurred()) return NULL;
    h->now_ps = now_ps;
    if (now_ps) h->now = pop_instant(h, now_ps);
    if (h->now < 0) { PyErr_SetString(PyExc_RuntimeError, "nothing happens then"); return NULL; }
    int taken = 0;
    for (;;) {
        while (taken < h->instants[h->now].count && !h->failure) take_turn(h, h->instants[h->now].turns[taken++]);
        if (!h->is_settled_later || h->failure) break;
        grant(h);
        h->events++;
    }
    if (h->failure) { PyErr_SetString(PyExc_ArithmeticError, h->failure); return NULL; }
    h->events += h->instants[h->now].count;
    h->instants[h->now].next = h->free_instant;
    h->free_instant = h->now;
    h->now = -1;
    PyObject *delays = PyList_New(h->n_new);
    for (int n = 0; delays && n < h->n_new; n++) {
        PyObject *delay_ps = PyLong_FromLongLong(h->new_ps[n]);
        if (!delay_ps) Py_CLEAR(delays);
        else PyList_SET_ITEM(delays, n, delay_ps);
    }
    h->n_new = 0;
    return delays;
}

static PyObject *integers(const int64_t *numbers, int count) {
    PyObject *found = PyList_New(count);
    for (int n = 0; found && n < count; n++) {
        PyObject *number = PyLong_FromLongLong(numbers[n]);
        if (!number) Py_CLEAR(found);
        else PyList_SET_ITEM(found, n, number);
    }
    return found;
}

static PyObject *small_integers(const int *numbers, int count) {
    PyObject *found = PyList_New(count);
    for (int n = 0; found && n < count; n++) {
        PyObject *number = PyLong_FromLong(numbers[n]);
        if (!number) Py_CLEAR(found);
        else PyList_SET_ITEM(found, n, number);
    }
    return found;
}

PyDoc_STRVAR(columns_doc,
    "columns()\n--\n\nReturn by instruction: issued_ps, start_ps, end_ps, startup_ps, released_by, limits.");

static PyObject *handler_columns(Handler *h, PyObject *Py_UNUSED(none)) {
    return Py_BuildValue("(NNNNNN)", integers(h->issued_ps, h->count), integers(h->start_ps, h->count),
                         integers(h->end_ps, h->count), integers(h->startup_ps, h->count),
                         small_integers(h->released_by, h->count), small_integers(h->limits, h->count));
}

PyDoc_STRVAR(memories_doc,
    "memories()\n--\n\nReturn by port: moved_bytes, the most used_bytes, was_short, and used_bytes by time of change.");

static PyObject *handler_memories(Handler *h, PyObject *Py_UNUSED(none)) {
    PyObject *found = PyList_New(h->n_ports);
    for (int p = 0; found && p < h->n_ports; p++) {
        const Port *port = &h->ports[p];
        PyObject *changes = PyDict_New();
        int64_t peak_bytes = 0, before_bytes = 0;
        for (int n = 0; changes && n < port->history_count; n++) {
            Change at = port->history[n];
            if (at.used_bytes != before_bytes) {
                PyObject *time_ps = PyLong_FromLongLong(at.time_ps), *used = PyLong_FromLongLong(at.used_bytes);
                if (!time_ps || !used || PyDict_SetItem(changes, time_ps, used)) Py_CLEAR(changes);
                Py_XDECREF(time_ps);
                Py_XDECREF(used);
            }
            if (at.used_bytes > peak_bytes) peak_bytes = at.used_bytes;
            before_bytes = at.used_bytes;
        }
        PyObject *row = changes ? Py_BuildValue("(dLNN)", port->moved_bytes, (long long)peak_bytes,
                                                PyBool_FromLong(port->was_short), changes) : NULL;
        if (!row) Py_CLEAR(found);
        else PyList_SET_ITEM(found, p, row);
    }
    return found;
}

PyDoc_STRVAR(units_doc,
    "units()\n--\n\nReturn (kind, busy_ps) of each worker, and (kind, what it waited for, ps) as that came to be.");

static PyObject *handler_units(Handler *h, PyObject *Py_UNUSED(none)) {
    PyObject *busy = PyList_New(h->n_workers), *waited = PyList_New(h->n_waited);
    for (int w = 0; busy && w < h->n_workers; w++) {
        PyObject *row = Py_BuildValue("(iL)", h->workers[w].kind, (long long)h->workers[w].busy_ps);
        if (!row) Py_CLEAR(busy);
        else PyList_SET_ITEM(busy, w, row);
    }
    for (int n = 0; waited && n < h->n_waited; n++) {
        int place = h->waited_order[n];
        PyObject *row = Py_BuildValue("(iiL)", place / (h->n_kinds + 1), place % (h->n_kinds + 1),
                                      (long long)h->waited_ps[place]);
        if (!row) Py_CLEAR(waited);
        else PyList_SET_ITEM(waited, n, row);
    }
    return Py_BuildValue("(NN)", busy, waited);
}

/* ---- reading the arguments ---- */

static void *made(int count, size_t size) {
    void *found = calloc(count > 0 ? (size_t)count : 1, size);
    if (!found) PyErr_NoMemory();
    return found;
}

/* Read a row of an argument as PyArg_ParseTuple does; what is no tuple is of the wrong type. */
static int read_row(PyObject *row, const char *format, ...) {
    if (!PyTuple_Check(row)) { PyErr_SetString(PyExc_TypeError, "a row is not a tuple"); return -1; }
    va_list fields;
    va_start(fields, format);
    int is_read = PyArg_VaParse(row, format, fields);
    va_end(fields);
    return is_read ? 0 : -1;
}

/* Return how many items the rows of a tuple have in all; -1 with an exception set if they are not tuples, or too many. */
static int count_items(PyObject *table) {
    Py_ssize_t total = 0;
    for (Py_ssize_t n = 0; n < PyTuple_GET_SIZE(table); n++) {
        PyObject *row = PyTuple_GET_ITEM(table, n);
        if (!PyTuple_Check(row)) { PyErr_SetString(PyExc_TypeError, "not a tuple of tuples"); return -1; }
        if (PyTuple_GET_SIZE(row) > MOST_ROWS - total) { PyErr_SetString(PyExc_OverflowError, "too many"); return -1; }
        total += PyTuple_GET_SIZE(row);
    }
    return (int)total;
}

/* Read a tuple of tuples of whole numbers from 0 to below `most`; return 0, or -1 with an exception set. */
static int read_rows(PyObject *table, int most, Rows *rows) {
    int count = (int)PyTuple_GET_SIZE(table), total = count_items(table);
    if (total < 0 || !(rows->first = made(count + 1, sizeof(int))) || !(rows->items = made(total, sizeof(int)))) return -1;
    for (int n = 0, at = 0; n < count; n++) {
        PyObject *row = PyTuple_GET_ITEM(table, n);
        for (Py_ssize_t place = 0; place < PyTuple_GET_SIZE(row); place++) {
            long item = PyLong_AsLong(PyTuple_GET_ITEM(row, place));
            if (item < 0 || item >= most) {
                if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "a number is out of range");
                return -1;
            }
            rows->items[at++] = (int)item;
        }
        rows->first[n + 1] = at;
    }
    return 0;
}

/* Read pairs of a number and a weight; they are added to all loads. */
static int read_loads(Handler *h, PyObject *pairs, int *room, Span *span) {
    int count = (int)PyTuple_GET_SIZE(pairs);
    *span = (Span){h->n_loads, count};
    for (int n = 0; n < count; n++) {
        Load load, *loads = grown(h, h->loads, h->n_loads, room, sizeof(Load));
        if (!loads) { PyErr_NoMemory(); return -1; }
        h->loads = loads;
        if (read_row(PyTuple_GET_ITEM(pairs, n), "id", &load.port, &load.weight)) return -1;
        if (load.port < 0 || load.port >= h->n_ports) { PyErr_SetString(PyExc_ValueError, "no such port"); return -1; }
        h->loads[h->n_loads++] = load;
    }
    return 0;
}

static int read_demands(Handler *h, PyObject *demands) {
    int room = 0;
    if (!(h->demands = made(h->n_demands, sizeof(Demand)))) return -1;
    for (int n = 0; n < h->n_demands; n++) {
        Demand *one = &h->demands[n];
        PyObject *loads, *crossing, *traffic;
        long long startup_ps, whole;
        if (read_row(PyTuple_GET_ITEM(demands, n), "iLdLdipO!O!O!", &one->members, &startup_ps, &one->duration_ps,
                     &whole, &one->bytes_per_ps, &one->limit, &one->moves, &PyTuple_Type, &loads, &PyTuple_Type,
                     &crossing, &PyTuple_Type, &traffic)) return -1;
        one->startup_ps = startup_ps;
        one->whole_ps = whole;
        if (one->limit < 0 || one->limit >= h->n_limits || startup_ps < 0 || whole < 0) {
            PyErr_SetString(PyExc_ValueError, "a demand is out of range");
            return -1;
        }
        if (read_loads(h, loads, &room, &one->loads) || read_loads(h, crossing, &room, &one->crossing)
            || read_loads(h, traffic, &room, &one->traffic)) return -1;
    }
    return 0;
}

static int read_works(Handler *h, PyObject *works) {
    if (!(h->works = made(h->n_works, sizeof(Work)))) return -1;
    for (int n = 0; n < h->n_works; n++) {
        Work *one = &h->works[n];
        long long startup_ps;
        if (read_row(PyTuple_GET_ITEM(works, n), "iiiLii", &one->queue, &one->kind, &one->members, &startup_ps,
                     &one->parts.first, &one->parts.count)) return -1;
        one->startup_ps = startup_ps;
        if (one->queue < 0 || one->queue >= h->n_queues || one->kind < 0 || one->kind >= h->n_kinds || startup_ps < 0
            || one->parts.first < 0 || one->parts.first > h->n_demands || one->parts.count < 0
            || one->parts.count > h->n_demands - one->parts.first) {
            PyErr_SetString(PyExc_ValueError, "a work is out of range");
            return -1;
        }
    }
    return 0;
}

static int read_ports(Handler *h, PyObject *ports) {
    if (!(h->ports = made(h->n_ports, sizeof(Port))) || !(h->changed = made(h->n_ports, sizeof(int)))) return -1;
    for (int n = 0; n < h->n_ports; n++) {
        Port *port = &h->ports[n];
        long long capacity_bytes;
        if (read_row(PyTuple_GET_ITEM(ports, n), "dLi", &port->capacity, &capacity_bytes, &port->limit)) return -1;
        if (port->limit < 0 || port->limit >= h->n_limits || capacity_bytes < 0) {
            PyErr_SetString(PyExc_ValueError, "a memory is out of range");
            return -1;
        }
        port->capacity_bytes = capacity_bytes;
        port->full = port->capacity * (1 + 1e-12);
        port->freed_by = NOBODY;
    }
    return 0;
}

/* Read what buffers take: pairs of a port and bytes for each of the spaces that differ. */
static int read_spaces(Handler *h, PyObject *spaces, PyObject *space_of) {
    int total = count_items(spaces);
    if (total < 0 || !(h->spaces.first = made(h->n_spaces + 1, sizeof(int))) || !(h->spaces.items = made(total, sizeof(int)))
        || !(h->space_bytes = made(total, sizeof(int64_t))) || !(h->space_of = made(h->n_buffers, sizeof(int))))
        return -1;
    for (int n = 0, at = 0; n < h->n_spaces; n++) {
        PyObject *row = PyTuple_GET_ITEM(spaces, n);
        for (Py_ssize_t place = 0; place < PyTuple_GET_SIZE(row); place++, at++) {
            long long size_bytes;
            if (read_row(PyTuple_GET_ITEM(row, place), "iL", &h->spaces.items[at], &size_bytes)) return -1;
            if (h->spaces.items[at] < 0 || h->spaces.items[at] >= h->n_ports || size_bytes < 0) {
                PyErr_SetString(PyExc_ValueError, "a space is out of range");
                return -1;
            }
            h->space_bytes[at] = size_bytes;
        }
        h->spaces.first[n + 1] = at;
    }
    for (int n = 0; n < h->n_buffers; n++) {
        long number = PyLong_AsLong(PyTuple_GET_ITEM(space_of, n));
        if (number == -1 && PyErr_Occurred()) return -1;
        if (number < -1 || number >= h->n_spaces) { PyErr_SetString(PyExc_ValueError, "no such space"); return -1; }
        h->space_of[n] = (int)number;
    }
    return 0;
}

/* Read each queue's kind, servers and instructions in flight; make its workers. */
static int read_queues(Handler *h, PyObject *queues) {
    if (!(h->queues = made(h->n_queues, sizeof(Queue)))) return -1;
    for (int n = 0; n < h->n_queues; n++) {
        Queue *queue = &h->queues[n];
        if (read_row(PyTuple_GET_ITEM(queues, n), "iii", &queue->kind, &queue->servers, &queue->in_flight)) return -1;
        if (queue->kind < 0 || queue->kind >= h->n_kinds || queue->servers < 1 || queue->in_flight < 1) {
            PyErr_SetString(PyExc_ValueError, "a queue is out of range");
            return -1;
        }
        int workers = queue->in_flight > 1 ? 1 : queue->servers;
        if (queue->servers > MOST_SERVERS || h->n_workers > MOST_ROWS - workers) {
            PyErr_SetString(PyExc_OverflowError, "too many servers");
            return -1;
        }
        h->n_workers += workers;
    }
    for (int n = 0; n < h->count; n++) h->queues[h->works[h->work_of[n]].queue].count++;
    if (!(h->workers = made(h->n_workers, sizeof(Worker)))) return -1;
    for (int n = 0, w = 0; n < h->n_queues; n++) {
        Queue *queue = &h->queues[n];
        if (!(queue->positions = made(queue->count, sizeof(int)))) return -1;
        for (int k = 0; k < (queue->in_flight > 1 ? 1 : queue->servers); k++, w++) {
            Worker *worker = &h->workers[w];
            worker->queue = n;
            worker->kind = queue->kind;
            worker->position = worker->cause = worker->freed_by = NOBODY;
            if (queue->in_flight == 1) continue;
            worker->is_pipelined = 1;
            int64_t most_issued = (int64_t)queue->servers * queue->in_flight;
            worker->most_issued = most_issued > queue->count ? queue->count + 1 : (int)most_issued; /* never so many */
            worker->free_count = queue->servers;
            if (!(worker->backlog = made(worker->most_issued, sizeof(int)))
                || !(worker->free_since_ps = made(queue->servers, sizeof(int64_t)))) return -1;
        }
    }
    for (int n = 0; n < h->n_queues; n++) h->queues[n].count = 0;
    for (int n = 0; n < h->count; n++) {
        Queue *queue = &h->queues[h->works[h->work_of[n]].queue];
        queue->positions[queue->count++] = n;
    }
    return 0;
}

static int *filled(int count, int value) {
    int *found = made(count, sizeof(int));
    for (int n = 0; found && n < count; n++) found[n] = value;
    return found;
}

static int64_t *unset(int count) {
    int64_t *found = made(count, sizeof(int64_t));
    for (int n = 0; found && n < count; n++) found[n] = -1;
    return found;
}

/* Make what a run needs beside what has been read. */
static int prepare(Handler *h) {
    int n = h->count, kinds = h->n_kinds * (h->n_kinds + 1);
    h->unfinished = n;
    h->n_buckets = 256;
    h->free_instant = -1;
    if (!(h->first_flow = made(n, sizeof(int)))) return -1;
    for (int position = 0; position < n; position++) {
        int parts = h->works[h->work_of[position]].parts.count;
        if (parts > MOST_ROWS - h->n_flows) { PyErr_SetString(PyExc_OverflowError, "too many flows"); return -1; }
        h->first_flow[position] = h->n_flows;
        h->n_flows += parts;
    }
    if (!(h->issued_ps = unset(n)) || !(h->start_ps = unset(n)) || !(h->end_ps = unset(n))
        || !(h->startup_ps = made(n, sizeof(int64_t))) || !(h->released_by = filled(n, NOBODY))
        || !(h->limits = filled(n, 0)) || !(h->blocked_head = filled(n, NOBODY))
        || !(h->blocked_next = filled(n, NOBODY)) || !(h->blocked_place = filled(n, 0))
        || !(h->blocked_worker = filled(n, 0)) || !(h->parts_left = filled(n, 0))
        || !(h->flows = made(h->n_flows, sizeof(Flow))) || !(h->running = filled(h->n_flows, 0))
        || !(h->holders = filled(h->n_buffers, 0)) || !(h->allocators = filled(h->n_buffers, NOBODY))
        || !(h->waited_ps = unset(kinds)) || !(h->waited_order = filled(kinds, 0))
        || !(h->buckets = filled(h->n_buckets, -1))) return -1;
    for (int at = 0; at < h->frees.first[n]; at++) h->holders[h->frees.items[at]]++;
    for (int at = 0; at < h->allocates.first[n]; at++)
        if (h->space_of[h->allocates.items[at]] < 0) { PyErr_SetString(PyExc_ValueError, "no space"); return -1; }
    if ((h->now = new_instant(h, 0)) < 0) { PyErr_NoMemory(); return -1; }
    return 0;
}

/* Read the arguments of Handler and make what the run needs; return 0, or -1 with an exception set. */
static int read_arguments(Handler *h, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"work_of", "after", "allocates", "frees", "works", "demands", "queues", "ports", "spaces",
                            "space_of", "kinds", "limits", NULL};
    PyObject *work_of, *after_of, *allocates, *frees, *works, *demands, *queues, *ports, *spaces, *space_of;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!O!O!O!O!O!O!O!O!ii", names, &PyTuple_Type, &work_of,
                                     &PyTuple_Type, &after_of, &PyTuple_Type, &allocates, &PyTuple_Type, &frees,
                                     &PyTuple_Type, &works, &PyTuple_Type, &demands, &PyTuple_Type, &queues,
                                     &PyTuple_Type, &ports, &PyTuple_Type, &spaces, &PyTuple_Type, &space_of,
                                     &h->n_kinds, &h->n_limits)) return -1;
    struct { PyObject *column; int *count; } counts[] = {
        {work_of, &h->count}, {works, &h->n_works}, {demands, &h->n_demands}, {queues, &h->n_queues},
        {ports, &h->n_ports}, {spaces, &h->n_spaces}, {space_of, &h->n_buffers}};
    for (size_t n = 0; n < sizeof(counts) / sizeof(*counts); n++) {
        Py_ssize_t count = PyTuple_GET_SIZE(counts[n].column);
        if (count > (counts[n].column == ports ? MOST_PORTS : MOST_ROWS)) {
            PyErr_SetString(PyExc_OverflowError, "too many memories, or too much else");
            return -1;
        }
        *counts[n].count = (int)count;
    }
    if (PyTuple_GET_SIZE(after_of) != h->count || PyTuple_GET_SIZE(allocates) != h->count
        || PyTuple_GET_SIZE(frees) != h->count || h->n_kinds < 0 || h->n_kinds > h->n_queues || h->n_limits < 0
        || h->n_limits > h->n_ports + h->n_demands) {
        PyErr_SetString(PyExc_ValueError, "columns differ in length, or there are more kinds or limits than can be");
        return -1;
    }
    if (!(h->work_of = made(h->count, sizeof(int)))) return -1;
    for (int n = 0; n < h->count; n++) {
        long number = PyLong_AsLong(PyTuple_GET_ITEM(work_of, n));
        if (number < 0 || number >= h->n_works) {
            if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "no such work");
            return -1;
        }
        h->work_of[n] = (int)number;
    }
    if (read_rows(after_of, h->count, &h->after) || read_rows(allocates, h->n_buffers, &h->allocates)
        || read_rows(frees, h->n_buffers, &h->frees) || read_demands(h, demands) || read_works(h, works)
        || read_ports(h, ports) || read_spaces(h, spaces, space_of) || read_queues(h, queues)) return -1;
    return prepare(h);
}

/* Return a new handler: there is none that is half made, or made twice. */
static PyObject *handler_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    Handler *h = (Handler *)type->tp_alloc(type, 0);
    if (!h) return NULL;
    int failed = read_arguments(h, args, kwargs);
    for (int w = 0; !failed && w < h->n_workers; w++) take(h, w);
    if (!failed && h->failure) {
        PyErr_SetString(PyExc_ArithmeticError, h->failure);
        failed = -1;
    }
    if (failed) Py_CLEAR(h);
    return (PyObject *)h;
}

static void handler_dealloc(Handler *h) {
    for (int n = 0; h->flows && n < h->n_flows; n++) free(h->flows[n].paced_ps);
    for (int n = 0; h->queues && n < h->n_queues; n++) free(h->queues[n].positions);
    for (int n = 0; h->workers && n < h->n_workers; n++) {
        free(h->workers[n].backlog);
        free(h->workers[n].free_since_ps);
    }
    for (int n = 0; h->ports && n < h->n_ports; n++) {
        free(h->ports[n].new.wishes);
        free(h->ports[n].waiting.wishes);
        free(h->ports[n].history);
    }
    for (int n = 0; n < h->n_instants; n++) free(h->instants[n].turns);
    void *all[] = {h->work_of, h->after.first, h->after.items, h->allocates.first, h->allocates.items, h->frees.first,
                   h->frees.items, h->works, h->demands, h->loads, h->queues, h->ports, h->workers, h->space_of,
                   h->spaces.first, h->spaces.items, h->space_bytes, h->holders, h->allocators, h->first_flow,
                   h->issued_ps, h->start_ps, h->end_ps, h->startup_ps, h->released_by, h->limits, h->blocked_head,
                   h->blocked_next, h->blocked_place, h->blocked_worker, h->parts_left, h->flows, h->running,
                   h->changed, h->waited_ps, h->waited_order, h->instants, h->buckets, h->new_ps};
    for (size_t n = 0; n < sizeof(all) / sizeof(*all); n++) free(all[n]);
    Py_TYPE(h)->tp_free((PyObject *)h);
}

static PyObject *handler_events(Handler *h, void *Py_UNUSED(none)) { return PyLong_FromLongLong(h->events); }
static PyObject *handler_unfinished(Handler *h, void *Py_UNUSED(none)) { return PyLong_FromLong(h->unfinished); }

static PyMethodDef handler_methods[] = {
    {"happen", (PyCFunction)handler_happen, METH_O, happen_doc},
    {"columns", (PyCFunction)handler_columns, METH_NOARGS, columns_doc},
    {"memories", (PyCFunction)handler_memories, METH_NOARGS, memories_doc},
    {"units", (PyCFunction)handler_units, METH_NOARGS, units_doc},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef handler_figures[] = {
    {"events", (getter)handler_events, NULL, "Turns taken so far.", NULL},
    {"unfinished", (getter)handler_unfinished, NULL, "Instructions that have not ended.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyTypeObject handler_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "hw_models.in_c.handler.Handler",
    .tp_doc = "One run of a program's bound work; every unit takes its first instructions when it is made.",
    .tp_basicsize = sizeof(Handler),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = handler_new,
    .tp_dealloc = (destructor)handler_dealloc,
    .tp_methods = handler_methods,
    .tp_getset = handler_figures,
};

PyDoc_STRVAR(is_sound_doc,
    "is_sound(after, allocates, frees, buffers)\n--\n\n"
    "Return whether instructions wait for earlier ones only, and buffers are freed after they are allocated, once.");

static PyObject *handler_is_sound(PyObject *Py_UNUSED(self), PyObject *args) {
    PyObject *after_of, *allocates, *frees;
    int buffers;
    if (!PyArg_ParseTuple(args, "O!O!O!i", &PyTuple_Type, &after_of, &PyTuple_Type, &allocates, &PyTuple_Type, &frees,
                          &buffers)) return NULL;
    Py_ssize_t rows = PyTuple_GET_SIZE(after_of);
    if (rows > MOST_ROWS || PyTuple_GET_SIZE(allocates) != rows || PyTuple_GET_SIZE(frees) != rows) Py_RETURN_FALSE;
    int count = (int)rows;
    Rows waits = {0}, taken = {0}, freed = {0};
    char *is_allocated = made(buffers, 1);
    int is_sound = is_allocated && !read_rows(after_of, count, &waits) && !read_rows(allocates, buffers, &taken)
        && !read_rows(frees, buffers, &freed);
    for (int position = 0; is_sound && position < count; position++) {
        for (int n = waits.first[position]; n < waits.first[position + 1]; n++) is_sound &= waits.items[n] < position;
        for (int n = taken.first[position]; n < taken.first[position + 1]; n++) {
            is_sound &= !is_allocated[taken.items[n]];
            is_allocated[taken.items[n]] = 1;
        }
        for (int n = freed.first[position]; n < freed.first[position + 1]; n++) is_sound &= is_allocated[freed.items[n]];
    }
    void *all[] = {waits.first, waits.items, taken.first, taken.items, freed.first, freed.items, is_allocated};
    for (size_t n = 0; n < sizeof(all) / sizeof(*all); n++) free(all[n]);
    if (PyErr_Occurred()) { /* a number that is out of range is a mistake as well */
        if (!PyErr_ExceptionMatches(PyExc_ValueError) && !PyErr_ExceptionMatches(PyExc_OverflowError)) return NULL;
        PyErr_Clear();
    }
    return PyBool_FromLong(is_sound);
}

static PyMethodDef functions[] = {
    {"is_sound", handler_is_sound, METH_VARARGS, is_sound_doc},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, .m_name = "hw_models.in_c.handler", .m_doc = "What happens in each instant, compiled.", .m_size = -1,
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit_handler(void) {
    if (PyType_Ready(&handler_type) < 0) return NULL;
    PyObject *found = PyModule_Create(&module);
    if (found && PyModule_AddObjectRef(found, "Handler", (PyObject *)&handler_type) < 0) Py_CLEAR(found);
    return found;
}
