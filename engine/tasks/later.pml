/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of an operation that ends later, with Spin (tests/model/run engine/tasks/later.pml).
 *
 *  beginner  the thread that calls begin
 *  ender     the thread that resolves the promise, perhaps while begin runs; or, if the operation
 *            fails, only once cancel was called
 *  failer    the baton's holder, who may fail the operation at any moment
 *  loop      takes the node from where its link put it: to call cancel, or as it is over
 *
 * Each move of node->outside is one compare-and-swap, so it is atomic here.
 *
 * Holds: the operation is over once, and always in the end; cancel is called at most once, not
 * beside begin, and not after it is over; the node's link has one user at a time.
 */
/* broken: CANCEL_BESIDE_BEGIN assertion violated */
/* broken: OVER_BESIDE_BEGIN assertion violated */
/* broken: OVER_BESIDE_CANCEL assertion violated */
/* broken: FAILED_IS_OVER_TOO assertion violated */
/* broken: RETURNED_LOOKS_FOR_ENDED_ALONE invalid end state */
/* broken: CANCELLED_LOOKS_FOR_NOTHING invalid end state */
#include "tests/model/variants.inc"

#define CANCEL 1
#define OVER 2

bit returned, ended, failed, cancelling; /* node->outside */
bit has_begun, in_begin, in_cancel, is_over;
byte done; /* beginner, failer and ender */
bit failer_is_done;
byte cancels;
chan link = [1] of { byte };

inline tell(duty)
{
    assert(nfull(link));
    link!duty
}

active proctype beginner()
{
    in_begin = 1;
    has_begun = 1;
    in_begin = 0;
    atomic {
        returned = 1;
        if
        :: ended -> tell(OVER)
        :: !ended && failed && !IS_DEFINED(RETURNED_LOOKS_FOR_ENDED_ALONE) ->
            cancelling = 1;
            tell(CANCEL)
        :: else
        fi
    };
    done++
}

active proctype ender()
{
    has_begun;
    if
    :: true
    :: true ->
        cancels > 0 || (failer_is_done && !failed) /* it ends when it is asked to */
    fi;
    atomic {
        ended = 1;
        if
        :: (returned || IS_DEFINED(OVER_BESIDE_BEGIN)) &&
           (!cancelling || IS_DEFINED(OVER_BESIDE_CANCEL)) -> tell(OVER)
        :: else
        fi
    };
    done++
}

active proctype failer()
{
    has_begun;
    if
    :: atomic { !is_over -> failed = 1;
        if
        IF(FAILED_IS_OVER_TOO, :: ended && returned -> tell(OVER))
        :: !ended && (returned || IS_DEFINED(CANCEL_BESIDE_BEGIN)) ->
            cancelling = 1;
            tell(CANCEL)
        :: else
        fi }
    :: true
    fi;
    failer_is_done = 1;
    done++
}

active proctype loop()
{
    byte duty;
    do
    :: link?duty ->
        if
        :: duty == CANCEL ->
            assert(cancels == 0 && !is_over);
            if
            :: !ended ->
                in_cancel = 1;
                cancels++;
                assert(!in_begin && !is_over);
                in_cancel = 0
            :: ended
            fi;
            atomic {
                cancelling = 0;
                if
                :: ended && !IS_DEFINED(CANCELLED_LOOKS_FOR_NOTHING) -> tell(OVER)
                :: else
                fi
            }
        :: duty == OVER ->
            assert(!is_over && !in_begin && !in_cancel && !cancelling);
            is_over = 1
        fi
    :: is_over && done == 3 && empty(link) ->
        assert(returned && ended);
        break
    od
}
