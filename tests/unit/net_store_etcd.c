/* SPDX-License-Identifier: Apache-2.0 */
/* etcd: does what every store must, on one node. */
#include "tests/support/etcd_server.h"
#include "tests/support/store_suite.h"

#include <criterion/criterion.h>

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
