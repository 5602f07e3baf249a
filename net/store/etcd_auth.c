/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens. With a user the first call waits until user and password have given a token. etcd forgets
 * tokens (after five minutes of rest, and when it restarts) and refuses the next call. Then that
 * call and all later ones wait for a new token. The outcome of a login concerns only the calls that
 * wait for it.
 */
#include "net/store/etcd_auth.h"

#include "net/store/etcd_endpoint.h"
#include "net/store/etcd_http.h"
#include "net/store/etcd_json.h"
#include "net/store/etcd_state.h"

#include <stdio.h>
#include <string.h>

/* Lets the calls that wait run, or fails them as the login has failed. */
static void end_wait(fry_etcd *etcd, const fry_etcd_call *failed)
{
    fry_async *async;

    TAILQ_FOREACH(async, &etcd->calls.asyncs, entry) {
        fry_etcd_call *call = (fry_etcd_call *)(void *)async;

        if (!fry_etcd_call_waits(call))
            continue;
        if (failed != NULL)
            fry_etcd_call_fail(call, failed->outcome, failed->code, failed->text);
        else
            fry_etcd_call_run(call);
    }
}

static void take_token(fry_etcd *etcd, fry_etcd_call *login)
{
    if (fry_etcd_read_token(login->answer, login->answer_bytes, etcd->token) != FRY_ETCD_READ) {
        fry_etcd_call_was_garbled(login);
        etcd->login = FRY_ETCD_LOGIN_WANTED;
        end_wait(etcd, login);
        return;
    }
    etcd->login = FRY_ETCD_LOGIN_DONE;
    etcd->token_serial++;
    end_wait(etcd, NULL);
}

static void login_is_over(fry_etcd_call *login)
{
    fry_etcd *etcd = login->arg;

    switch (login->outcome) {
    case FRY_ETCD_ANSWERED:
        take_token(etcd, login);
        break;
    case FRY_ETCD_REFUSED:
        if (strstr(login->text, "authentication is not enabled") != NULL) {
            fry_log_line(etcd->reactor->log, FERRY_LOG_WARNING,
                         "store: etcd asks nobody for a password; user and password are not used");
            etcd->login = FRY_ETCD_LOGIN_NONE;
            end_wait(etcd, NULL);
            break;
        }
        fry_log_line(etcd->reactor->log, FERRY_LOG_ERROR, "store: etcd refuses user '%.64s': %s",
                     etcd->user, login->text);
        etcd->login = FRY_ETCD_LOGIN_WANTED;
        end_wait(etcd, login);
        break;
    case FRY_ETCD_UNKNOWN: /* a login changes nothing */
        login->outcome = FRY_ETCD_UNSENT;
        /* fall through */
    case FRY_ETCD_UNSENT:
    case FRY_ETCD_STRANGE:
        etcd->login = FRY_ETCD_LOGIN_WANTED;
        end_wait(etcd, login);
        break;
    }
    fry_etcd_call_release(login);
}

static bool login_allows(fry_etcd *etcd)
{
    if (etcd->login == FRY_ETCD_LOGIN_WANTED) {
        etcd->login = FRY_ETCD_LOGIN_ASKED;
        etcd->login_call.fn = login_is_over;
        etcd->login_call.arg = etcd;
        etcd->login_call.path = "/v3/auth/authenticate";
        etcd->login_call.is_login = true;
        fry_etcd_call_start(etcd, &etcd->login_call,
                            fry_etcd_write_login(etcd->user, etcd->password));
    }
    return etcd->login == FRY_ETCD_LOGIN_NONE || etcd->login == FRY_ETCD_LOGIN_DONE;
}

/* Of a token older than a change to users etcd 3.4 says "revision of auth store is old". */
static bool login_again(fry_etcd_call *call)
{
    fry_etcd *etcd = call->etcd;

    if (etcd->user == NULL || call->is_login)
        return false;
    if (call->code != FRY_ETCD_CODE_UNAUTHENTICATED &&
        strstr(call->text, "invalid auth token") == NULL &&
        strstr(call->text, "auth store is old") == NULL &&
        strstr(call->text, "user name is empty") == NULL)
        return false;
    /* After another call's refusal a new token may have been asked for already. */
    if (call->token_serial == etcd->token_serial && etcd->login != FRY_ETCD_LOGIN_ASKED)
        etcd->login = FRY_ETCD_LOGIN_WANTED;
    return true;
}

void fry_etcd_login_open(fry_etcd *etcd)
{
    etcd->login_allows = login_allows;
    etcd->login_again = login_again;
}
