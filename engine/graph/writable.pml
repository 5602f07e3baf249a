/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The promise of room, with Spin (tests/model/run engine/graph/writable.pml).
 *
 *  turn    a hold of the baton in which the load falls: fry_turn_end, and fry_room_after_turn
 *  buffer  the store buffer of its processor (x86 TSO): others see its store to the load only when
 *          that has left the buffer, at the latest when the baton is given
 *  hasty   a pool's news that comes too early: see base/pool.h
 *  asker   ferry_engine_writable, then a wait for its answer; or it never asks
 *  loop    fry_room_look whenever room_came is set; loop_sleep.pml shows that the loop does not
 *          sleep through it
 *
 * There is room when the load is zero. Two askers share one promise.
 *
 * Holds: once the load is zero no thread waits for ever, and none is told before.
 */
/* broken: WANTED_IS_READ_BEFORE_THE_GIVE invalid end state */
/* broken: LOOK_BEFORE_WANTING invalid end state */
/* broken: LOOK_WITHOUT_THE_LOCK invalid end state */
/* broken: NEWS_IS_CLEARED_AFTER_THE_LOOK invalid end state */
/* broken: LOOP_NEED_NOT_LOOK assertion violated */

#define TURNS 2

byte load = TURNS;
bit buffered;
byte buffered_load;
bit baton;
bit lock_;
bit room_wanted;
bit room_came;
bit pending; /* the shared promise exists and is not resolved */

inline lock()
{
    atomic { !lock_ -> lock_ = 1 }
}

inline unlock()
{
    lock_ = 0
}

active proctype buffer()
{
end:
    do
    :: atomic { buffered -> load = buffered_load; buffered = 0; buffered_load = 0 }
    od
}

active [TURNS] proctype turn()
{
    bit is_wanted;
    byte down;
    atomic { !baton -> baton = 1 }; /* the holder sees what the last one wrote */
    atomic { down = load - 1; buffered_load = down; buffered = 1 };
#ifdef WANTED_IS_READ_BEFORE_THE_GIVE
    is_wanted = room_wanted;
#endif
    atomic { !buffered -> baton = 0 };
#ifndef WANTED_IS_READ_BEFORE_THE_GIVE
    is_wanted = room_wanted;
#endif
    if
    :: is_wanted ->
        if
        :: load == 0 -> room_came = 1
        :: load > 0
        fi
    :: else
    fi;
    is_wanted = 0;
    down = 0
}

/* With the lock. */
inline look()
{
#ifndef LOOK_BEFORE_WANTING
    room_wanted = 1;
#endif
    found = (load == 0);
#ifdef LOOK_BEFORE_WANTING
    room_wanted = 1;
#endif
    if
    :: found -> room_wanted = 0
    :: else
    fi
}

active proctype hasty()
{
    room_came = 1
}

active [2] proctype asker()
{
    bit found;
    if
    :: goto asks_never
    :: true
    fi;
#ifdef LOOK_WITHOUT_THE_LOCK
    look();
#endif
    lock();
#ifndef LOOK_WITHOUT_THE_LOCK
    look();
#endif
    if
    :: found -> pending = 0 /* all threads that wait for it are told */
    :: else -> pending = 1
    fi;
    unlock();
    found = 0;
    !pending;
    assert(load == 0);
asks_never:
    skip
}

active proctype loop()
{
    bit found;
end:
    do
    :: atomic {
           room_came;
#ifndef NEWS_IS_CLEARED_AFTER_THE_LOOK
           room_came = 0
#endif
       };
       lock();
       if
#ifdef LOOP_NEED_NOT_LOOK
       :: pending -> pending = 0
#else
       :: pending ->
           look();
           if
           :: found -> pending = 0
           :: else
           fi
#endif
       :: else -> room_wanted = 0
       fi;
       unlock();
#ifdef NEWS_IS_CLEARED_AFTER_THE_LOOK
       room_came = 0;
#endif
       found = 0
    od
}
