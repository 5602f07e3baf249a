/* SPDX-License-Identifier: Apache-2.0 */
#include "net/ucx/watch.h"

#include <criterion/criterion.h>

/* A message that leaves at once makes nobody arm again; the network is to be looked after even so.
 */
Test(net_ucx_watch, what_is_sent_from_an_armed_channel_is_looked_after)
{
    fry_ucx_watch watch;
    fry_channel channel = {.event_fd = -1};
    fry_ucx_watch_init(&watch, &channel, INT64_C(1000000000));
    fry_ucx_watch_arm(&watch);
    cr_assert_eq(channel.look_ns, 0, "nothing was sent");
    fry_ucx_watch_sent(&watch);
    cr_assert_neq(channel.look_ns, 0);
}

/* Who makes progress all the time reads no clock. */
Test(net_ucx_watch, what_is_sent_before_that_is_when_it_is_armed)
{
    fry_ucx_watch watch;
    fry_channel channel = {.event_fd = -1};
    fry_ucx_watch_init(&watch, &channel, INT64_C(1000000000));
    fry_ucx_watch_sent(&watch);
    cr_assert_eq(channel.look_ns, 0);
    fry_ucx_watch_arm(&watch);
    cr_assert_neq(channel.look_ns, 0);
}
