/* SPDX-License-Identifier: Apache-2.0 */
/* Undefined behaviour that no address check sees. */
#include <criterion/criterion.h>
#include <limits.h>

Test(planted, overflow)
{
    volatile int largest = INT_MAX;
    volatile int sum = largest + 1;
    (void)sum;
}
