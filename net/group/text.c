/* SPDX-License-Identifier: Apache-2.0 */
#include "net/group/text.h"

#include "net/group/group.h"
#include "net/store/store.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

/* What is left to read. After the first error everything fails. */
typedef struct reader {
    const char *at, *end;
    bool is_bad;
} reader;

static reader reader_of(const char *text, size_t text_bytes)
{
    return (reader){.at = text, .end = text + text_bytes};
}

static void expect(reader *r, const char *literal)
{
    const size_t bytes = strlen(literal);

    if (r->is_bad || (size_t)(r->end - r->at) < bytes || memcmp(r->at, literal, bytes) != 0)
        r->is_bad = true;
    else
        r->at += bytes;
}

/* Reads a decimal number without leading zeros. */
static uint64_t number(reader *r, uint64_t max)
{
    const char *begin = r->at;
    uint64_t value = 0;

    while (!r->is_bad && r->at < r->end && *r->at >= '0' && *r->at <= '9') {
        const uint64_t digit = (uint64_t)(*r->at - '0');

        if (value > (UINT64_MAX - digit) / 10)
            r->is_bad = true;
        value = value * 10 + digit;
        r->at++;
    }
    if (r->at == begin || (*begin == '0' && r->at - begin > 1) || value > max)
        r->is_bad = true;
    return r->is_bad ? 0 : value;
}

static uint64_t hex(reader *r)
{
    uint64_t value = 0;

    if (r->is_bad || r->end - r->at < 16) {
        r->is_bad = true;
        return 0;
    }
    for (int i = 0; i < 16; i++) {
        const char digit = *r->at++;

        if (digit >= '0' && digit <= '9')
            value = value << 4 | (uint64_t)(digit - '0');
        else if (digit >= 'a' && digit <= 'f')
            value = value << 4 | (uint64_t)(digit - 'a' + 10);
        else
            r->is_bad = true;
    }
    return r->is_bad ? 0 : value;
}

/* Reads printable ASCII and the end of its line; "-" is the empty text. */
static void line(reader *r, char *text, size_t text_bytes)
{
    const char *begin = r->at;

    while (!r->is_bad && r->at < r->end && *r->at != '\n') {
        if (*r->at < 0x20 || *r->at > 0x7e)
            r->is_bad = true;
        r->at++;
    }
    const size_t bytes = (size_t)(r->at - begin);
    expect(r, "\n");
    if (bytes == 0 || bytes >= text_bytes)
        r->is_bad = true;
    if (r->is_bad)
        return;
    memcpy(text, begin, bytes);
    text[bytes] = '\0';
    if (strcmp(text, "-") == 0)
        text[0] = '\0';
}

static bool is_read(const reader *r)
{
    return !r->is_bad && r->at == r->end;
}

static const char *or_dash(const char *text)
{
    return text[0] != '\0' ? text : "-";
}

/* ---- members ---- */

static const char *const record_states[] = {[FRY_RECORD_HERE] = "here",
                                            [FRY_RECORD_BACK] = "back",
                                            [FRY_RECORD_BUSY] = "busy",
                                            [FRY_RECORD_LEFT] = "left"};

/* Reads one of a few words of the same length. */
static size_t word(reader *r, const char *const *words, size_t count)
{
    const size_t bytes = strlen(words[0]);

    for (size_t i = 0; i < count && !r->is_bad && (size_t)(r->end - r->at) >= bytes; i++) {
        if (memcmp(r->at, words[i], bytes) == 0) {
            r->at += bytes;
            return i;
        }
    }
    r->is_bad = true;
    return 0;
}

static void read_process(reader *r, fry_group_process *process)
{
    process->pid = (int64_t)number(r, INT32_MAX);
    expect(r, " ");
    process->started = number(r, UINT64_MAX);
    expect(r, " ");
    process->kernel = hex(r);
}

#define PROCESS_FORMAT "%" PRId64 " %" PRIu64 " %016" PRIx64

size_t fry_group_record_write(const fry_group_record *record, char *text)
{
    return (size_t)snprintf(
        text, FRY_GROUP_MEMBER_TEXT_BYTES,
        "ferry member 2\nstate %s\nrank %" PRIu32 "\nsize %" PRIu32 " %" PRIu32 "\ndevices %" PRIu32
        "\nlease %" PRId64 "\nprocess " PROCESS_FORMAT "\nplace %s\nhost %s\nendpoint %s\n",
        record_states[record->state], (uint32_t)(record->rank + 1), record->size, record->size_min,
        record->device_count, record->lease_ns, record->process.pid, record->process.started,
        record->process.kernel, or_dash(record->place), or_dash(record->host),
        or_dash(record->endpoint));
}

bool fry_group_record_read(const char *text, size_t text_bytes, fry_group_record *record)
{
    reader r = reader_of(text, text_bytes);

    *record = (fry_group_record){.rank = FRY_RANK_ANY};
    expect(&r, "ferry member 2\nstate ");
    record->state =
        (fry_record_state)word(&r, record_states, sizeof record_states / sizeof *record_states);
    expect(&r, "\nrank ");
    record->rank = (int32_t)number(&r, FERRY_GROUP_SIZE_MAX) - 1;
    expect(&r, "\nsize ");
    record->size = (uint32_t)number(&r, FERRY_GROUP_SIZE_MAX);
    expect(&r, " ");
    record->size_min = (uint32_t)number(&r, FERRY_GROUP_SIZE_MAX);
    expect(&r, "\ndevices ");
    record->device_count = (uint32_t)number(&r, FRY_GROUP_DEVICES_MAX);
    expect(&r, "\nlease ");
    record->lease_ns = (int64_t)number(&r, FRY_GROUP_LEASE_MAX_NS);
    expect(&r, "\nprocess ");
    read_process(&r, &record->process);
    expect(&r, "\nplace ");
    line(&r, record->place, sizeof record->place);
    expect(&r, "host ");
    line(&r, record->host, sizeof record->host);
    expect(&r, "endpoint ");
    line(&r, record->endpoint, sizeof record->endpoint);
    return is_read(&r);
}

/* ---- the roster ---- */

/*
 * An open group's roster is one without a given size that no members formed (formed 0). Where a
 * holder has ended, the number of that change and whether it has left stand in the place of its
 * process, and it has no devices. So a ferry that knows no open groups reads it as a group that has
 * no rank for it, and is refused.
 */
static const char *const slot_states[] = {"here", "dead"};

size_t fry_group_roster_write(const fry_group_roster *roster, char *text)
{
    const size_t bytes = FRY_GROUP_ROSTER_TEXT_BYTES(roster->size);
    size_t at = (size_t)snprintf(
        text, bytes,
        "ferry roster 2\nlineage %016" PRIx64 " life %" PRIu64 "\nstarts %" PRIu64 " %" PRIu64
        " restores %" PRIu64 "\nlease %" PRId64 "\nsize %s %" PRIu32 "\n",
        roster->lineage, roster->life, roster->starts, roster->formed, roster->restores,
        roster->lease_ns, roster->is_unsized || roster->is_open ? "open" : "fixed", roster->size);

    for (uint32_t rank = 0; rank < roster->size; rank++) {
        const fry_group_slot *slot = &roster->slots[rank];
        fry_group_process process = slot->process;

        if (roster->is_open && slot->is_dead)
            process = (fry_group_process){.started = slot->ended, .kernel = slot->has_left};

        at += (size_t)snprintf(text + at, bytes - at,
                               "%016" PRIx64 " %" PRIu64 " %s %016" PRIx64 " %" PRIu32
                               " " PROCESS_FORMAT "\n",
                               slot->id, slot->incarnation, slot_states[slot->is_dead], slot->place,
                               slot->device_count, process.pid, process.started, process.kernel);
    }
    return at;
}

/* Of an open group's slot whose holder has ended: what stands in the place of its process. */
static void read_end(reader *r, fry_group_slot *slot, const fry_group_roster *roster)
{
    const fry_group_process said = slot->process;
    const bool was_ever = slot->id != 0;

    slot->ended = said.started;
    slot->has_left = said.kernel != 0;
    slot->process = (fry_group_process){0};
    if (said.pid != 0 || said.kernel > 1 || slot->device_count != 0 ||
        slot->ended > roster->starts || (was_ever && slot->ended == 0) ||
        was_ever != (slot->incarnation != 0) || slot->ended < slot->incarnation)
        r->is_bad = true;
}

static void read_slots(reader *r, fry_group_roster *roster)
{
    uint32_t first = 0;

    for (uint32_t rank = 0; rank < roster->size && !r->is_bad; rank++) {
        fry_group_slot *slot = &roster->slots[rank];

        slot->id = hex(r);
        expect(r, " ");
        slot->incarnation = number(r, roster->starts);
        expect(r, " ");
        slot->is_dead = word(r, slot_states, 2) == 1;
        expect(r, " ");
        slot->place = hex(r);
        expect(r, " ");
        slot->device_count = (uint32_t)number(r, FRY_GROUP_DEVICES_MAX);
        slot->first_device = roster->is_open ? rank << FRY_GROUP_SEAT_DEVICES_BITS : first;
        first += slot->device_count;
        expect(r, " ");
        read_process(r, &slot->process);
        expect(r, "\n");
        if (roster->is_open && slot->is_dead)
            read_end(r, slot, roster);
        else if (slot->id == 0)
            r->is_bad = true;
    }
}

fry_group_roster *fry_group_roster_read(const fry_memory *memory, const char *text,
                                        size_t text_bytes, bool *is_text_bad)
{
    reader r = reader_of(text, text_bytes);
    fry_group_roster head = {0};

    expect(&r, "ferry roster 2\nlineage ");
    head.lineage = hex(&r);
    expect(&r, " life ");
    head.life = number(&r, UINT64_MAX - 1);
    expect(&r, "\nstarts ");
    head.starts = number(&r, FRY_GROUP_STARTS_MAX);
    expect(&r, " ");
    head.formed = number(&r, head.starts);
    expect(&r, " restores ");
    head.restores = number(&r, UINT32_MAX);
    expect(&r, "\nlease ");
    head.lease_ns = (int64_t)number(&r, FRY_GROUP_LEASE_MAX_NS);
    expect(&r, "\nsize ");
    head.is_unsized = !r.is_bad && r.at < r.end && *r.at == 'o';
    expect(&r, head.is_unsized ? "open " : "fixed ");
    head.is_open = head.is_unsized && head.formed == 0;
    head.is_unsized &= !head.is_open;
    head.size = (uint32_t)number(&r, FERRY_GROUP_SIZE_MAX);
    expect(&r, "\n");
    *is_text_bad = r.is_bad || head.size == 0;
    if (*is_text_bad)
        return NULL;
    const size_t bytes = FRY_GROUP_ROSTER_BYTES(head.size);
    fry_group_roster *roster = fry_alloc(memory, bytes, _Alignof(fry_group_roster));
    if (roster == NULL)
        return NULL;
    *roster = head;
    read_slots(&r, roster);
    *is_text_bad = !is_read(&r);
    if (*is_text_bad) {
        fry_free(memory, roster, bytes);
        return NULL;
    }
    return roster;
}

static bool is_newer(const fry_group_slot *slot, const fry_group_slot *than)
{
    return slot->incarnation > than->incarnation ||
           (slot->incarnation == than->incarnation && slot->is_dead && !than->is_dead);
}

bool fry_group_roster_merge(fry_group_roster *into, const fry_group_roster *from)
{
    uint64_t number = into->starts > from->starts ? into->starts : from->starts;
    bool has_taken = false;

    for (uint32_t rank = 0; rank < into->size && rank < from->size; rank++) {
        const uint32_t first_device = into->slots[rank].first_device;

        if (!is_newer(&from->slots[rank], &into->slots[rank]) ||
            (into->is_open && from->slots[rank].id != into->slots[rank].id))
            continue;
        into->slots[rank] = from->slots[rank];
        into->slots[rank].first_device = first_device;
        if (into->is_open)
            into->slots[rank].ended = ++number;
        has_taken = true;
    }
    if (from->restores > into->restores) {
        into->restores = from->restores;
        has_taken = true;
    }
    if (has_taken && number > into->starts)
        into->starts = number;
    if (has_taken && from->lease_ns > into->lease_ns)
        into->lease_ns = from->lease_ns;
    return has_taken;
}

/* ---- rounds ---- */

size_t fry_group_verdict_write(const fry_group_verdict *verdict, char *text, size_t text_bytes)
{
    const int length = snprintf(
        text, text_bytes,
        "ferry round 1\nlife %" PRIu64 " round %" PRIu64 " passed %" PRIu64
        "\nstatus %d rank %" PRIu32 " %s\nset %016" PRIx64 " value %" PRIu64 "\nranks %.*s\n",
        verdict->life, verdict->number, verdict->passed, -(int)verdict->status, verdict->rank,
        verdict->has_left ? "left" : "-", verdict->set, verdict->value, (int)verdict->ranks_bytes,
        verdict->ranks);

    return (size_t)length < text_bytes ? (size_t)length : text_bytes - 1;
}

static bool is_verdict_status(ferry_status status)
{
    return status == FERRY_OK || status == FERRY_E_DEADLINE || status == FERRY_E_DEAD ||
           status == FERRY_E_CANCELLED || status == FERRY_E_INVALID || status == FERRY_E_STORE;
}

bool fry_group_verdict_read(const char *text, size_t text_bytes, fry_group_verdict *verdict)
{
    reader r = reader_of(text, text_bytes);

    *verdict = (fry_group_verdict){.ranks = ""};
    expect(&r, "ferry round 1\nlife ");
    verdict->life = number(&r, UINT64_MAX - 1);
    expect(&r, " round ");
    verdict->number = number(&r, UINT64_MAX - 1);
    expect(&r, " passed ");
    verdict->passed = number(&r, verdict->number);
    expect(&r, "\nstatus ");
    verdict->status = (ferry_status)(-(int)number(&r, 1000));
    expect(&r, " rank ");
    verdict->rank = (uint32_t)number(&r, FERRY_GROUP_SIZE_MAX - 1);
    expect(&r, " ");
    verdict->has_left = !r.is_bad && r.at < r.end && *r.at == 'l';
    expect(&r, verdict->has_left ? "left" : "-");
    expect(&r, "\nset ");
    verdict->set = hex(&r);
    expect(&r, " value ");
    verdict->value = number(&r, UINT64_MAX);
    expect(&r, "\nranks ");
    verdict->ranks = r.at;
    while (!r.is_bad && r.at < r.end && *r.at != '\n')
        r.at++;
    verdict->ranks_bytes = (size_t)(r.at - verdict->ranks);
    expect(&r, "\n");
    return is_read(&r) && is_verdict_status(verdict->status);
}

size_t fry_group_arrival_write(const fry_group_arrival *arrival, char *text)
{
    return (size_t)snprintf(
        text, FRY_GROUP_LINE_TEXT_BYTES, "%s %" PRIu64 " %" PRIu64 " %016" PRIx64 " %" PRIu64 "\n",
        arrival->name, arrival->number, arrival->incarnation, arrival->set, arrival->value);
}

bool fry_group_arrival_next(const char **text_p, const char *end, fry_group_arrival *arrival)
{
    reader r = reader_of(*text_p, (size_t)(end - *text_p));
    const char *begin = r.at;

    while (r.at < r.end && *r.at != ' ')
        r.at++;
    const size_t bytes = (size_t)(r.at - begin);
    if (bytes == 0 || bytes >= sizeof arrival->name)
        return false;
    memcpy(arrival->name, begin, bytes);
    arrival->name[bytes] = '\0';
    expect(&r, " ");
    arrival->number = number(&r, UINT64_MAX - 1);
    expect(&r, " ");
    arrival->incarnation = number(&r, UINT64_MAX - 1);
    expect(&r, " ");
    arrival->set = hex(&r);
    expect(&r, " ");
    arrival->value = number(&r, UINT64_MAX);
    expect(&r, "\n");
    *text_p = r.at;
    return !r.is_bad;
}

bool fry_group_set_write(const bool *is_in, uint32_t size, char *text, size_t text_bytes)
{
    size_t at = 0;

    (void)snprintf(text, text_bytes, "-");
    for (uint32_t rank = 0; rank < size; rank++) {
        if (!is_in[rank])
            continue;
        uint32_t last = rank;
        char piece[32];

        while (last + 1 < size && is_in[last + 1])
            last++;
        const int length =
            last > rank ? snprintf(piece, sizeof piece, "%s%" PRIu32 "-%" PRIu32, at > 0 ? "," : "",
                                   rank, last)
                        : snprintf(piece, sizeof piece, "%s%" PRIu32, at > 0 ? "," : "", rank);
        if (at + (size_t)length >= text_bytes)
            return false;
        memcpy(text + at, piece, (size_t)length + 1);
        at += (size_t)length;
        rank = last;
    }
    return true;
}

bool fry_group_set_read(const char *text, size_t text_bytes, bool *is_in, uint32_t size)
{
    reader r = reader_of(text, text_bytes);
    uint64_t next = 0;

    memset(is_in, 0, size * sizeof *is_in);
    if (text_bytes == 1 && text[0] == '-')
        return true;
    do {
        const uint64_t first = number(&r, size - 1);
        uint64_t last = first;

        if (!r.is_bad && r.at < r.end && *r.at == '-') {
            r.at++;
            last = number(&r, size - 1);
        }
        if (first < next || last < first)
            r.is_bad = true;
        for (uint64_t rank = first; rank <= last && !r.is_bad; rank++)
            is_in[rank] = true;
        next = last + 1;
        if (!r.is_bad && r.at < r.end)
            expect(&r, ",");
        else
            break;
    } while (!r.is_bad);
    return is_read(&r);
}

bool fry_group_set_has(const char *text, size_t text_bytes, uint32_t rank)
{
    reader r = reader_of(text, text_bytes);

    if (text_bytes == 1 && text[0] == '-')
        return false;
    while (!r.is_bad && r.at < r.end) {
        const uint64_t first = number(&r, FERRY_GROUP_SIZE_MAX - 1);
        uint64_t last = first;

        if (!r.is_bad && r.at < r.end && *r.at == '-') {
            r.at++;
            last = number(&r, FERRY_GROUP_SIZE_MAX - 1);
        }
        if (r.is_bad || (first <= rank && rank <= last))
            return true;
        if (r.at < r.end)
            expect(&r, ",");
    }
    return r.is_bad || r.at == text;
}

/* ---- acknowledgements ---- */

size_t fry_group_clear_write(const fry_group_clear *clear, char *text, size_t text_bytes)
{
    const int length = snprintf(text, text_bytes, "ferry clear 1\nseen %" PRIu64 "\nheld %.*s\n",
                                clear->seen, (int)clear->held_bytes, clear->held);

    return (size_t)length < text_bytes ? (size_t)length : text_bytes - 1;
}

bool fry_group_clear_read(const char *text, size_t text_bytes, fry_group_clear *clear)
{
    reader r = reader_of(text, text_bytes);

    expect(&r, "ferry clear 1\nseen ");
    clear->seen = number(&r, FRY_GROUP_STARTS_MAX);
    expect(&r, "\nheld ");
    clear->held = r.at;
    while (!r.is_bad && r.at < r.end && *r.at != '\n')
        r.at++;
    clear->held_bytes = (size_t)(r.at - clear->held);
    expect(&r, "\n");
    return is_read(&r) && clear->held_bytes > 0;
}

/* ---- notices, and small things ---- */

size_t fry_group_notice_write(uint64_t life, uint32_t rank, char *text, size_t text_bytes)
{
    return (size_t)snprintf(text, text_bytes, "ferry notice 1\nlife %" PRIu64 " rank %" PRIu32 "\n",
                            life, rank);
}

bool fry_group_notice_read(const char *text, size_t text_bytes, uint64_t *life_p, uint32_t *rank_p)
{
    reader r = reader_of(text, text_bytes);

    expect(&r, "ferry notice 1\nlife ");
    *life_p = number(&r, UINT64_MAX - 1);
    expect(&r, " rank ");
    *rank_p = (uint32_t)number(&r, FERRY_GROUP_SIZE_MAX - 1);
    expect(&r, "\n");
    return is_read(&r);
}

uint64_t fry_group_hash(const void *bytes, size_t size_bytes)
{
    static const unsigned char key[crypto_shorthash_KEYBYTES] = "ferry: a group";
    unsigned char out[crypto_shorthash_BYTES];
    uint64_t hash = 0;

    (void)crypto_shorthash(out, bytes, size_bytes, key);
    for (size_t i = 0; i < sizeof out; i++)
        hash |= (uint64_t)out[i] << (8 * i); /* the same on every machine */
    return hash != 0 ? hash : 1;
}

bool fry_group_is_name(const char *text, size_t bytes_max, bool may_have_slashes)
{
    return fry_store_is_key(text) && strlen(text) <= bytes_max &&
           (may_have_slashes || strchr(text, '/') == NULL);
}

bool fry_group_id_read(const char *text, uint64_t *id_p)
{
    reader r = reader_of(text, strlen(text));

    *id_p = hex(&r);
    return is_read(&r) && *id_p != 0;
}
