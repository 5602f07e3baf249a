/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking a waiter back, with Spin (tests/model/run engine/tasks/waiter_remove.pml):
 * engine/tasks/waiter.c, and fry_task_revoke and fry_task_begin of engine/tasks/task_pool.c.
 *
 *  sealer    resolves the future: takes its list by one exchange, then stores FIRED and pushes
 *            (fry_fire_waiter)
 *  loop      has the role: collects fired waiters, and calls or posts the waiter. Before each it
 *            may be in the callback of another waiter, which takes this waiter back
 *            (fry_waiter_take_back)
 *  elsewhere a thread without the role that takes the waiter back if it is still LISTED
 *            (remove_listed)
 *  executor  runs the task
 *
 * The task begins before the waiter's state says so. In between the loop may have posted the task
 * for another waiter, which a revoke must not hit (others).
 *
 * There is one waiter, registered once. Its memory is `gone` when it was called or taken back and
 * no thread is in ferry_waiter_remove with it, which must keep it in place. futures/sealed_list.pml
 * has the list beside removers: here the waiter leaves the list in one step.
 *
 * Holds: the waiter is called once or taken back once, never both; no thread reads it when it is
 * gone; with the role it is taken back unless it has begun; all threads end.
 */
/* broken: FIRED_AFTER_PUSH assertion violated */
/* broken: POSTED_AFTER_TASK assertion violated */
/* broken: HAND_NOT_WAITED_FOR assertion violated */
/* broken: REVOKED_WITHOUT_MOVE assertion violated */
/* broken: TAKEN_OUT_WITHOUT_ROLE assertion violated */
/* broken: REVOKED_ANOTHERS assertion violated */

mtype = { IDLE, LISTED, FIRED, DUE, POSTED };
mtype = { NONE, TASK_POSTED, TASK_REVOKED, TASK_RUN };

mtype state = LISTED;
mtype task = NONE;
bit sealed;
bit in_list = 1;
bit fired;   /* on engine->fired */
bit in_due;
bit others; /* the task has been posted for another waiter since */
bit gone;
byte called;
byte taken_back;
byte removers; /* threads in ferry_waiter_remove */
byte through;

#define IN_PLACE assert(!gone)
#define THREADS 4

inline user_has_it()
{
    d_step {
        if
        :: removers == 0 && called + taken_back > 0 -> gone = 1
        :: else
        fi
    }
}

/* fry_waiter_call: IDLE, then the callback. */
inline call()
{
    atomic { IN_PLACE; state = IDLE };
    atomic { called++; assert(called + taken_back == 1) };
    user_has_it()
}

inline take_back()
{
    atomic { taken_back++; assert(called + taken_back == 1) };
    IN_PLACE;
    state = IDLE
}

inline collect()
{
    atomic {
        if
        :: fired -> fired = 0; IN_PLACE; state = DUE; in_due = 1
        :: else
        fi
    }
}

inline remove_listed(removed)
{
    atomic {
        removed = 0;
        if
        :: in_list -> in_list = 0; removed = 1
        :: else
        fi
    };
    if
    :: removed -> take_back()
    :: else
    fi
}

/* fry_task_revoke: true means that the task was removed. */
inline revoke(removed)
{
#ifdef REVOKED_ANOTHERS
    atomic {
        removed = (task == TASK_POSTED);
        if
        :: removed -> task = TASK_REVOKED
        :: else
        fi
    }
#elif defined(REVOKED_WITHOUT_MOVE)
    removed = (task == TASK_POSTED && !others);
    if
    :: removed -> task = TASK_REVOKED
    :: else
    fi
#else
    atomic {
        removed = (task == TASK_POSTED && !others);
        if
        :: removed -> task = TASK_REVOKED
        :: else
        fi
    }
#endif
}

/* In a callback of another waiter. A refusal means that this waiter has begun. */
inline remove_with_role()
{
    do
    :: atomic { IN_PLACE; seen = state };
       if
       :: seen == IDLE -> break
       :: seen == LISTED ->
           remove_listed(removed);
           if
           :: removed -> break
#ifdef HAND_NOT_WAITED_FOR
           :: !removed -> assert(called); break
#else
           :: !removed -> state != LISTED || in_list
#endif
           fi
       :: seen == FIRED -> collect()
       :: seen == DUE -> in_due = 0; take_back(); break
       :: seen == POSTED ->
           revoke(removed);
           if
           :: removed -> take_back()
           :: !removed -> assert(task == TASK_RUN || others)
           fi;
           break
       fi
    od;
    removers--;
    user_has_it()
}

proctype sealer()
{
    bit hand;
    atomic { sealed = 1; hand = in_list; in_list = 0 };
    if
    :: hand ->
#ifdef FIRED_AFTER_PUSH
        IN_PLACE;
        fired = 1;
        atomic { IN_PLACE; state = FIRED }
#else
        atomic { IN_PLACE; state = FIRED };
        IN_PLACE;
        fired = 1
#endif
    :: else
    fi;
    through++
}

proctype loop()
{
    mtype seen;
    bit removed;
    do
    :: atomic { !gone -> removers++ }; remove_with_role()
    :: atomic { task == TASK_RUN && !others -> others = 1; task = TASK_POSTED }
    :: called + taken_back > 0 || task != NONE -> break
    :: called + taken_back == 0 && task == NONE ->
        collect();
        if
        :: in_due ->
            atomic { in_due = 0; IN_PLACE };
            if
            :: call()
            :: /* post */
#ifdef POSTED_AFTER_TASK
               task = TASK_POSTED;
               atomic { IN_PLACE; state = POSTED }
#else
               atomic { IN_PLACE; state = POSTED };
               task = TASK_POSTED
#endif
            fi
        :: else
        fi
    od;
    through++
}

proctype elsewhere()
{
    bit removed;
    if
    :: atomic { !gone -> removers++ };
       atomic { IN_PLACE; removed = (state == LISTED) };
       if
       :: removed -> remove_listed(removed)
#ifdef TAKEN_OUT_WITHOUT_ROLE
       :: !removed && in_due -> in_due = 0; take_back()
#endif
       :: else
       fi;
       removers--;
       user_has_it()
    :: true
    fi;
    through++
}

proctype executor()
{
    bit runs;
    if
    :: atomic { task == TASK_POSTED || task == TASK_REVOKED -> runs = (task == TASK_POSTED);
                task = TASK_RUN };
       if
       :: runs -> call()
       :: else
       fi
    :: atomic { task == NONE && through == THREADS - 1 -> skip } /* the task was never posted */
    fi;
    through++
}

init {
    atomic {
        run sealer();
        run loop();
        run elsewhere();
        run executor()
    };
    through == THREADS;
    assert(called + taken_back == 1)
}
