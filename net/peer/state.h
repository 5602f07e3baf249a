/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of a peer and of its connection; for the others here and their tests.
 *
 * A *launch* takes the next number of the connection's direction and, if it is a message, a *slot*:
 * an index that the launcher chooses, and that the other end names when it acknowledges. Slots
 * bound everything: there are as many as unexpected_max, and a message keeps its slot until it is
 * acknowledged, so the other end never owes more answers than that, nor keeps more records. Data
 * sent with its message also counts against the window until it is acknowledged. The receiver has
 * memory for the whole window, in chunks of one size, so that no pattern of sizes can fragment it:
 * b bytes take at most b / chunk + 1 chunks.
 *
 *  - A message that finds the window full is launched to be pulled: no window, however small, holds
 *    anything up.
 *  - A message that finds no slot waits. Entered sends are bounded by the same number, so this
 *    happens only if the two ends' bounds differ, or after a change of connections.
 *
 * Why nobody waits for ever. An arrival never waits: it gets its place, is kept in memory allocated
 * before, or is refused. The answers that it owes are posted when progress is made, at the latest
 * when the connection is armed. They need no slot and no window, only one of a few posts of their
 * own, which come back when the channel is done with them. So if two ends only send at first, with
 * any window, all their sends are launched and kept, and both ends are free to receive.
 *
 * Leaving. An end that leaves says BYE, its last launch, after it has posted every answer that it
 * owed. BYE has the number of those answers, because the channel may bring them later. The other
 * end acts on BYE when it has heard that many: it then knows of each of its sends whether it was
 * received, and lets the others fail. After BYE the leaving end answers nothing, because the answer
 * would be missing in the number; messages that come then are not received. Between hosts the other
 * end says FAREWELL, and the leaving end keeps the channel until then, because its sockets would
 * take along what the network has under way. On one host, what was posted is in the other end's
 * memory, and the leaving end waits only until it has been posted. net/peer/leave.pml.
 *
 * Gathering. Small messages launched directly after one another can go as one message of the
 * channel (net/peer/bundle.c); the launcher says that more follow. To everything except the channel
 * each of them is a launch of its own.
 */
#ifndef FRY_NET_PEER_STATE_H
#define FRY_NET_PEER_STATE_H

#include "net/peer/any.h"
#include "net/peer/connection.h"
#include "net/peer/find.h"
#include "net/peer/lots.h"
#include "net/peer/match.h"
#include "net/peer/wire.h"

#define FRY_CONNECTION_CONTROLS 64 /* control headers under way at most */
#define FRY_CHUNK_BYTES 1024
#define FRY_NO_SLOT UINT32_MAX
#define FRY_CONNECTION_BUNDLES 4 /* bundles gathered or under way at most */
#define FRY_BUNDLE_MESSAGE_BYTES 512
#define FRY_BUNDLE_MESSAGES 64 /* at most, so that the other end can begin early */
#define FRY_BUNDLE_BYTES 8000  /* table and data: with UCX's header in one of its buffers */
#define FRY_CONNECTION_ASKED                                                                       \
    8 /* pieces asked for at once, at most: so many places an end that                             \
         stands still keeps */
#define FRY_CONNECTION_SERVED                                                                      \
    32                           /* pieces served at once, at most: a channel may report a post as \
                                    done only after its bytes have been used */
#define FRY_CONNECTION_WANTED 32 /* pieces that are wanted while as many are served: serve.c */
#define FRY_MESSAGE_ASKED 4      /* pieces of one message at once, at most */
#define FRY_NO_PIECES "the other member can't exchange messages in pieces, as GPU memory needs"

/* fry_message.flags. */
enum {
    FRY_MESSAGE_GHOST = 1, /* stands for a withdrawn message; the peer's memory */
    FRY_MESSAGE_BARE = 2,  /* withdrawn, and there was no memory for a ghost: stands for itself, and
                              only its memory is free (fry_peer_events.untouched) */
    FRY_MESSAGE_WAITS = 4, /* a send: in the peer's list of waiting sends */
    FRY_MESSAGE_TAKEN = 8, /* a receive: private_ is the record of its message */
    FRY_MESSAGE_PULLED = 16, /* a send: its data stays until it is pulled */
    FRY_MESSAGE_LOST = 32,   /* a receive whose pull failed: it waits for the connection's end */
    FRY_MESSAGE_OLD = 64,    /* belongs to a connection that is over */
    FRY_MESSAGE_IN_PIECES =
        128, /* a send: pieces of it may be asked for. A receive: it gets them */
};

/* States of a piece; of those that are free, too. */
typedef enum fry_slice_state {
    FRY_SLICE_FREE = 0,
    FRY_SLICE_FILLING,  /* served: the engine gets its bytes */
    FRY_SLICE_POSTED,   /* served: the channel has it */
    FRY_SLICE_PLACING,  /* asked: the engine makes a place for it */
    FRY_SLICE_PLACED,   /* asked: the other end is to be told, when there is a control */
    FRY_SLICE_ASKED,    /* asked: the other end has been told */
    FRY_SLICE_PULLING,  /* asked: it comes */
    FRY_SLICE_LANDING,  /* asked: the engine takes it */
    FRY_SLICE_GIVEN_UP, /* asked: it comes, but its message is over */
    FRY_SLICE_LOST,     /* asked: its pull failed, and the connection with it */

    /* Of views, which begin PLACED and then are ASKED. */
    FRY_SLICE_VIEWING,  /* the engine reads */
    FRY_SLICE_VIEWED,   /* all was read: the other end is to be told, when there is a control */
    FRY_SLICE_CHECKING, /* it has been told, and is to say whether the bytes were still offered */
    FRY_SLICE_LEAVING,  /* the other end is to be told that nobody reads, when there is a control */
    FRY_SLICE_SHOWN,    /* shown: the other end may read */
    FRY_SLICE_SEEN,     /* shown: it has read all, and is to be told that they were still offered */
} fry_slice_state;

/* A piece, or a view, that the other end has asked for, and that has to wait. */
typedef struct fry_want {
    uint64_t offset, size_bytes;
    uint32_t slot, number;
    bool is_view; /* it has to be told where the bytes are */
} fry_want;

/*
 * Replaces a message that is withdrawn before it is launched, or before a message came for it:
 * holds its place, and the fault for the other end.
 */
typedef struct fry_ghost {
    fry_message message; /* first */
    fry_fault fault;
} fry_ghost;

struct fry_chunk {
    fry_chunk *next;
    uint8_t bytes[FRY_CHUNK_BYTES - sizeof(void *)];
};

_Static_assert(sizeof(fry_fault) <= sizeof(((fry_chunk *)0)->bytes), "a fault takes one chunk");

typedef struct fry_connection_slot {
    fry_message *message; /* NULL: withdrawn, or poison */
    uint32_t window_bytes;
    bool is_used, is_in_window;
    uint8_t join; /* fry_join, of the message; joint.c */
    bool is_notice;
    bool is_recalled; /* the other end has been told that it was withdrawn */
    uint32_t number;  /* of the launch */
    int32_t recall;   /* a status: the other end must still be told that it was withdrawn */
    uint64_t recalled_op;
    fry_message *put; /* withdrawn, and quiet no sooner than it is answered; NULL: none */
} fry_connection_slot;

typedef struct fry_control {
    fry_post post;
    struct fry_control *next;
} fry_control;

/* Messages that are launched but not posted yet, all at once: net/peer/bundle.c. */
typedef struct fry_bundle {
    fry_post post;
    struct fry_bundle *next;
    fry_wire_header first; /* the first message's header */
    uint32_t message_count, series_count;
    size_t data_bytes;
    fry_wire_series series[FRY_WIRE_SERIES_MAX];
    uint8_t bytes[FRY_WIRE_TABLE_BYTES_MAX + FRY_BUNDLE_BYTES]; /* room for the table, then data */
} fry_bundle;

typedef enum fry_connection_state {
    FRY_CONNECTION_NEW = 0,
    FRY_CONNECTION_ATTACHED,
    FRY_CONNECTION_LEAVING, /* launches nothing more except BYE, and answers what it owes */
    FRY_CONNECTION_ENDING,  /* is being detached, and sends the answers that it owes */
    FRY_CONNECTION_FAILED,  /* must be detached */
    FRY_CONNECTION_OVER,    /* was detached */
} fry_connection_state;

struct fry_peer_connection {
    fry_peer *peer; /* NULL until attached */
    fry_channel *channel;
    fry_connection_state state;
    bool is_keyed;
    bool has_short; /* FRY_WIRE_SHORT is used in both directions */

    /* Launching. */
    uint64_t op_sent; /* op of the last message that was not gathered; the next one is near it */
    uint32_t send_number; /* the next */
    uint32_t slot_count;  /* number of slots, at both ends */
    uint32_t slots_used, slots_fresh;
    uint32_t free_first,
        free_count; /* a ring of freed slots, in the order in which they were freed */
    uint32_t free_mask;
    uint32_t *free_slots;
    fry_connection_slot *slots;
    uint32_t eager_bytes_max;
    uint32_t window_messages_used;
    uint64_t window_bytes_used;
    uint32_t posting; /* messages with data under way, except those to be pulled */
    uint32_t recalls; /* slots with a recall */

    /* Acknowledging: runs of slots in a ring. */
    fry_wire_run *runs;
    uint32_t ring_mask; /* of runs; free_slots has the same room */
    uint32_t run_first, run_count;
    uint32_t unsent; /* acknowledgements in the runs */
    uint32_t batch;  /* this many are sent without waiting for more */
    uint32_t answers_posted;
    uint32_t turns; /* turns of progress that some have waited */

    /* Leaving. */
    bool is_parting; /* fry_peer_part must be called again */
    bool is_bye_said, has_farewell;
    bool has_bye; /* the other end's BYE has come, and waits for the answers that it counts */
    uint32_t bye_answers;
    uint32_t answers_heard;

    /* Receiving. */
    uint64_t op_received;    /* likewise */
    uint32_t receive_number; /* the next */
    uint32_t owed;           /* messages that came and were not answered yet */
    uint32_t stashed;
    uint32_t stash_mask;
    fry_record **stash;   /* by number: messages that came before their turn */
    fry_record **by_slot; /* messages that may still be pulled */
    fry_record *records, *records_free;
    fry_unmatched *unmatched; /* with any source: one for each record; else NULL */
    uint32_t unmatched_count; /* in fry_any.unmatched */
    uint32_t records_fresh, record_count;
    fry_chunk *chunks, *chunks_free;
    size_t chunks_fresh, chunk_count;
    uint32_t pulling;

    fry_control controls[FRY_CONNECTION_CONTROLS];
    fry_control *controls_free;
    uint32_t controls_used;
    fry_record *refusals_first, *refusals_last; /* they wait for a control header */

    fry_bundle *bundles, *bundles_free;
    fry_bundle *bundle; /* the bundle being gathered, or NULL */

    /* Pieces. */
    fry_slice *slices; /* FRY_CONNECTION_ASKED to ask for, FRY_CONNECTION_SERVED to serve */
    fry_slice *asks_free, *serves_free;
    fry_record *asking_first, *asking_last; /* they have more to ask for */
    uint32_t unasked;                       /* pieces and views that wait for a control */
    uint32_t views;                         /* that have begun and are not over */
    uint32_t shown;                         /* sends that the other end may be reading */
    uint32_t unsaid;                        /* shown ones that wait for a control */
    uint64_t hide_generation;               /* hide.c: what the other end is asked to close */
    bool hide_is_asked, hide_is_due;
    bool hide_is_heard, hidden_is_due; /* this end is asked; its answer waits for a control */
    fry_want *wants;                   /* FRY_CONNECTION_WANTED, oldest first */
    uint32_t want_count;

    fry_joint *joint;      /* NULL: messages join no lots */
    fry_finds *windows;    /* NULL: the other end knows none */
    uint8_t *notice_rooms; /* for the bytes of those that come: notice.c */
    uint32_t notices_out;  /* notices that were launched and not answered */
    bool notices_are_due;  /* some were answered, and others wait */

    fry_message
        ended; /* list: withdrawn or resolved, and their memory may be in use; after detach */

    /* Between hosts. */
    uint64_t headers_sent;
    uint64_t headers_end;   /* one past the highest count that came */
    uint64_t *headers_seen; /* bits of the last ones before that */
    uint64_t headers_mask;

    fry_connection_session session;
    const fry_memory *memory;
    fry_fault fault; /* why it failed before it was attached */
};

struct fry_peer {
    fry_peer_connection *connection;
    void *turn; /* of the current call: passed to events */
    fry_match sends, receives;
    fry_match apart;                   /* receives of windows: their tags are the peers' own */
    uint64_t reaches;                  /* number of tags that this end has given */
    uint32_t epoch;                    /* number of connections so far */
    TAILQ_HEAD(, fry_found) finds;     /* windows that are sought when there is a connection */
    TAILQ_HEAD(, fry_message) notices; /* that wait to be launched, in order */
    TAILQ_HEAD(, fry_message) waiting;
    uint32_t send_count;    /* sends that entered and that the other end has not answered */
    uint32_t receive_count; /* receives that entered and have not ended */
    size_t open_count;      /* messages that are not quiet */
    bool has_wanted;
    bool has_stopped; /* no more receives */
    fry_message open; /* list of all open messages, and of ghosts */
    fry_message old;  /* list: messages that fry_peer_detach is resolving */
    fry_peer_options options;
};

/* ---- lists of messages, circular ---- */

static inline void fry_list_init(fry_message *list)
{
    list->open_next = list;
    list->open_previous = list;
}

static inline void fry_list_add(fry_message *list, fry_message *message)
{
    message->open_next = list;
    message->open_previous = list->open_previous;
    list->open_previous->open_next = message;
    list->open_previous = message;
}

/* Takes a message out of its list; doing it again changes nothing. */
static inline void fry_list_take(fry_message *message)
{
    message->open_next->open_previous = message->open_previous;
    message->open_previous->open_next = message->open_next;
    fry_list_init(message);
}

/* Adds an entering message. */
static inline void fry_peer_add_open(fry_peer *peer, fry_message *message)
{
    message->was_viewed = message->was_joint = false;
    message->flags = 0;
    message->posts = 0;
    message->peer = peer;
    message->other_op = 0;
    fry_list_add(&peer->open, message);
    peer->open_count++;
}

/* With any source: the receive has this message, and settles it when it is ready. */
static inline void fry_receive_take(fry_message *message, fry_record *record)
{
    message->flags = FRY_MESSAGE_TAKEN;
    message->private_ = record;
    message->other_op = record->op;
    record->receive = message;
}

/* The same, before: tells the engine, and takes over the message's tag and size. */
static inline void fry_receive_meet(fry_peer *peer, fry_message *message, const fry_record *record)
{
    message->tag = record->tag;
    if (record->size_bytes <= message->size_bytes)
        message->size_bytes = (size_t)record->size_bytes;
    peer->options.events->met(peer->turn, message, peer, record->size_bytes);
}

/* A probe, which waits no more, has found a message, which stays. The probe may be gone. */
static inline void fry_receive_found(fry_peer *peer, fry_message *probe, const fry_record *record)
{
    const fry_peer_events *events = peer->options.events;
    probe->tag = record->tag;
    events->met(peer->turn, probe, peer, record->size_bytes);
    probe->state = FRY_MESSAGE_QUIET;
    if (events->done != NULL) {
        events->done(peer->turn, probe);
    } else {
        events->resolved(peer->turn, probe, FERRY_OK, NULL);
        events->quiet(peer->turn, probe);
    }
}

/* Makes one that waited for a message of any peer a receive of this one's. */
static inline void fry_peer_adopt(fry_peer *peer, fry_message *message)
{
    fry_peer_add_open(peer, message);
    message->private_ = NULL;
    peer->receive_count++;
}

/* Makes a message quiet. Frees a ghost. */
static inline void fry_message_make_quiet(fry_message *message)
{
    fry_peer *peer = message->peer;
    fry_list_take(message);
    if (fry_unlikely(message->flags & FRY_MESSAGE_GHOST)) {
        fry_free(peer->options.memory, message, sizeof(fry_ghost));
        return;
    }
    peer->open_count--;
    message->state = FRY_MESSAGE_QUIET;
    peer->options.events->quiet(peer->turn, message);
}

/* Frees the message's memory and, if it left a ghost, the message. */
static inline void fry_message_be_replaced(fry_message *message, const fry_message *ghost)
{
    const fry_peer *peer = message->peer;
    if (ghost != message)
        fry_message_make_quiet(message);
    else if (peer->options.events->untouched != NULL)
        peer->options.events->untouched(peer->turn, message);
}

/* Ends a message, with its event; it becomes quiet too unless it is under way. */
static inline void fry_message_finish(fry_message *message, ferry_status status,
                                      const fry_fault *fault)
{
    fry_peer *peer = message->peer;
    const fry_peer_events *events = peer->options.events;
    bool is_under_way = message->state == FRY_MESSAGE_UNDER_WAY;
    if (fry_likely(status == FERRY_OK && !is_under_way && events->done != NULL)) {
        fry_list_take(message);
        peer->open_count--;
        message->state = FRY_MESSAGE_QUIET;
        events->done(peer->turn, message);
        return;
    }
    message->state = FRY_MESSAGE_ENDED;
    events->resolved(peer->turn, message, status, fault);
    if (!is_under_way)
        fry_message_make_quiet(message);
}

/* A receive: from here on only the caller ends it. */
static inline void fry_receive_begin_end(fry_message *message)
{
    message->flags &= (uint8_t) ~(FRY_MESSAGE_TAKEN | FRY_MESSAGE_IN_PIECES);
    message->state = FRY_MESSAGE_ENDED;
    message->peer->receive_count--;
}

/* A send that was launched: its memory is read, for one more post of a piece, or where it is. */
static inline void fry_send_post_begins(fry_message *message)
{
    if (message->state == FRY_MESSAGE_UNDER_WAY && message->posts == 0)
        message->posts = 1; /* its own post */
    message->posts++;
    message->state = FRY_MESSAGE_UNDER_WAY;
}

/* A send: the channel is done with a post, of the message or a piece: its memory is read no more.
 */
static inline void fry_send_post_is_over(fry_message *message)
{
    if (fry_unlikely(message->posts > 0) && --message->posts > 0)
        return;
    if (message->state == FRY_MESSAGE_ENDED) {
        fry_message_make_quiet(message);
        return;
    }
    message->state = FRY_MESSAGE_DELIVERED;
    if (fry_unlikely(message->is_staged && message->memory != NULL)) {
        const fry_peer *peer = message->peer;
        message->memory = NULL;
        if (peer->options.events->left != NULL)
            peer->options.events->left(peer->turn, message);
    }
}

/* The table of a receive, or of a message that has come. */
static inline fry_match *fry_peer_receives(fry_peer *peer, bool is_apart)
{
    return fry_unlikely(is_apart) ? &peer->apart : &peer->receives;
}

/* ---- of a connection ---- */

static inline bool fry_connection_is_live(const fry_peer_connection *connection)
{
    return connection->state >= FRY_CONNECTION_ATTACHED &&
           connection->state <= FRY_CONNECTION_ENDING;
}

static inline bool fry_connection_has_slot(const fry_peer_connection *connection)
{
    return connection->slots_used < connection->slot_count;
}

/* Takes a slot; there is one. */
static inline uint32_t fry_connection_take_slot(fry_peer_connection *connection)
{
    connection->slots_used++;
    if (connection->free_count == 0) {
        /* The ring is empty, and grows with how many there are to be given back: a connection
         * touches no more of it than it needs. By one at a time, so that the mask is always whole.
         */
        connection->free_first = 0;
        connection->free_mask |= connection->slots_fresh;
        return connection->slots_fresh++;
    }
    uint32_t slot = connection->free_slots[connection->free_first];
    connection->free_first = (connection->free_first + 1) & connection->free_mask;
    connection->free_count--;
    return slot;
}

static inline void fry_connection_give_slot(fry_peer_connection *connection, uint32_t slot)
{
    connection
        ->free_slots[(connection->free_first + connection->free_count) & connection->free_mask] =
        slot;
    connection->free_count++;
    connection->slots_used--;
}

/* Posts a body of at most FRY_WIRE_BODY_BYTES_MAX, in room for FRY_HEADER_BYTES_MAX. */
static inline fry_post_result fry_connection_post(fry_peer_connection *connection, fry_post *post,
                                                  uint8_t *header, size_t bytes)
{
    if (fry_unlikely(connection->is_keyed))
        bytes = fry_connection_seal(connection, header, bytes);
    post->header = header;
    post->header_bytes = bytes;
    return connection->channel->ops->post(connection->channel, post);
}

/* Takes the oldest run to acknowledge, for a header that is sent anyway; count 0: none. */
static inline fry_wire_run fry_connection_take_run(fry_peer_connection *connection)
{
    if (connection->run_count == 0)
        return (fry_wire_run){0, 0};
    fry_wire_run run = connection->runs[connection->run_first];
    connection->run_first = (connection->run_first + 1) & connection->ring_mask;
    connection->run_count--;
    connection->unsent -= run.count;
    connection->owed -= run.count;
    connection->answers_posted += run.count;
    return run;
}

/* Ends a piece, which nobody uses any more. is_told: the engine knows. */
static inline void fry_slice_end(fry_slice **free, fry_slice *piece, bool is_told)
{
    const fry_peer *peer = piece->connection->peer;
    if (piece->is_staged && !is_told)
        peer->options.events->over(peer->turn, piece);
    piece->state = FRY_SLICE_FREE;
    piece->next = *free;
    *free = piece;
}

static inline bool fry_connection_owes_answers(const fry_peer_connection *connection)
{
    return connection->run_count > 0 || connection->refusals_first != NULL;
}

#endif
