/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refused writes that no node can stand for, with Spin
 * (tests/model/run engine/graph/refused_writes.pml).
 *
 *  program  operations on one buffer in program order: each reads it, overwrites all of it, or is a
 *           refused write. What an operation must find when it enters is noted at its submit
 *  other    refused writes of another buffer, at any moment
 *  holder   the baton's holder: takes the inbox in its order; a turn of the mark
 *
 * Each step is an atomic with a full barrier, or is made with the baton, so there are no store
 * buffers.
 *
 * Holds: an operation finds the poison of refused writes before it, and of no later ones; no buffer
 * stays barred.
 */
/* broken: NOBODY_IS_BARRED assertion violated */
/* broken: PLACED_WHERE_THE_MARK_IS assertion violated */
/* broken: RESTS_WITHOUT_A_LOOK assertion violated */
/* broken: MARK_BEFORE_THE_LIST assertion violated */

#define OPS 3
#define BUFFERS 2
#define MARK 9
#define READ 1
#define WRITE 2

/* An item: READ, WRITE or MARK; whether it must find poison. */
chan inbox = [6] of { byte, bit };

bit barred[BUFFERS];
bit in_list[BUFFERS]; /* refused_buffers */
bit noted[BUFFERS];
bit poisoned[BUFFERS];
bit mark_is_pushed;
byte running = 2;

inline push_mark()
{
    atomic {
        if
        :: !mark_is_pushed -> mark_is_pushed = 1; inbox!MARK(0)
        :: else
        fi
    }
}

inline bar(b)
{
    atomic {
        had = barred[b];
        barred[b] = 1
    };
    if
    :: had
    :: !had ->
#ifdef MARK_BEFORE_THE_LIST
        push_mark();
        in_list[b] = 1
#else
        in_list[b] = 1;
        push_mark()
#endif
    fi;
    had = 0
}

active proctype program()
{
    byte left = OPS, kind;
    bit must, had, is_open;
    do
    :: left > 0 ->
        left--;
        if
        :: bar(0); must = 1 /* a write that finds no room */
        :: kind = READ
        :: kind = WRITE
        fi;
        if
        :: kind != 0 ->
#ifdef NOBODY_IS_BARRED
            is_open = 1;
#else
            is_open = !barred[0];
#endif
            if
            :: is_open ->
                inbox!kind(must);
                must = (kind == READ && must)
            :: !is_open && kind == WRITE -> /* refused in turn */
                bar(0);
                must = 1
            :: !is_open && kind == READ
            fi
        :: else
        fi;
        kind = 0;
        is_open = 0
    :: left == 0 -> break
    od;
    must = 0;
    running--
}

active proctype other()
{
    bit had;
    bar(1);
    bar(1);
    running--
}

inline take_list()
{
    d_step {
        noted[0] = noted[0] || in_list[0];
        noted[1] = noted[1] || in_list[1];
        in_list[0] = 0;
        in_list[1] = 0
    }
}

inline place(b)
{
    if
    :: noted[b] ->
        noted[b] = 0;
        poisoned[b] = 1;
        barred[b] = 0
    :: else
    fi
}

active proctype holder()
{
    byte kind;
    bit must;
    do
    :: inbox?kind(must) ->
        if
        :: kind == READ -> assert(poisoned[0] == must)
        :: kind == WRITE -> poisoned[0] = 0
        :: kind == MARK ->
#ifdef PLACED_WHERE_THE_MARK_IS
            take_list();
#endif
            place(0);
            place(1);
            take_list();
            if
            :: noted[0] || noted[1] -> inbox!MARK(0)
            :: else ->
                mark_is_pushed = 0;
#ifndef RESTS_WITHOUT_A_LOOK
                if
                :: in_list[0] || in_list[1] -> push_mark()
                :: else
                fi
#endif
            fi
        fi;
        kind = 0;
        must = 0
    :: running == 0 && empty(inbox) -> break
    od;
    assert(!barred[0] && !barred[1] && !in_list[0] && !in_list[1])
}
