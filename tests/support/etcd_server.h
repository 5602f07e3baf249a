/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real etcd servers on loopback for tests: one node or a cluster, on ports that are free, with
 * their data in memory where there is /dev/shm. They die with the thread that started them, and
 * their folder goes then too, however the test ends. One thread.
 */
#ifndef FERRY_TESTS_ETCD_SERVER_H
#define FERRY_TESTS_ETCD_SERVER_H

#include <stdbool.h>
#include <stddef.h>

#define ETCD_NODES_MAX 5

typedef struct etcd_cluster etcd_cluster;

/* Files in PEM; NULL: no TLS. A client_ca_path has etcd ask clients for a certificate. */
typedef struct etcd_tls {
    const char *certificate_path, *key_path, *client_ca_path;
} etcd_tls;

/* NULL if etcd is installed, else why tests with it are to be skipped. */
const char *etcd_absent(void);

/* Started and healthy, or NULL with a line on stderr. tls may be NULL. */
etcd_cluster *etcd_cluster_start(unsigned nodes, const etcd_tls *tls);

/* Kills what runs and removes the folder; NULL is allowed. */
void etcd_cluster_stop(etcd_cluster *cluster);

/* "etcd://127.0.0.1:PORT,..." of all nodes in their order ("etcds://" with TLS). The cluster's. */
const char *etcd_cluster_uri(const etcd_cluster *cluster);

/* "127.0.0.1:PORT" of a node's clients. The cluster's. */
const char *etcd_node_address(const etcd_cluster *cluster, unsigned node);

/* Its folder, for what else a test keeps; removed with it. */
const char *etcd_cluster_folder(const etcd_cluster *cluster);

/* SIGKILL, and waits for the end. A node that is killed already is left so. */
void etcd_node_kill(etcd_cluster *cluster, unsigned node);

/* Starts a killed node again, with its data and ports; waits until it is healthy. */
bool etcd_node_restart(etcd_cluster *cluster, unsigned node);

/* Starts all that are killed, together, as each waits for the others' votes. */
bool etcd_cluster_restart(etcd_cluster *cluster);

/* Kills all, and starts them again without what they had, as a new cluster; false: they don't
 * start. */
bool etcd_cluster_empty(etcd_cluster *cluster);

/* SIGSTOP and SIGCONT, and waits until the kernel says so. */
void etcd_node_pause(etcd_cluster *cluster, unsigned node);
void etcd_node_resume(etcd_cluster *cluster, unsigned node);
void etcd_cluster_pause(etcd_cluster *cluster);
void etcd_cluster_resume(etcd_cluster *cluster);

/* The leader's number, asked of a node that runs; ETCD_NODES_MAX: nobody says. Not with TLS. */
unsigned etcd_cluster_leader(const etcd_cluster *cluster);

/*
 * Posts a JSON body to a path ("/v3/kv/put") of a node by a connection of its own, the answer's
 * body as text, cut to its room. False: no answer within 10 s. Not with TLS.
 */
bool etcd_post(const etcd_cluster *cluster, unsigned node, const char *path, const char *body,
               char *answer, size_t answer_bytes);

#endif
