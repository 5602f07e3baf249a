/* SPDX-License-Identifier: Apache-2.0 */
/* etcd: does what every store must, on one node. */
#include "tests/support/etcd_server.h"
#include "tests/support/owned.h"
#include "tests/support/store_suite.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static etcd_cluster *cluster;
static store_place place;

static void start(void)
{
    if (etcd_absent() != NULL)
        cr_skip_test("%s", etcd_absent());
    cluster = etcd_cluster_start(1, NULL);
    cr_assert_not_null(cluster);
    place.uri = etcd_cluster_uri(cluster);
}

static void stop(void)
{
    etcd_cluster_stop(cluster);
}

#define CASE(name)                                                                                 \
    Test(net_store_etcd, name, .init = start, .fini = stop, .timeout = 60)                         \
    {                                                                                              \
        store_suite_##name(&place);                                                                \
    }
STORE_SUITE(CASE)

#define LARGE_KEYS 16

/* More than an answer may have: asked for in smaller pages. */
Test(net_store_etcd, a_list_of_large_values, .init = start, .fini = stop, .timeout = 60)
{
    char *value = malloc(FRY_STORE_VALUE_BYTES);
    store_rig rig;
    store_seen seen;
    store_ask ask;

    store_rig_open(&rig, &place, 1);
    cr_assert_not_null(value);
    memset(value, 'x', FRY_STORE_VALUE_BYTES);
    for (int i = 0; i < LARGE_KEYS; i++) {
        char key[32];

        (void)snprintf(key, sizeof key, "large/%02d", i);
        store_ask_init(&ask, &rig.clients[0], FRY_STORE_CREATE, key);
        ask.request.value = value;
        ask.request.value_bytes = FRY_STORE_VALUE_BYTES;
        cr_assert_eq(store_ask_run(&rig.clients[0], &ask), FERRY_OK);
        store_ask_free(&ask);
    }
    store_ask_init(&ask, &rig.clients[0], FRY_STORE_LIST, "large/");
    cr_assert_eq(store_ask_run(&rig.clients[0], &ask), FERRY_OK);
    cr_assert_eq(ask.count, LARGE_KEYS);
    store_ask_free(&ask);
    store_seen_start(&seen, &rig.clients[0], "large/");
    store_rig_until(&rig, &seen.is_listed);
    cr_assert_eq(seen.puts, LARGE_KEYS);
    store_seen_free(&seen);
    store_rig_close(&rig);
    free(value);
}

/* Keys that others put there, which no store of ferry's could have. */
Test(net_store_etcd, keys_of_others_are_passed_over, .init = start, .fini = stop, .timeout = 60)
{
    static const char *const bodies[] = {
        "{\"key\":\"YQBi\",\"value\":\"eA==\"}",     /* a zero byte in it */
        "{\"key\":\"YS8vYg==\",\"value\":\"eA==\"}", /* a//b */
        "{\"key\":\"/w==\",\"value\":\"eA==\"}"};    /* 0xff */
    char answer[512];
    store_ask ask;

    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        cr_assert(etcd_post(cluster, 0, "/v3/kv/put", bodies[i], answer, sizeof answer));
    OPENED_WITH(store_rig, rig, &place, 1);
    (void)store_put(&rig.clients[0], "key", "value", NULL);
    store_ask_init(&ask, &rig.clients[0], FRY_STORE_LIST, NULL);
    cr_assert_eq(store_ask_run(&rig.clients[0], &ask), FERRY_OK);
    cr_assert_eq(ask.count, 1);
    store_ask_free(&ask);
}

#define DESCRIPTORS 256

static bool is_connection(int fd)
{
    struct sockaddr_in address;
    socklen_t size = sizeof address;

    return getpeername(fd, (struct sockaddr *)&address, &size) == 0 &&
           address.sin_family == AF_INET;
}

Test(net_store_etcd, connections_end_at_exec, .init = start, .fini = stop, .timeout = 60)
{
    bool was_there[DESCRIPTORS];
    unsigned count = 0;

    for (int fd = 0; fd < DESCRIPTORS; fd++)
        was_there[fd] = is_connection(fd);
    OPENED_WITH(store_rig, rig, &place, 1);
    (void)store_put(&rig.clients[0], "key", "value", NULL);
    for (int fd = 0; fd < DESCRIPTORS; fd++) {
        if (was_there[fd] || !is_connection(fd))
            continue;
        cr_assert((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
        count++;
    }
    cr_assert_gt(count, 0);
}
