/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the trace file's thread sleeps, with Spin (tests/model/run engine/trace_sleep.pml).
 *
 *  recorder  fry_trace_emit: the store of a ring's head, then fry_trace_bell_tell
 *  writer    writer_thread and rest (engine/trace_writer.c); a round takes the records below the
 *            heads
 *  asker     ask (engine/trace_writer.c), for the last round
 *  buffer    the store buffer of a recorder's processor (x86 TSO): others see the head only when it
 *            has left the buffer; fences and read-modify-writes wait for that
 *
 * membarrier does what the kernel promises: it ends when each recorder has passed a full barrier
 * since it began, so when each buffer has been empty since. The futex compares and goes to sleep in
 * one step. Lingering ends by a timeout, at any time (that recorders cut it short too is left out);
 * sleeping ends only by a wake.
 *
 * A recorder makes its second record only when its first was taken, so nothing helps a record that
 * was left behind. The asker waits for all records, so a thread that sleeps beside a record is an
 * invalid end state.
 *
 *  BARRIER  recorders without a fence, and membarrier
 *  FENCE    recorders with a fence, where the kernel has no membarrier
 *
 * Loads that pass each other (Arm, POWER) are not modelled.
 */
/* correct: BARRIER */
/* correct: FENCE */
/* broken: BARRIER+NO_MEMBARRIER invalid end state */
/* broken: BARRIER+MEMBARRIER_BEFORE_BELL invalid end state */
/* broken: BARRIER+LOOK_BEFORE_BELL invalid end state */
/* broken: BARRIER+NO_LOOK invalid end state */
/* broken: BARRIER+TELL_BEFORE_RECORD invalid end state */
/* broken: BARRIER+WAKE_LEAVES_BELL invalid end state */
/* broken: BARRIER+ASK_BY_BELL_ALONE invalid end state */
/* broken: BARRIER+SLEEP_WHATEVER_IS_ASKED invalid end state */
/* broken: FENCE+NO_FENCE invalid end state */

#define RECORDERS 2
#define RECORDS 2 /* of each recorder */

#define AWAKE 0
#define LINGERING 1
#define ASLEEP 2

byte bell;
bit asked, closing;
bit sleeps; /* in the kernel */
bit ended;
byte head[RECORDERS]; /* in memory */
byte buffered[RECORDERS];
byte taken[RECORDERS];

proctype buffer(byte who)
{
end:
    do
    :: atomic {
           buffered[who] != 0 ->
           head[who] = buffered[who];
           buffered[who] = 0
       }
    od
}

inline wake()
{
    atomic { sleeps = 0 }
}

inline tell()
{
#ifdef FENCE
#ifndef NO_FENCE
    buffered[me] == 0;
#endif
#endif
    seen = bell
}

/* The swap of the bell is a full barrier; another thread may have been first. */
inline answer()
{
    if
    :: seen == ASLEEP ->
        atomic {
            buffered[me] == 0;
            if
            :: bell == seen ->
#ifndef WAKE_LEAVES_BELL
                bell = AWAKE;
#endif
                is_first = 1
            :: else
            fi
        }
        if
        :: is_first -> wake()
        :: else
        fi;
        is_first = 0
    :: else
    fi;
    seen = AWAKE
}

proctype recorder(byte me)
{
    byte round, seen;
    bit is_first;
    do
    :: round < RECORDS ->
#ifdef TELL_BEFORE_RECORD
        tell();
#endif
        atomic {
            buffered[me] == 0;
            buffered[me] = round + 1
        }
#ifndef TELL_BEFORE_RECORD
        tell();
#endif
        answer();
        round++;
        taken[me] == round
    :: else -> break
    od
}

/* Ring by ring. */
inline take_all()
{
    i = 0;
    do
    :: i < RECORDERS ->
        atomic {
            if
            :: head[i] != taken[i] -> taken[i] = head[i]; has_found = 1
            :: else
            fi;
            i++
        }
    :: else -> break
    od;
    i = 0
}

inline look(is_new)
{
    i = 0;
    do
    :: i < RECORDERS -> atomic {
           is_new = is_new || head[i] != taken[i];
           i++
       }
    :: else -> break
    od;
    i = 0
}

/* One buffer after the other, as the interrupts come. */
inline membarrier()
{
#ifdef BARRIER
#ifndef NO_MEMBARRIER
    i = 0;
    do
    :: i < RECORDERS -> atomic {
           buffered[i] == 0;
           i++
       }
    :: else -> break
    od;
    i = 0
#else
    skip
#endif
#else
    skip
#endif
}

inline rest_a_while()
{
    bell = LINGERING;
    if
    :: asked
    :: !asked ->
        if
        :: atomic { bell == LINGERING -> sleeps = 1 }
        :: atomic { bell != LINGERING }
        fi;
        if
        :: !sleeps
        :: sleeps -> atomic { sleeps = 0 } /* the timeout */
        fi
    fi;
    bell = AWAKE
}

inline sleep()
{
#ifdef MEMBARRIER_BEFORE_BELL
    membarrier();
#endif
#ifdef LOOK_BEFORE_BELL
    look(is_new);
#endif
    bell = ASLEEP;
#ifndef MEMBARRIER_BEFORE_BELL
    membarrier();
#endif
#ifndef SLEEP_WHATEVER_IS_ASKED
    is_new = is_new || asked;
#endif
#ifndef LOOK_BEFORE_BELL
#ifndef NO_LOOK
    look(is_new);
#endif
#endif
    if
    :: is_new
    :: !is_new ->
        if
        :: atomic { bell == ASLEEP -> sleeps = 1 }
        :: atomic { bell != ASLEEP }
        fi;
        !sleeps
    fi;
    is_new = 0;
    bell = AWAKE
}

proctype writer()
{
    byte i;
    bit is_new, is_last, has_found;
    has_found = 1;
    do
    :: asked = 0;
       is_last = closing;
       take_all();
       if
       :: is_last -> break
       :: else
       fi;
       if
       :: has_found -> has_found = 0; rest_a_while()
       :: else -> sleep()
       fi
    od;
    ended = 1
}

proctype asker()
{
    byte before;
    (taken[0] == RECORDS && taken[1] == RECORDS);
    closing = 1;
#ifndef ASK_BY_BELL_ALONE
    asked = 1;
#endif
    atomic {
        before = bell;
        bell = AWAKE
    }
    if
    :: before != AWAKE -> wake()
    :: else
    fi;
    ended
}

init {
    atomic {
        run recorder(0);
        run recorder(1);
        run buffer(0);
        run buffer(1);
        run writer();
        run asker()
    }
}
