/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who counts a node that only a handle keeps, beside the release, with Spin (tests/model/run
 * engine/ground/released.pml): fry_node_drop_life of engine/graph/node.c, ferry_engine_release of
 * engine/engine.c.
 *
 *  straggler  has a handle (ferry_future_quiet(f)), found the engine open, and submits a node:
 *             pushes it to the inbox and takes the baton if it can. Then it gives back the node's
 *             handle, or its own handle first. Two of them
 *  release    the shutdown is about to succeed; takes the baton, waiting if it must, reads the
 *             count, gives the baton and looks at the inbox, then takes its bias off the references
 *
 * With the baton a node of the inbox enters and is refused: its life ends, and its handle counts if
 * it is still there. The references may be below zero before the release has taken its bias off
 * (BIAS is more than they can be): only their sum matters.
 *
 * Holds: no thread touches a freed engine (each step looks), and when all threads have ended it is
 * freed. The flag is written and read only with the baton, so a relaxed load is enough;
 * base/baton.pml has the store buffers.
 */
/* broken: NOT_COUNTED_AFTER assertion violated */
/* broken: READ_WITHOUT_BATON assertion violated */
/* broken: FLAG_AFTER_GIVE assertion violated */
/* broken: NO_LOOK_AT_INBOX assertion violated */
/* broken: BIAS_BEFORE_LOOK assertion violated */

#define STRAGGLERS 2
#define BIAS 100
#define TOUCH assert(!is_freed)

short references = BIAS;
short detached;
bit baton;
bit is_released;
bit is_freed;
byte through;
bit in_inbox[STRAGGLERS];
byte handles[STRAGGLERS]; /* of each straggler's node: its life, and the user's */

inline unretain(count)
{
    d_step {
        TOUCH;
        references = references - (count);
        if
        :: references == 0 -> is_freed = 1
        :: else
        fi
    }
}

inline count_one()
{
    TOUCH;
    if
#ifndef NOT_COUNTED_AFTER
    :: is_released -> atomic { TOUCH; references++ }
    :: else -> detached++
#else
    :: true -> detached++
#endif
    fi
}

inline uncount_one()
{
    TOUCH;
    if
    :: is_released -> unretain(1)
    :: else -> detached--
    fi
}

/* fry_node_drop_life of straggler i's node. */
inline drop_life(i)
{
    atomic { last = handles[i] == 1; TOUCH };
    if
    :: last -> handles[i] = 0
    :: else ->
        count_one();
        atomic { handles[i]--; last = handles[i] == 0 };
        if
        :: last -> uncount_one()
        :: else
        fi
    fi
}

/* With the baton: nodes of the inbox enter; then gives the baton, and looks again. */
inline work_off()
{
    do
    :: i = 0;
       do
       :: i < STRAGGLERS && in_inbox[i] -> in_inbox[i] = 0; drop_life(i); i++
       :: i < STRAGGLERS && !in_inbox[i] -> i++
       :: i == STRAGGLERS -> break
       od;
       TOUCH;
       baton = 0;
#ifndef NO_LOOK_AT_INBOX
       TOUCH;
       if
       :: in_inbox[0] || in_inbox[1] ->
           if
           :: atomic { !baton -> baton = 1 }
           :: baton -> break
           fi
       :: else -> break
       fi
#else
       break
#endif
    od
}

/* ferry_future_release of its node. */
inline give_node(me)
{
    atomic { TOUCH; handles[me]--; last = handles[me] == 0 };
    if
    :: last -> unretain(1)
    :: else
    fi
}

proctype straggler(byte me)
{
    byte i;
    bit last;
    TOUCH;
    handles[me] = 2;
    in_inbox[me] = 1;
    TOUCH;
    if
    :: atomic { !baton -> baton = 1 }; work_off()
    :: baton
    fi;
    if
    :: give_node(me); unretain(1) /* its own handle, which was detached before */
    :: unretain(1); give_node(me)
    fi;
    through++
}

proctype release()
{
    byte i;
    bit last;
    bit has_counted;
    short counted;
look: /* as the shutdown's last tick does, and as the release does at its end */
    TOUCH;
    if
    :: in_inbox[0] || in_inbox[1] ->
        if
        :: atomic { !baton -> baton = 1 }; work_off()
        :: baton
        fi
    :: else
    fi;
    if
    :: !has_counted ->
#ifdef READ_WITHOUT_BATON
        counted = detached;
        is_released = 1;
        atomic { !baton -> baton = 1 };
#else
        atomic { !baton -> baton = 1 };
        counted = detached;
#ifndef FLAG_AFTER_GIVE
        is_released = 1;
#endif
#endif
        baton = 0;
#ifdef FLAG_AFTER_GIVE
        is_released = 1;
#endif
#ifdef BIAS_BEFORE_LOOK
        unretain(BIAS - counted);
#endif
        has_counted = 1;
        goto look
    :: has_counted
    fi;
#ifndef BIAS_BEFORE_LOOK
    unretain(BIAS - counted);
#endif
    through++
}

init {
    atomic {
        detached = STRAGGLERS; /* the handles that the stragglers were given */
        run straggler(0);
        run straggler(1);
        run release()
    };
    through == STRAGGLERS + 1;
    assert(is_freed && references == 0)
}
