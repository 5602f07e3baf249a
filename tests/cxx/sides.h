/* SPDX-License-Identifier: Apache-2.0 */
/* What C makes of each initialiser, for C++ to compare: each fills in the struct it is named for.
 */
#ifndef FERRY_TESTS_CXX_SIDES_H
#define FERRY_TESTS_CXX_SIDES_H

#ifdef __cplusplus
extern "C" {
#endif

void c_engine_options(void *there);
void c_op_options(void *there);
void c_device_options(void *there);
void c_device_info(void *there);
void c_member_info(void *there);
void c_barrier_options(void *there);
void c_message_info(void *there);
void c_window_info(void *there);
void c_group_options(void *there);
void c_plan_info(void *there);

#ifdef __cplusplus
}
#endif
#endif
