/* SPDX-License-Identifier: Apache-2.0 */
/* Who does not know the secret neither joins nor disturbs. */
#include "net/group/members.h"
#include "net/group/seal.h"
#include "tests/support/group_rig.h"

#include <criterion/criterion.h>
#include <string.h>

static const char secret[] = "sixteen bytes at least", other_secret[] = "another, as long as that";

Test(net_group_seal, a_text_proves_itself_where_it_stands)
{
    fry_group_seal seal, other;
    char text[128] = "a text\n", changed[128];
    const size_t bytes = strlen(text);

    cr_assert(fry_group_seal_init(&seal, "job", secret, sizeof secret));
    cr_assert(fry_group_seal_init(&other, "job", other_secret, sizeof other_secret));
    const size_t sealed_bytes = fry_group_seal_close(&seal, "key", text, bytes);
    size_t read_bytes = sealed_bytes;

    cr_assert_eq(sealed_bytes, bytes + FRY_GROUP_PROOF_BYTES);
    cr_assert(fry_group_seal_open(&seal, "key", text, &read_bytes));
    cr_assert_eq(read_bytes, bytes);
    read_bytes = sealed_bytes;
    cr_assert_not(fry_group_seal_open(&seal, "kez", text, &read_bytes));
    cr_assert_not(fry_group_seal_open(&other, "key", text, &read_bytes));
    cr_assert(fry_group_seal_init(&other, "jobs", secret, sizeof secret));
    cr_assert_not(fry_group_seal_open(&other, "key", text, &read_bytes));
    for (size_t i = 0; i < sealed_bytes; i++) {
        memcpy(changed, text, sizeof changed);
        changed[i] ^= 1;
        cr_assert_not(fry_group_seal_open(&seal, "key", changed, &read_bytes), "byte %zu", i);
    }
    for (read_bytes = 0; read_bytes < sealed_bytes; read_bytes++)
        cr_assert_not(fry_group_seal_open(&seal, "key", text, &read_bytes));
}

Test(net_group_seal, without_a_secret_there_is_no_proof)
{
    fry_group_seal seal;
    char text[128] = "a text\n"; /* with the room that closing asks for, key or none */
    size_t bytes = strlen(text);

    cr_assert(fry_group_seal_init(&seal, "job", NULL, 0));
    cr_assert_eq(fry_group_seal_close(&seal, "key", text, bytes), bytes);
    cr_assert(fry_group_seal_open(&seal, "key", text, &bytes));
    cr_assert_eq(bytes, strlen(text));
}

static void join(group_rig *rig, size_t index, uint32_t size, int32_t rank, const char *with)
{
    fry_group_options options = rig_options(rig, index, size, rank);

    options.secret = with;
    options.secret_bytes = with != NULL ? strlen(with) : 0;
    options.deadline_ns = fry_reactor_now_ns(rig->members[index].reactor) + 10 * RIG_SECOND_NS;
    rig_join(rig, index, &options);
}

Test(net_group_seal, those_of_one_secret_meet, .timeout = 60)
{
    GROUP_RIG(rig, 3, 1);
    for (size_t i = 0; i < 3; i++)
        join(&rig, i, 3, (int32_t)i, secret);
    rig_settle(&rig);
    for (size_t i = 0; i < 3; i++)
        cr_assert(rig.members[i].is_joined && rig.members[i].status == FERRY_OK);
}

Test(net_group_seal, those_of_two_secrets_do_not, .timeout = 60)
{
    GROUP_RIG(rig, 2, 1);
    join(&rig, 0, 2, 0, secret);
    join(&rig, 1, 2, 1, other_secret);
    rig_settle(&rig);
    cr_assert_not(rig.members[0].is_joined || rig.members[1].is_joined);
    rig_pass(&rig, 11 * RIG_SECOND_NS);
    rig_settle(&rig);
    for (size_t i = 0; i < 2; i++)
        cr_assert_eq(rig.members[i].status, FERRY_E_DEADLINE);
}

Test(net_group_seal, a_stranger_is_refused_at_once_and_changes_nothing, .timeout = 60)
{
    GROUP_RIG(rig, 4, 1);
    join(&rig, 0, 2, 0, secret);
    join(&rig, 1, 2, 1, secret);
    rig_settle(&rig);
    join(&rig, 2, 2, 1, other_secret);
    join(&rig, 3, 2, 1, NULL);
    rig_settle(&rig);
    cr_assert_eq(rig.members[2].status, FERRY_E_INVALID);
    cr_assert_neq(strstr(rig.members[2].message, "secret"), NULL);
    cr_assert_eq(rig.members[3].status, FERRY_E_INVALID);
    rig_pass(&rig, RIG_SECOND_NS);
    rig_settle(&rig);
    cr_assert_eq(rig.members[0].history_count, 0);
    cr_assert_eq(fry_group_member_at(rig.members[0].group, 1)->state, FERRY_MEMBER_HERE);
    cr_assert_eq(fry_group_member_at(rig.members[1].group, 0)->state, FERRY_MEMBER_HERE);
}
