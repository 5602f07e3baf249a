/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches: a list, then a stream of later changes. What has been told is kept (keys and versions),
 * so that after a loss the list is compared with it and only differences are told. A stream is
 * never resumed in its middle: whatever ends it, a list comes first.
 *
 * A stream is silent while nothing happens. Answers to other calls show that its endpoint lives:
 * the same endpoint keeps a lease alive; and when nothing was answered for two seconds a probe asks
 * through the quorum, and the watches break if it gets no answer. `hasleader` shows that its etcd
 * is not in a minority: etcd would end the stream. A stream that is silent while the store's
 * revision grows may have nothing to say, or may be forgotten: after half a minute it is listed
 * again.
 */
#include "net/store/etcd_watch.h"

#include "net/reactor.h"
#include "net/store/etcd_endpoint.h"
#include "net/store/etcd_http.h"
#include "net/store/etcd_json.h"
#include "net/store/etcd_list.h"
#include "net/store/etcd_state.h"
#include "net/store/known.h"
#include "net/store/store.h"

#include <bsd/sys/tree.h>
#include <string.h>

#define NS_PER_MS INT64_C(1000000)
#define LOST_AFTER_NS (INT64_C(1000) * NS_PER_MS)
#define LOST_AFTER_TRIPS 4 /* added round trips: to connect, to list, to follow */
#define CREATED_WITHIN_NS (INT64_C(4000) * NS_PER_MS)
#define PROBE_NS (INT64_C(2000) * NS_PER_MS)
#define SILENT_NS (INT64_C(30000) * NS_PER_MS)
#define MEMORY_RETRY_NS (INT64_C(100) * NS_PER_MS)

typedef enum watch_state {
    WATCH_WAITS,   /* for its next attempt */
    WATCH_LISTS,   /* pages are coming */
    WATCH_OPENS,   /* the stream was asked for */
    WATCH_FOLLOWS, /* the stream is open */
} watch_state;

typedef struct fry_etcd_watch {
    fry_etcd *etcd;
    fry_store_watch *watch;
    watch_state state;
    unsigned failures;
    uint64_t revision; /* up to which the watch knows */
    uint64_t life;     /* of the store, as the watch has told */
    uint64_t round;    /* of lists; keys of older rounds are gone */
    int64_t heard_ns;
    fry_timer timer;      /* WAITS: the next attempt. OPENS: too late */
    fry_timer lost_timer; /* on while it knows nothing for certain */
    fry_etcd_list list;
    fry_etcd_call stream;
    fry_known_keys known; /* marks are hashes of values: versions can repeat in other lives */
} fry_etcd_watch;

/* ---- what is known ---- */

static fry_known *learn(fry_etcd_watch *mine, const char *key)
{
    if (mine->known.count < FRY_STORE_ENTRIES_MAX || fry_known_find(&mine->known, key) != NULL)
        return fry_known_learn(&mine->known, key);
    fry_log_line(mine->etcd->reactor->log, FERRY_LOG_ERROR,
                 "store: more than %d keys begin with '%s': they can't be watched",
                 FRY_STORE_ENTRIES_MAX, mine->watch->prefix);
    return NULL;
}

/* ---- telling ---- */

/* False: a callback has stopped the watch, and `mine` is freed. */
static bool tell(fry_etcd_watch *mine, fry_store_event event, const fry_store_entry *entry)
{
    return fry_store_tell(mine->watch, event, entry);
}

typedef enum note_result {
    NOTE_GOOD,
    NOTE_STOPPED, /* the watch is freed */
    NOTE_NO_ROOM, /* no memory, or too many keys */
    NOTE_ANOTHER, /* a list has what the former store can't have */
} note_result;

/* In a stream, what is not newer is known. In a list it is known, or the store is another. */
static note_result note_put(fry_etcd_watch *mine, const fry_store_entry *entry)
{
    const uint64_t hash = fry_store_hash(entry->value, entry->value_bytes);
    fry_known *known = learn(mine, entry->key);

    if (known == NULL)
        return NOTE_NO_ROOM;
    known->round = mine->round;
    if (known->version >= entry->version)
        return mine->state == WATCH_LISTS &&
                       (known->version > entry->version || known->mark != hash)
                   ? NOTE_ANOTHER
                   : NOTE_GOOD;
    known->version = entry->version;
    known->mark = hash;
    return tell(mine, FRY_STORE_IS_PUT, entry) ? NOTE_GOOD : NOTE_STOPPED;
}

/* Tells that the store is another. Then what was told is told anew, or as deleted. */
static note_result note_life(fry_etcd_watch *mine)
{
    if (mine->life == mine->etcd->life)
        return NOTE_GOOD;
    mine->life = mine->etcd->life;
    fry_known_forget_versions(&mine->known);
    return tell(mine, FRY_STORE_IS_ANOTHER, NULL) ? NOTE_GOOD : NOTE_STOPPED;
}

static note_result note_deletion(fry_etcd_watch *mine, fry_known *known)
{
    char key[FRY_STORE_KEY_BYTES + 1];
    const fry_store_entry entry = {.key = key, .version = known->version};

    (void)strcpy(key, known->key);
    fry_known_forget(&mine->known, known);
    return tell(mine, FRY_STORE_IS_DELETED, &entry) ? NOTE_GOOD : NOTE_STOPPED;
}

/* ---- attempts ---- */

static void begin(fry_etcd_watch *mine);

static void set_state(fry_etcd_watch *mine, watch_state state)
{
    fry_timer_stop(mine->etcd->reactor, &mine->timer);
    mine->state = state;
}

/* From now on what the store has is not known. This is reported only if it lasts. */
static void doubt(fry_etcd_watch *mine)
{
    fry_reactor *reactor = mine->etcd->reactor;

    if (!mine->lost_timer.is_on && !mine->watch->is_lost)
        fry_timer_set(reactor, &mine->lost_timer,
                      fry_reactor_now_ns(reactor) + LOST_AFTER_NS +
                          LOST_AFTER_TRIPS * fry_store_round_trip_ns(&mine->etcd->base));
}

/* Counts each failure once, because several callers may report the failure of an endpoint. */
static void wait_for_next(fry_etcd_watch *mine)
{
    fry_reactor *reactor = mine->etcd->reactor;

    if (mine->state == WATCH_WAITS)
        return;
    fry_etcd_call_cancel(&mine->list.call);
    fry_etcd_call_cancel(&mine->stream);
    doubt(mine);
    set_state(mine, WATCH_WAITS);
    fry_timer_set(reactor, &mine->timer,
                  fry_reactor_now_ns(reactor) + fry_etcd_delay_ns(mine->etcd, ++mine->failures));
}

static void timer_is_due(fry_timer *timer)
{
    fry_etcd_watch *mine = timer->arg;

    if (mine->state == WATCH_OPENS) {
        fry_etcd_endpoint_failed(mine->etcd, mine->stream.endpoint, "a watch is not answered");
        wait_for_next(mine);
        return;
    }
    begin(mine);
}

static void lost_is_due(fry_timer *timer)
{
    fry_etcd_watch *mine = timer->arg;

    fry_log_line(mine->etcd->reactor->log, FERRY_LOG_WARNING,
                 "store: what there is below '%s' is not known: etcd can't be reached",
                 mine->watch->prefix);
    (void)tell(mine, FRY_STORE_IS_LOST, NULL);
}

static bool is_known_again(fry_etcd_watch *mine)
{
    fry_timer_stop(mine->etcd->reactor, &mine->lost_timer);
    mine->failures = 0;
    if (!mine->watch->is_lost)
        return true;
    fry_log_line(mine->etcd->reactor->log, FERRY_LOG_WARNING,
                 "store: what there is below '%s' is known again", mine->watch->prefix);
    return tell(mine, FRY_STORE_IS_HEALTHY, NULL);
}

/* ---- the stream ---- */

static note_result note_event(fry_etcd_watch *mine, const fry_etcd_kv *event)
{
    if (!event->is_deletion)
        return note_put(mine, &event->entry);
    fry_known *known = fry_known_find(&mine->known, event->entry.key);
    if (known == NULL || known->version > event->entry.version)
        return NOTE_GOOD;
    return note_deletion(mine, known);
}

/* False: the stream or the watch is over. */
static bool take_news(fry_etcd_watch *mine, const fry_etcd_news *news)
{
    fry_reactor *reactor = mine->etcd->reactor;

    if (news->code != 0 || news->is_canceled) {
        fry_log_line(reactor->log, FERRY_LOG_INFO, "store: etcd ends a watch: %s",
                     news->compact_revision != 0 ? "compacted" : news->text);
        wait_for_next(mine);
        return false;
    }
    mine->heard_ns = fry_reactor_now_ns(reactor);
    if (news->revision > mine->revision)
        mine->revision = news->revision;
    fry_etcd_revision_is(mine->etcd, news->revision);
    if (mine->state == WATCH_OPENS && news->is_created) {
        set_state(mine, WATCH_FOLLOWS);
        if (!is_known_again(mine))
            return false;
    }
    for (size_t i = 0; i < news->kvs.count; i++) {
        const note_result result = note_event(mine, &news->kvs.items[i]);

        if (result == NOTE_NO_ROOM)
            wait_for_next(mine);
        if (result != NOTE_GOOD)
            return false;
        /* A callback may have caused a call that failed and took the endpoint away. */
        if (mine->state != WATCH_FOLLOWS && mine->state != WATCH_OPENS)
            return false;
    }
    return true;
}

static bool take_line(fry_etcd_watch *mine, const char *line, size_t bytes)
{
    const fry_memory *memory = mine->etcd->memory;
    fry_etcd_news news;
    const fry_etcd_read read = fry_etcd_read_news(memory, line, bytes, &news);

    if (read != FRY_ETCD_READ) {
        if (read == FRY_ETCD_GARBLED)
            fry_etcd_call_was_garbled(&mine->stream);
        wait_for_next(mine);
        return false;
    }
    const bool goes_on = take_news(mine, &news);
    fry_etcd_kvs_release(memory, &news.kvs);
    return goes_on;
}

static void stream_has_come(fry_etcd_call *stream)
{
    fry_etcd_watch *mine = stream->arg;
    const char *line;
    size_t bytes;
    const bool is_over = !fry_async_is_on(&stream->async);
    bool goes_on = true;

    if (!is_over || stream->outcome == FRY_ETCD_ANSWERED) {
        while (goes_on && (line = fry_etcd_call_line(stream, &bytes)) != NULL)
            goes_on = bytes == 0 || take_line(mine, line, bytes);
    }
    if (goes_on && is_over)
        wait_for_next(mine);
}

static void open_stream(fry_etcd_watch *mine)
{
    fry_reactor *reactor = mine->etcd->reactor;

    set_state(mine, WATCH_OPENS);
    fry_timer_set(reactor, &mine->timer, fry_reactor_now_ns(reactor) + CREATED_WITHIN_NS);
    mine->heard_ns = fry_reactor_now_ns(reactor);
    mine->stream.fn = stream_has_come;
    mine->stream.arg = mine;
    mine->stream.path = "/v3/watch";
    mine->stream.is_stream = true;
    fry_etcd_call_start(mine->etcd, &mine->stream,
                        fry_etcd_write_watch(mine->watch->prefix, mine->revision + 1));
}

/* ---- the list ---- */

static note_result note_absent(fry_etcd_watch *mine)
{
    fry_known *known = fry_known_first(&mine->known);

    while (known != NULL) {
        fry_known *next = fry_known_next(known);

        if (known->round != mine->round && note_deletion(mine, known) == NOTE_STOPPED)
            return NOTE_STOPPED;
        known = next;
    }
    return NOTE_GOOD;
}

static note_result take_page(fry_etcd_watch *mine, const fry_etcd_page *page)
{
    note_result result = note_life(mine);

    for (size_t i = 0; i < page->kvs.count && result == NOTE_GOOD; i++)
        result = note_put(mine, &page->kvs.items[i].entry);
    if (result == NOTE_GOOD && !page->has_more)
        result = note_absent(mine);
    if (result == NOTE_GOOD && !page->has_more && !tell(mine, FRY_STORE_IS_LISTED, NULL))
        result = NOTE_STOPPED;
    return result;
}

static bool list_has_come(fry_etcd_list *list, fry_etcd_page *page)
{
    fry_etcd_watch *mine = list->arg;

    if (page == NULL) {
        wait_for_next(mine);
        return false;
    }
    const note_result result = take_page(mine, page);
    if (result == NOTE_STOPPED)
        return false;
    if (result == NOTE_NO_ROOM) {
        wait_for_next(mine);
        return false;
    }
    if (result == NOTE_ANOTHER) {
        fry_etcd_is_another(mine->etcd, list->revision);
        begin(mine);
        return false;
    }
    /* A callback may have caused a call that failed and took the endpoint away. */
    if (mine->state != WATCH_LISTS)
        return false;
    if (page->has_more)
        return true;
    mine->revision = list->revision;
    open_stream(mine);
    return false;
}

static void begin(fry_etcd_watch *mine)
{
    fry_etcd_call_cancel(&mine->stream);
    set_state(mine, WATCH_LISTS);
    mine->round++;
    mine->list.fn = list_has_come;
    mine->list.arg = mine;
    fry_etcd_list_start(mine->etcd, &mine->list, mine->watch->prefix);
}

/* ---- all watches ---- */

/* Moves the watches that rely on this endpoint to another. */
static void leave_endpoint(fry_etcd *etcd, unsigned endpoint)
{
    fry_store_watch *watch;

    LIST_FOREACH(watch, &etcd->base.watches, entry) {
        fry_etcd_watch *mine = watch->private_;

        if (mine != NULL && (mine->state == WATCH_FOLLOWS || mine->state == WATCH_OPENS) &&
            mine->stream.endpoint == endpoint)
            wait_for_next(mine);
    }
}

/* Lists anew the watches that were silent for long while the store went on. */
static void list_silent(fry_etcd *etcd)
{
    const int64_t now_ns = fry_reactor_now_ns(etcd->reactor);
    fry_store_watch *watch;

    LIST_FOREACH(watch, &etcd->base.watches, entry) {
        fry_etcd_watch *mine = watch->private_;

        if (mine != NULL && mine->state == WATCH_FOLLOWS && mine->revision < etcd->revision &&
            now_ns - mine->heard_ns >= SILENT_NS)
            begin(mine);
    }
}

/* ---- the probe ---- */

static void plan_probe(fry_etcd *etcd);

static void probe_is_over(fry_etcd_call *call)
{
    fry_etcd *etcd = call->arg;
    fry_etcd_page page;
    bool is_another = false;

    if (call->outcome == FRY_ETCD_ANSWERED) {
        if (fry_etcd_read_page(etcd->memory, call->answer, call->answer_bytes, &page) ==
            FRY_ETCD_READ) {
            is_another = page.revision < etcd->probe_revision;
            fry_etcd_revision_is(etcd, page.revision);
            fry_etcd_kvs_release(etcd->memory, &page.kvs);
        } else {
            fry_etcd_call_was_garbled(call);
        }
    }
    fry_etcd_call_release(call);
    /* The lists of the watches will notice another store. */
    if (is_another || (call->outcome != FRY_ETCD_ANSWERED && call->outcome != FRY_ETCD_REFUSED))
        leave_endpoint(etcd, call->endpoint);
    plan_probe(etcd);
}

/* Counts one key, which costs etcd only the question to the quorum. */
static void ask_probe(fry_etcd *etcd)
{
    const char *prefix = LIST_FIRST(&etcd->base.watches)->prefix;
    const char *key = *prefix != '\0' ? prefix : "ferry";
    const fry_etcd_range range = {.key = key, .key_bytes = strlen(key), .is_count_only = true};

    etcd->probe_revision = etcd->revision;
    etcd->probe.fn = probe_is_over;
    etcd->probe.arg = etcd;
    etcd->probe.path = "/v3/kv/range";
    fry_etcd_call_start(etcd, &etcd->probe, fry_etcd_write_range(&range));
}

static void probe_is_due(fry_timer *timer)
{
    fry_etcd *etcd = timer->arg;

    if (LIST_EMPTY(&etcd->base.watches))
        return;
    list_silent(etcd);
    if (fry_reactor_now_ns(etcd->reactor) - etcd->heard_ns >= PROBE_NS)
        ask_probe(etcd);
    else
        plan_probe(etcd);
}

static void plan_probe(fry_etcd *etcd)
{
    const int64_t now_ns = fry_reactor_now_ns(etcd->reactor);
    int64_t when_ns = etcd->heard_ns + PROBE_NS;

    /* After a failure nothing was heard for long: not again at once. */
    if (when_ns <= now_ns)
        when_ns = now_ns + PROBE_NS;
    if (!etcd->probe_timer.is_on && !fry_async_is_on(&etcd->probe.async))
        fry_timer_set(etcd->reactor, &etcd->probe_timer, when_ns);
}

static bool start(fry_etcd *etcd, fry_store_watch *watch)
{
    fry_etcd_watch *mine = fry_alloc(etcd->memory, sizeof *mine, _Alignof(fry_etcd_watch));

    if (mine == NULL)
        return false;
    mine->etcd = etcd;
    mine->watch = watch;
    mine->known.memory = etcd->memory;
    mine->life = etcd->life;
    mine->timer = (fry_timer){.fn = timer_is_due, .arg = mine};
    mine->lost_timer = (fry_timer){.fn = lost_is_due, .arg = mine};
    watch->private_ = mine;
    doubt(mine);
    begin(mine);
    plan_probe(etcd);
    return true;
}

/* Starts watches for which there was no memory: a watch can't be refused. */
static void watch_timer_is_due(fry_timer *timer)
{
    fry_etcd *etcd = timer->arg;
    fry_store_watch *watch;
    bool is_good = true;

    LIST_FOREACH(watch, &etcd->base.watches, entry)
        is_good = (watch->private_ != NULL || start(etcd, watch)) && is_good;
    if (!is_good)
        fry_timer_set(etcd->reactor, timer, fry_reactor_now_ns(etcd->reactor) + MEMORY_RETRY_NS);
}

void fry_etcd_watch_start(fry_store *store, fry_store_watch *watch)
{
    fry_etcd *etcd = (fry_etcd *)store;

    if (start(etcd, watch))
        return;
    fry_timer_set(etcd->reactor, &etcd->watch_timer,
                  fry_reactor_now_ns(etcd->reactor) + MEMORY_RETRY_NS);
}

void fry_etcd_watch_stop(fry_store_watch *watch)
{
    fry_etcd_watch *mine = watch->private_;

    if (mine == NULL)
        return;
    watch->private_ = NULL;
    fry_etcd_call_cancel(&mine->list.call);
    fry_etcd_call_cancel(&mine->stream);
    fry_timer_stop(mine->etcd->reactor, &mine->lost_timer);
    fry_timer_stop(mine->etcd->reactor, &mine->timer);
    fry_known_forget_all(&mine->known);
    fry_free(mine->etcd->memory, mine, sizeof *mine);
}

void fry_etcd_watches_open(fry_etcd *etcd)
{
    etcd->left_endpoint = leave_endpoint;
    etcd->watch_timer = (fry_timer){.fn = watch_timer_is_due, .arg = etcd};
    etcd->probe_timer = (fry_timer){.fn = probe_is_due, .arg = etcd};
}

void fry_etcd_watches_close(fry_etcd *etcd)
{
    fry_timer_stop(etcd->reactor, &etcd->probe_timer);
    fry_timer_stop(etcd->reactor, &etcd->watch_timer);
    fry_etcd_call_cancel(&etcd->probe);
}
