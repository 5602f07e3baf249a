/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_PATIENCE_H
#define TESTS_SUPPORT_PATIENCE_H

/* Limits on time in tests are there for what hangs, and say what is more than enough on a machine
 * with nothing else to do. Eight busy processes beside, or a sanitizer, make a test some ten times
 * as slow, and nobody may take that for a hang: every such limit is multiplied by this. The
 * time-outs of ctest are too, in ferry_register_test of tests/CMakeLists.txt. */
#define PATIENCE 10

#endif
