/* SPDX-License-Identifier: Apache-2.0 */
/* Operations as ranges of an NVTX tool; skipped where the build found no NVTX. */
#include "tests/emu/nvtx_tool.h"
#include "tests/support/play.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef NVTX_TOOL_PATH /* the build says where it is */
#define NVTX_TOOL_PATH ""
#endif

SCENE_SUITE(nvtx);

enum { BIG = 65536 };

static void inject(void)
{
    if (NVTX_TOOL_PATH[0] == '\0')
        cr_skip_test("this build found no nvtx3/nvToolsExt.h");
    cr_assert_eq(setenv("NVTX_INJECTION64_PATH", NVTX_TOOL_PATH, 1), 0);
    cr_assert_eq(unsetenv("FERRY_NVTX"), 0);
}

/* False: the tool was never loaded. */
static bool get_report(nvtx_tool_report *report)
{
    void *tool = dlopen(NVTX_TOOL_PATH, RTLD_NOW | RTLD_NOLOAD);
    if (tool == NULL)
        return false;
    nvtx_tool_report_fn get = (nvtx_tool_report_fn)dlsym(tool, NVTX_TOOL_REPORT);
    cr_assert_not_null(get);
    get(report);
    (void)dlclose(tool);
    return true;
}

Test(nvtx, a_range_from_issued_to_resolved)
{
    inject();
    nvtx_tool_report report;
    play("buffer src %d of 1; buffer dst %d on 1; copied = copy dst <- src label weights;"
         "wait copied OK; called = call by hand; posted 1",
         BIG, BIG);
    cr_assert(get_report(&report));
    cr_assert_str_eq(report.domain, "ferry");
    cr_assert_eq(report.started, 2);
    cr_assert_eq(report.ended, 1, "the function has been issued, and has not run");
    cr_assert_str_eq(report.names[0], "weights");
    cr_assert_str_eq(report.names[1], "call");
    cr_assert_eq(report.payloads[0], ferry_future_id(the_future("copied")));
    cr_assert_eq(report.payloads[1], ferry_future_id(the_future("called")));
    play("run");
    cr_assert(get_report(&report));
    cr_assert_eq(report.ended, 2);
    scene_end();
    cr_assert(get_report(&report));
    cr_assert_eq(report.strange, 0);
}

Test(nvtx, what_is_never_issued_has_none)
{
    inject();
    nvtx_tool_report report;
    play("promise p; n = nop after p; release p; wait n DEPENDENCY");
    scene_end();
    cr_assert(get_report(&report));
    cr_assert_eq(report.started, 0);
    cr_assert_eq(report.ended, 0);
}

Test(nvtx, more_than_there_is_room_for)
{
    inject();
    enum { CALLS = 10000 };
    nvtx_tool_report report;
    play("first = call by hand; posted 1"); /* it stays under way while the numbers go round */
    for (int i = 0; i < CALLS; i++)
        ferry_future_release(ferry_nop(engine(), NULL));
    play("run; expect first OK");
    scene_end();
    cr_assert(get_report(&report));
    cr_assert_eq(report.started, CALLS + 1);
    cr_assert_eq(report.ended, CALLS + 1);
    cr_assert_eq(report.strange, 0);
}

Test(nvtx, beside_the_trace_file)
{
    inject();
    nvtx_tool_report report;
    scene_begin(FERRY_LOOP_THREAD);
    ASSERT_STATUS(ferry_trace_open("/dev/null"), FERRY_OK);
    ferry_future_release(ferry_nop(engine(), NULL));
    ASSERT_STATUS(ferry_trace_close(), FERRY_OK);
    ferry_future_release(ferry_nop(engine(), NULL));
    scene_end();
    cr_assert(get_report(&report));
    cr_assert_eq(report.started, 2);
    cr_assert_eq(report.ended, 2);
}

Test(nvtx, only_where_it_is_wanted)
{
    inject();
    nvtx_tool_report report;
    cr_assert_eq(setenv("FERRY_NVTX", "0", 1), 0);

    ferry_future_release(ferry_nop(engine(), NULL));
    scene_end();
    cr_assert_eq(unsetenv("FERRY_NVTX"), 0);
    cr_assert_eq(unsetenv("NVTX_INJECTION64_PATH"), 0);

    ferry_future_release(ferry_nop(engine(), NULL));
    scene_end();
    cr_assert_not(get_report(&report), "nobody has asked for the tool");
    cr_assert_eq(setenv("FERRY_NVTX", "1", 1), 0);
    /* without a tool that is no error */
    ferry_future_release(ferry_nop(engine(), NULL));
}
