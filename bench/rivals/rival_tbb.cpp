/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oneTBB's flow graph: a continue_node a node, an edge an edge. Its edges must all be there before
 * a message passes (a late one would miss it), so it always builds first and runs then: its figure
 * for an open graph is that of the held one. Taking the graph down is not timed.
 */
#include "bench/rivals/rival.h"

#include <deque>
#include <memory>
#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>

namespace
{

namespace flow = oneapi::tbb::flow;
using node_type = flow::continue_node<flow::continue_msg>;

std::unique_ptr<oneapi::tbb::global_control> thread_limit;
std::unique_ptr<oneapi::tbb::task_arena> arena;

bool open_tbb()
{
    thread_limit = std::make_unique<oneapi::tbb::global_control>(
        oneapi::tbb::global_control::max_allowed_parallelism, 2);
    arena = std::make_unique<oneapi::tbb::task_arena>(2);
    return true;
}

void close_tbb()
{
    arena.reset();
    thread_limit.reset();
}

void run_graph(rival_run *run)
{
    const bench_dag *dag = run->dag;
    flow::graph graph;
    std::deque<node_type> nodes;
    double start_ns = rival_now_ns();
    for (uint32_t i = 0; i < dag->nodes; i++) {
        nodes.emplace_back(graph, [run, i](const flow::continue_msg &) { rival_body(run, i); });
        for (uint32_t k = dag->first[i]; k < dag->first[i + 1]; k++)
            flow::make_edge(nodes[dag->predecessors[k]], nodes[i]);
    }
    double release_ns = rival_now_ns();
    nodes[0].try_put(flow::continue_msg());
    graph.wait_for_all();
    double end_ns = rival_now_ns();
    run->total_ns = end_ns - start_ns;
    run->run_ns = end_ns - release_ns;
}

bool run_tbb(rival_run *run)
{
    try {
        arena->execute([run] { run_graph(run); });
    } catch (...) {
        return false;
    }
    return true;
}

/* Its workers go to sleep by themselves soon after the last task. */
void rest_tbb()
{
}

} // namespace

extern "C" const rival *rival_onetbb(void)
{
    static const rival onetbb = {"onetbb", open_tbb, run_tbb, rest_tbb, close_tbb};
    return &onetbb;
}
