/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "tests/unit/counted_memory.h"

#include <pthread.h>
#include <string.h>

COUNTED_SUITE(base_error);

Test(base_error, says_what_it_was_told)
{
    const fry_fault fault = {.status = FERRY_E_SYSTEM,
                             .rank = -1,
                             .domain = "errno",
                             .native_code = 12,
                             .op = 99,
                             .label = "weights",
                             .message = "not this"};
    fry_error *error = fry_error_create(&memory, &fault, NULL, "no %s for %d", "room", 7);
    cr_assert_eq(error->public_.status, FERRY_E_SYSTEM);
    cr_assert_eq(error->public_.rank, FERRY_RANK_NONE);
    cr_assert_str_eq(error->public_.domain, "errno");
    cr_assert_eq(error->public_.native_code, 12);
    cr_assert_eq(error->public_.op, 99);
    cr_assert_str_eq(error->public_.label, "weights");
    cr_assert_str_eq(error->public_.message, "no room for 7");
    cr_assert_null(error->public_.cause);
    fry_error_release(error);
}

Test(base_error, its_message_is_the_faults_if_it_is_given_none)
{
    const fry_fault fault = {
        .status = FERRY_E_PEER, .rank = 3, .native_code = -7, .domain = "ucx", .message = "100 %s"};
    fry_error *error = fry_error_create(&memory, &fault, NULL, NULL);
    cr_assert_eq(error->public_.rank, 3);
    cr_assert_eq(error->public_.native_code, -7);
    cr_assert_str_eq(error->public_.domain, "ucx");
    cr_assert_str_eq(error->public_.message, "100 %s");
    fry_error_release(error);
}

Test(base_error, its_fault_comes_back_without_its_label_and_cut)
{
    char text[FRY_FAULT_MESSAGE_BYTES * 2];
    memset(text, 'm', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    const fry_fault fault = {.status = FERRY_E_SYSTEM,
                             .rank = 4,
                             .op = 99,
                             .native_code = 12,
                             .domain = "errno",
                             .label = "weights"};
    fry_error *error = fry_error_create(&memory, &fault, NULL, "%s", text);
    const fry_fault back = fry_error_fault(error);
    cr_assert_eq(back.status, FERRY_E_SYSTEM);
    cr_assert_eq(back.rank, 4);
    cr_assert_eq(back.op, 99);
    cr_assert_eq(back.native_code, 12);
    cr_assert_str_eq(back.domain, "errno");
    cr_assert_null(back.label);
    cr_assert_eq(strlen(back.message), FRY_FAULT_MESSAGE_BYTES - 1);
    fry_error_release(error);
    cr_assert_null(fry_error_fault(fry_error_static(FERRY_E_AGAIN)).domain);
}

Test(base_error, defaults)
{
    const fry_fault fault = {.status = FERRY_E_CANCELLED, .rank = -1};
    fry_error *error = fry_error_create(&memory, &fault, NULL, NULL);
    cr_assert_str_eq(error->public_.domain, "ferry");
    cr_assert_str_eq(error->public_.message, ferry_status_text(FERRY_E_CANCELLED));
    cr_assert_null(error->public_.label);
    cr_assert_eq(error->public_.op, 0);
    cr_assert_eq(error->public_.native_code, 0);
    fry_error_release(error);
}

Test(base_error, an_empty_message_becomes_the_text)
{
    const fry_fault fault = {.status = FERRY_E_DEVICE, .rank = -1};
    fry_error *error = fry_error_create(&memory, &fault, NULL, "%s", "");
    cr_assert_str_eq(error->public_.message, ferry_status_text(FERRY_E_DEVICE));
    fry_error_release(error);
}

Test(base_error, long_messages_are_cut)
{
    char text[FRY_ERROR_MESSAGE_BYTES * 2];
    memset(text, 'm', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    const fry_fault fault = {.status = FERRY_E_FAILED, .rank = -1};
    fry_error *error = fry_error_create(&memory, &fault, NULL, "%s", text);
    cr_assert_eq(strlen(error->public_.message), FRY_ERROR_MESSAGE_BYTES - 1);
    cr_assert_eq(strspn(error->public_.message, "m"), FRY_ERROR_MESSAGE_BYTES - 1);
    fry_error_release(error);
}

Test(base_error, a_user_status_of_any_number_is_kept)
{
    const fry_fault fault = {.status = (ferry_status)-777, .rank = -1};
    fry_error *error = fry_error_create(&memory, &fault, NULL, NULL);
    cr_assert_eq((int)error->public_.status, -777);
    cr_assert_str_eq(error->public_.message, "unknown status");
    fry_error_release(error);
}

Test(base_error, a_chain_of_causes_keeps_its_root_only)
{
    const fry_fault root_fault = {.status = FERRY_E_DEVICE, .op = 1, .rank = -1};
    fry_error *root = fry_error_create(&memory, &root_fault, NULL, "burnt");
    fry_error *last = fry_error_retain(root);
    for (uint64_t op = 2; op < 1000; op++) {
        const fry_fault fault = {.status = FERRY_E_DEPENDENCY, .rank = -1, .op = op};
        fry_error *next = fry_error_create(&memory, &fault, last, NULL);
        cr_assert_eq(next->public_.cause, &root->public_);
        fry_error_release(last); /* only the root is held by next */
        last = next;
    }
    cr_assert_eq(failing_allocator_live_bytes(&fa),
                 (int64_t)(2 * sizeof(fry_error) + sizeof "burnt"));
    fry_error_release(root);
    cr_assert_str_eq(last->public_.cause->message, "burnt"); /* lives through `last` */
    cr_assert_eq(last->public_.cause->op, 1);
    fry_error_release(last);
}

Test(base_error, a_static_cause_is_kept)
{
    const fry_fault fault = {.status = FERRY_E_DEPENDENCY, .rank = -1};
    fry_error *cause = fry_error_static(FERRY_E_SHUTDOWN);
    fry_error *error = fry_error_create(&memory, &fault, cause, NULL);
    cr_assert_eq(error->public_.cause, &fry_error_static(FERRY_E_SHUTDOWN)->public_);
    fry_error_release(error);
}

Test(base_error, static_errors_are_one_a_status_and_never_counted)
{
#define CHECK_STATIC(name, value, text)                                                            \
    {                                                                                              \
        fry_error *error = fry_error_static(name);                                                 \
        cr_assert_eq(error, fry_error_static(name));                                               \
        cr_assert_eq(error->public_.status, name);                                                 \
        cr_assert_str_eq(error->public_.message, text);                                            \
        cr_assert_str_eq(error->public_.domain, "ferry");                                          \
        cr_assert_eq(error->public_.rank, FERRY_RANK_NONE);                                        \
        cr_assert_null(error->public_.cause);                                                      \
        cr_assert_eq(fry_error_retain(error), error);                                              \
        cr_assert_eq(error->references, UINT32_MAX);                                               \
        for (int i = 0; i < 3; i++)                                                                \
            fry_error_release(error);                                                              \
        cr_assert_eq(error->references, UINT32_MAX);                                               \
    }
    FERRY_STATUS_MAP(CHECK_STATIC)
#undef CHECK_STATIC
    cr_assert_neq(fry_error_static(FERRY_E_AGAIN), fry_error_static(FERRY_E_INVALID));
}

/* As many as there is room for; further ones are a failure without a number. */
Test(base_error, users_numbers_have_static_errors_too)
{
    fry_error *first = fry_error_static((ferry_status)-777);
    for (int i = 0; i < FRY_ERROR_NUMBERS + 10; i++) {
        const fry_error *error = fry_error_static((ferry_status)(-777 - i));
        bool has_room = i < FRY_ERROR_NUMBERS;
        cr_assert_eq(error->public_.status, has_room ? -777 - i : FERRY_E_FAILED);
        cr_assert_str_eq(error->public_.domain, has_room ? "user" : "ferry");
        cr_assert_eq(error, fry_error_static((ferry_status)(-777 - i)));
        cr_assert(fry_error_is_static(error));
    }
    cr_assert_eq(fry_error_static((ferry_status)-777), first);
    cr_assert_eq(fry_error_static((ferry_status)INT32_MIN), fry_error_static(FERRY_E_FAILED));
}

typedef struct asker {
    pthread_barrier_t *all_here;
    const fry_error *errors[100];
} asker;

static void *ask_for_numbers(void *arg)
{
    asker *self = arg;
    (void)pthread_barrier_wait(self->all_here);
    for (int i = 0; i < 100; i++)
        self->errors[i] = fry_error_static((ferry_status)(-1000 - i));
    return NULL;
}

/* Whoever is first. */
Test(base_error, users_numbers_have_one_error_each_for_all_threads)
{
    enum { ASKERS = 4 };
    asker askers[ASKERS];
    pthread_t threads[ASKERS];
    pthread_barrier_t all_here;
    (void)pthread_barrier_init(&all_here, NULL, ASKERS);
    for (int i = 0; i < ASKERS; i++) {
        askers[i].all_here = &all_here;
        cr_assert_eq(pthread_create(&threads[i], NULL, ask_for_numbers, &askers[i]), 0);
    }
    for (int i = 0; i < ASKERS; i++)
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    for (int k = 0; k < 100; k++) {
        for (int i = 0; i < ASKERS; i++) {
            cr_assert_eq(askers[i].errors[k], askers[0].errors[k]);
            cr_assert_eq(askers[i].errors[k]->public_.status, -1000 - k);
        }
    }
}

Test(base_error, without_memory_it_is_the_static_one_and_the_cause_is_left_alone)
{
    const fry_fault root_fault = {.status = FERRY_E_DEVICE, .rank = -1};
    fry_error *root = fry_error_create(&memory, &root_fault, NULL, NULL);
    failing_allocator_arm(&fa, 1, false);
    const fry_fault fault = {.status = FERRY_E_DEPENDENCY, .rank = -1, .op = 5};
    fry_error *error = fry_error_create(&memory, &fault, root, "never %s", "seen");
    cr_assert_eq(error, fry_error_static(FERRY_E_DEPENDENCY));
    cr_assert_null(error->public_.cause);
    cr_assert_eq(root->references, 1);
    fry_error_release(error);
    fry_error_release(root);
}

Test(base_error, null_can_be_retained_and_released)
{
    cr_assert_null(fry_error_retain(NULL));
    fry_error_release(NULL);
    ferry_error_release(NULL);
}

Test(base_error, the_public_release_frees)
{
    const fry_fault fault = {.status = FERRY_E_INVALID, .rank = -1};
    ferry_error *error = &fry_error_create(&memory, &fault, NULL, "bad")->public_;
    cr_assert_neq(failing_allocator_live_bytes(&fa), 0);
    ferry_error_release(error);
    ferry_error_release(&fry_error_static(FERRY_E_NO_MEMORY)->public_);
}

static pthread_barrier_t all_here;

static void *retain_and_release(void *arg)
{
    fry_error *error = arg;
    (void)pthread_barrier_wait(&all_here);
    for (int i = 0; i < 300000; i++) {
        (void)fry_error_retain(error);
        fry_error_release(error);
    }
    fry_error_release(error);
    return NULL;
}

Test(base_error, references_are_counted_across_threads)
{
    const fry_fault fault = {.status = FERRY_E_FAILED, .rank = -1};
    fry_error *error = fry_error_create(&memory, &fault, NULL, NULL);
    pthread_t threads[4];
    cr_assert_eq(pthread_barrier_init(&all_here, NULL, 4), 0);
    for (int i = 0; i < 4; i++) {
        (void)fry_error_retain(error);
        cr_assert_eq(pthread_create(&threads[i], NULL, retain_and_release, error), 0);
    }
    for (int i = 0; i < 4; i++)
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    cr_assert_eq(error->references, 1);
    fry_error_release(error);
}
