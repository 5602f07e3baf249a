/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/program_player.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is in a notice ---- */

size_t player_note_make(const player *player, uint32_t sender, uint32_t index,
                        unsigned char bytes[FERRY_NOTICE_BYTES_MAX])
{
    const program_act *act = &player->program.members[sender].acts[index];
    player_note note = {NOTE_ACT, player->program.round, index};
    memcpy(bytes, &note, sizeof note);
    for (uint32_t i = 0; i < act->size; i++)
        bytes[sizeof note + i] = (unsigned char)(sender * 31 + index * 7 + note.round + i);
    return sizeof note + act->size;
}

ferry_future *player_note_send(player *player, uint32_t to, player_note note,
                               const ferry_op_options *options)
{
    return ferry_notice_send(player->self.group, to, &note, sizeof note, options);
}

/* ---- taking ---- */

/* The bytes that a notice tells of are there: in the window here, or in one that is asked. The
 * window's first part is written once in a round, so what it is in the end it is now. */
static void look(player *player, uint32_t teller, const program_act *put)
{
    const unsigned char *wanted =
        player->program.members[put->peer].memory[1 + put->window] + put->window_offset;
    const unsigned char *bytes = player->bytes[1 + put->window] + put->window_offset;
    ferry_buffer *buffer = NULL;
    if (put->peer != player->self.rank) {
        player_found *found = &player->found[put->peer][put->window];
        ferry_device *device = ferry_device_at(player->self.engine, 0);
        PLAYER_CHECK(player, ferry_buffer_alloc(device, put->size, &buffer) == FERRY_OK,
                     "no buffer");
        PLAYER_CHECK(player,
                     found->future == NULL || ferry_future_wait(found->future, -1) == FERRY_OK,
                     "a window is not found");
        ferry_future *get =
            ferry_get(found->window, put->window_offset, ferry_buffer_span(buffer), NULL);
        ferry_status status = ferry_future_wait(get, -1);
        PLAYER_CHECK(player, status == FERRY_OK, "the get of what a notice tells of: %s",
                     ferry_status_name(status));
        ferry_future_release(get);
        bytes = ferry_buffer_data(buffer);
    }
    PLAYER_CHECK(player, memcmp(bytes, wanted, put->size) == 0,
                 "a notice of rank %u tells of %u bytes in a window of rank %u, and they are wrong",
                 (unsigned)teller, (unsigned)put->size, (unsigned)put->peer);
    ferry_buffer_release(buffer);
}

/* With the mutex. The put that it tells of; NULL: of none. */
static const program_act *take_act(player *player, uint32_t sender, const ferry_value *value)
{
    unsigned char expected[FERRY_NOTICE_BYTES_MAX];
    player_note note;
    memcpy(&note, value->data, sizeof note);
    const program_member *member = &player->program.members[sender];
    const program_act *act = &member->acts[note.index];
    PLAYER_CHECK(player,
                 note.index < member->act_count && act->kind == FERRY_OP_NOTICE &&
                     act->peer == player->self.rank,
                 "rank %u sends a notice that is not in the program", (unsigned)sender);
    PLAYER_CHECK(player,
                 value->size_bytes == player_note_make(player, sender, note.index, expected) &&
                     memcmp(value->data, expected, value->size_bytes) == 0,
                 "notice %u of rank %u is not what was sent", (unsigned)note.index,
                 (unsigned)sender);
    PLAYER_CHECK(player, !act->is_order_known || note.index >= player->next_index[sender],
                 "notice %u of rank %u comes after one that was sent later", (unsigned)note.index,
                 (unsigned)sender);
    if (act->is_order_known)
        player->next_index[sender] = note.index + 1;
    player->taken[sender][note.index]++;
    player->notices++;
    return act->told != 0 ? &member->acts[act->told - 1] : NULL;
}

/* False: it was the last that this member takes. */
static bool take(player *player, uint32_t sender, const ferry_value *value)
{
    player_note note;
    const program_act *told = NULL;
    PLAYER_CHECK(player, value->size_bytes >= sizeof note, "a notice of rank %u is cut",
                 (unsigned)sender);
    memcpy(&note, value->data, sizeof note);
    if (note.kind == NOTE_STOP)
        return false;
    pthread_mutex_lock(&player->mutex);
    bool is_late = note.round != player->program.round;
    PLAYER_CHECK(player, !is_late || !random_program_lives(&player->program, sender),
                 "a notice of rank %u, of round %u", (unsigned)sender, (unsigned)note.round);
    PLAYER_CHECK(player, is_late || player->ended[sender] <= note.round,
                 "a notice of rank %u comes after its last", (unsigned)sender);
    while (!is_late && !player->has_begun)
        pthread_cond_wait(&player->changed, &player->mutex);
    if (!is_late && note.kind == NOTE_ACT)
        told = take_act(player, sender, value);
    else if (!is_late)
        player->ended[sender] = note.round + 1;
    pthread_cond_broadcast(&player->changed);
    pthread_mutex_unlock(&player->mutex);
    if (told != NULL) /* the round goes on: its sender's last notice is taken behind this */
        look(player, sender, told);
    return true;
}

static void *take_all(void *arg)
{
    player *player = arg;
    bool goes_on = true;
    while (goes_on) {
        ferry_value value = FERRY_VALUE_INIT;
        ferry_message_info info = FERRY_MESSAGE_INFO_INIT;
        ferry_future *next = ferry_notice_next(player->self.group, 0);
        ferry_status status = ferry_future_wait(next, -1);
        PLAYER_CHECK(player, status == FERRY_OK, "no next notice: %s", ferry_status_name(status));
        PLAYER_CHECK(player,
                     ferry_future_value(next, &value) == FERRY_OK &&
                         ferry_message_describe(next, &info) == FERRY_OK &&
                         info.rank < player->program.member_count,
                     "a notice without a value");
        goes_on = take(player, info.rank, &value);
        ferry_future_release(next);
    }
    return NULL;
}

void player_taker_start(player *player)
{
    PLAYER_CHECK(player, pthread_create(&player->taker, NULL, take_all, player) == 0, "no thread");
}

void player_taker_stop(player *player)
{
    ferry_future *stop =
        player_note_send(player, player->self.rank, (player_note){.kind = NOTE_STOP}, NULL);
    PLAYER_CHECK(player, ferry_future_wait(stop, -1) == FERRY_OK, "no notice to this member");
    ferry_future_release(stop);
    pthread_join(player->taker, NULL);
}

/* ---- a round's end ---- */

static uint32_t count_bits(uint32_t bits)
{
    uint32_t count = 0;
    for (; bits != 0; bits &= bits - 1)
        count++;
    return count;
}

/* A firm one was taken as often as it was sent; others perhaps. */
static void check_taken(const player *player, uint32_t sender)
{
    const program_member *member = &player->program.members[sender];
    for (uint32_t i = 0; i < member->act_count; i++) {
        const program_act *act = &member->acts[i];
        if (act->kind != FERRY_OP_NOTICE || act->peer != player->self.rank)
            continue;
        uint32_t sent = count_bits(act->picks), taken = player->taken[sender][i];
        PLAYER_CHECK(player, act->fate == PROGRAM_FIRM ? taken == sent : taken <= sent,
                     "notice %u of rank %u was taken %u times, and sent %u times", (unsigned)i,
                     (unsigned)sender, (unsigned)taken, (unsigned)sent);
    }
}

static bool have_ended(const player *player)
{
    bool all = true;
    for (uint32_t i = 0; i < player->program.member_count; i++)
        all = all && (!random_program_lives(&player->program, i) ||
                      player->ended[i] == player->program.round + 1);
    return all;
}

void player_taker_await(player *player)
{
    pthread_mutex_lock(&player->mutex);
    while (!have_ended(player))
        pthread_cond_wait(&player->changed, &player->mutex);
    for (uint32_t i = 0; i < player->program.member_count; i++)
        check_taken(player, i);
    pthread_mutex_unlock(&player->mutex);
}
