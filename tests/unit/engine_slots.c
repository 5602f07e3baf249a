/* SPDX-License-Identifier: Apache-2.0 */
/* Slots of a GPU, over engines. The engines here are awake, so nobody wakes them. */
#include "engine/messages/slots.h"

#include <criterion/criterion.h>
#include <stdio.h>

#define WISHES 4

static ferry_engine engines[WISHES];
static fry_slot_wish wishes[WISHES];

static fry_slots *open_slots(const char *name, uint32_t most)
{
    fry_slots *slots = fry_slots_find(name);
    cr_assert_not_null(slots);
    for (int i = 0; i < WISHES; i++)
        fry_slot_wish_init(&wishes[i], slots, &engines[i], most);
    return slots;
}

Test(engine_slots, a_gpu_has_one_set_of_them_in_a_process)
{
    fry_slots *first = fry_slots_find("cuda:0");
    cr_assert_not_null(first);
    cr_assert_eq(fry_slots_find("cuda:0"), first);
    cr_assert_neq(fry_slots_find("cuda:1"), first);
}

Test(engine_slots, names_end_some_time)
{
    char name[24];
    for (int i = 0; i < FRY_DEVICES_MAX; i++) {
        (void)snprintf(name, sizeof name, "cuda:%d", i);
        cr_assert_not_null(fry_slots_find(name));
    }
    cr_assert_null(fry_slots_find("cuda:more"));
    cr_assert_not_null(fry_slots_find("cuda:0"));
}

Test(engine_slots, so_many_are_taken_and_others_wait_in_their_order)
{
    fry_slots *slots = open_slots("cuda:0", 2);
    cr_assert(fry_slot_take(&wishes[0]));
    cr_assert(fry_slot_take(&wishes[0]), "who took one may take another");
    cr_assert_not(fry_slot_take(&wishes[1]));
    cr_assert_not(fry_slot_take(&wishes[2]));
    cr_assert_not(fry_slot_take(&wishes[0]));
    fry_slot_give(slots);
    cr_assert(fry_slot_is_granted(&wishes[1]));
    cr_assert_not(fry_slot_is_granted(&wishes[2]));
    cr_assert_not(fry_slot_take(&wishes[3]), "what came back is held for who waited");
    cr_assert(fry_slot_take(&wishes[1]));
    fry_slot_give(slots);
    fry_slot_give(slots);
    cr_assert(fry_slot_is_granted(&wishes[2]) && fry_slot_is_granted(&wishes[0]));
    cr_assert_not(fry_slot_is_granted(&wishes[3]));
}

Test(engine_slots, what_is_declined_goes_to_the_next)
{
    fry_slots *slots = open_slots("cuda:0", 1);
    cr_assert(fry_slot_take(&wishes[0]));
    cr_assert_not(fry_slot_take(&wishes[1]));
    cr_assert_not(fry_slot_take(&wishes[2]));
    fry_slot_give(slots);
    fry_slot_decline(&wishes[1]);
    cr_assert(fry_slot_is_granted(&wishes[2]));
    cr_assert_not(fry_slot_take(&wishes[1]), "it is the last again");
    fry_slot_decline(&wishes[2]);
    cr_assert(fry_slot_take(&wishes[1]));
}

Test(engine_slots, who_forgets_keeps_none)
{
    fry_slots *slots = open_slots("cuda:0", 1);
    fry_slot_forget(&wishes[3]);
    cr_assert(fry_slot_take(&wishes[0]));
    cr_assert_not(fry_slot_take(&wishes[1]));
    cr_assert_not(fry_slot_take(&wishes[2]));
    cr_assert_not(fry_slot_take(&wishes[3]));
    fry_slot_forget(&wishes[2]);
    fry_slot_give(slots);
    fry_slot_forget(&wishes[1]); /* it was granted */
    cr_assert(fry_slot_take(&wishes[3]));
    cr_assert_not(fry_slot_take(&wishes[2]));
    fry_slot_give(slots);
    cr_assert(fry_slot_take(&wishes[2]));
}

/* One that lets fewer be in use than others do waits for longer. */
Test(engine_slots, each_has_a_bound_of_its_own)
{
    fry_slots *slots = open_slots("cuda:0", 3);
    fry_slot_wish_init(&wishes[1], slots, &engines[1], 1);
    cr_assert(fry_slot_take(&wishes[0]));
    cr_assert(fry_slot_take(&wishes[0]));
    cr_assert_not(fry_slot_take(&wishes[1]));
    cr_assert_not(fry_slot_take(&wishes[2]), "and who comes after it does, too");
    fry_slot_give(slots);
    cr_assert_not(fry_slot_is_granted(&wishes[1]));
    fry_slot_give(slots);
    cr_assert(fry_slot_is_granted(&wishes[1]) && fry_slot_is_granted(&wishes[2]));
}
