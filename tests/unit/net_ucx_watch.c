/* SPDX-License-Identifier: Apache-2.0 */
#include "net/ucx_watch.h"

#include <criterion/criterion.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* A message that leaves at once makes nobody arm again; the network is to be looked after even so.
 */
Test(net_ucx_watch, what_is_sent_from_an_armed_channel_is_looked_after)
{
    fry_ucx_watch watch;
    int worker = eventfd(0, EFD_CLOEXEC);
    cr_assert_eq(fry_ucx_watch_open(&watch, worker, INT64_C(1000000000)), FERRY_OK);
    fry_ucx_watch_arm(&watch);
    cr_assert_eq(watch.look_ns, 0, "nothing was sent");
    fry_ucx_watch_sent(&watch);
    cr_assert_neq(watch.look_ns, 0);
    fry_ucx_watch_close(&watch);
    (void)close(worker);
}

/* Who makes progress all the time reads no clock. */
Test(net_ucx_watch, what_is_sent_before_that_is_when_it_is_armed)
{
    fry_ucx_watch watch;
    int worker = eventfd(0, EFD_CLOEXEC);
    cr_assert_eq(fry_ucx_watch_open(&watch, worker, INT64_C(1000000000)), FERRY_OK);
    fry_ucx_watch_sent(&watch);
    cr_assert_eq(watch.look_ns, 0);
    fry_ucx_watch_arm(&watch);
    cr_assert_neq(watch.look_ns, 0);
    fry_ucx_watch_close(&watch);
    (void)close(worker);
}
