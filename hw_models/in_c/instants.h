/* Instants (timestamps) and their events: a port of hw_models/simulation/clock.py, except the clock itself, which is
 * SimPy's. Pending instants are in a hash table by time, their times in a heap; finished ones are reused. A turn is an
 * event: its handler (actor) and the number with which it was scheduled; happen() handles those of one instant.
 */

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
    h->events++;
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

/* Push a time onto the heap of pending times, which has room for it. */
static void note_coming(Handler *h, int64_t time_ps) {
    int place = h->n_coming++;
    while (place && h->coming_ps[(place - 1) / 2] > time_ps) {
        h->coming_ps[place] = h->coming_ps[(place - 1) / 2];
        place = (place - 1) / 2;
    }
    h->coming_ps[place] = time_ps;
}

/* Pop the earliest time off the heap of pending times, which is not empty. */
static int64_t first_coming(Handler *h) {
    int64_t first_ps = h->coming_ps[0], last_ps = h->coming_ps[--h->n_coming];
    int place = 0, below;
    while ((below = 2 * place + 1) < h->n_coming) {
        if (below + 1 < h->n_coming && h->coming_ps[below + 1] < h->coming_ps[below]) below++;
        if (h->coming_ps[below] >= last_ps) break;
        h->coming_ps[place] = h->coming_ps[below];
        place = below;
    }
    h->coming_ps[place] = last_ps;
    return first_ps;
}

static void after(Handler *h, int64_t delay_ps, int actor, int turn) {
    if (!delay_ps) { add_turn(h, h->now, actor, turn); return; }
    int64_t time_ps;
    if (__builtin_add_overflow(h->now_ps, delay_ps, &time_ps)) { fail(h, "too late"); return; }
    int bucket = bucket_of(h, time_ps), number = h->buckets[bucket];
    while (number >= 0 && h->instants[number].time_ps != time_ps) number = h->instants[number].next;
    if (number < 0) {
        int64_t *coming_ps = grown(h, h->coming_ps, h->n_coming, &h->coming_room, sizeof(int64_t));
        if (!coming_ps) return;
        h->coming_ps = coming_ps;
        if ((number = new_instant(h, time_ps)) < 0) return;
        h->instants[number].next = h->buckets[bucket];
        h->buckets[bucket] = number;
        note_coming(h, time_ps);
    }
    add_turn(h, number, actor, turn);
}

/* Remove the instant at a time from the hash table and return it; -1 if there is none. */
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

/* Return whether an event has been cancelled: the end of a flow that has been rescheduled since. */
static int is_void(const Handler *h, Turn turn) {
    return turn.actor >= 0 && turn.turn && turn.turn != h->flows[turn.actor].turn;
}

static void is_over(Handler *h, int number) {
    h->instants[number].next = h->free_instant;
    h->free_instant = number;
}

/* Drop the next instants as long as all their events have been cancelled, so that the clock skips them. */
static void pass_over(Handler *h) {
    while (h->n_coming) {
        int number = h->buckets[bucket_of(h, h->coming_ps[0])];
        while (h->instants[number].time_ps != h->coming_ps[0]) number = h->instants[number].next;
        const Instant *next = &h->instants[number];
        for (int n = 0; n < next->count; n++) if (!is_void(h, next->turns[n])) return;
        is_over(h, pop_instant(h, first_coming(h)));
    }
}

static void take_turn(Handler *h, Turn turn); /* in workers.h */
static void grant(Handler *h); /* in memories.h */

/* Handle all events of the current instant, then the allocations it made possible, until neither is left. */
static void happen(Handler *h) {
    int taken = 0;
    for (;;) {
        while (taken < h->instants[h->now].count && !h->failure) take_turn(h, h->instants[h->now].turns[taken++]);
        if (!h->is_settled_later || h->failure) break;
        grant(h);
        h->events++;
    }
    is_over(h, h->now);
    h->now = -1;
    pass_over(h);
}
