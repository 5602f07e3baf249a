/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/reshard_report.h"

#include "tools/trace_text.h"

#include <inttypes.h>

const char reshard_report_definitions[] =
    "A move is a box of the array, START+COUNT in each dimension, from a position of one mesh to a "
    "position of the other. packed, unpacked: it is strided there, and goes through scratch. out, "
    "in: what a member sends and receives. bound: the least that the busiest member can send or "
    "receive, if bytes come from members that have them. scratch: what a plan needs for moves that "
    "are packed or unpacked, so that none waits for another.";

static double ratio(const ferry_reshard_info *info)
{
    return info->bound_bytes != 0 ? (double)info->busiest_bytes / (double)info->bound_bytes : 1;
}

static bool has_part(const ferry_reshard_member *member)
{
    return member->from_count != 0 || member->to_count != 0;
}

static ferry_reshard_member member_at(const reshard_report *report, ferry_rank rank)
{
    ferry_reshard_member member = FERRY_RESHARD_MEMBER_INIT;
    (void)ferry_reshard_member_at(report->reshard, rank, &member);
    return member;
}

static ferry_reshard_move move_at(const reshard_report *report, uint64_t index)
{
    ferry_reshard_move move = FERRY_RESHARD_MOVE_INIT;
    (void)ferry_reshard_move_at(report->reshard, index, &move);
    return move;
}

static uint64_t moves_shown(const reshard_report *report)
{
    uint64_t count = report->info.move_count;
    return count < report->moves_max ? count : report->moves_max;
}

/* ---- text ---- */

static const char *bytes(char text[TRACE_FIGURE_BYTES], uint64_t size)
{
    trace_text_bytes(text, (double)size);
    return text;
}

static void write_move(const reshard_report *report, const ferry_reshard_move *move, FILE *to)
{
    char size[TRACE_FIGURE_BYTES];
    bool is_local = move->source_rank == move->target_rank;
    fprintf(to, "%5" PRIu32 " %6" PRIu32 "%c %5" PRIu32 " %6" PRIu32 "   %10s  %-15s [",
            move->source_rank, move->source_position, move->side == FERRY_RESHARD_TO ? '\'' : ' ',
            move->target_rank, move->target_position, bytes(size, move->size_bytes),
            is_local          ? "local"
            : move->is_packed ? (move->is_unpacked ? "packed unpacked" : "packed")
                              : (move->is_unpacked ? "unpacked" : "in place"));
    for (size_t d = 0; d < report->dimension_count; d++)
        fprintf(to, "%s%" PRIu64 "+%" PRIu64, d != 0 ? ", " : "", move->offset[d], move->extent[d]);
    fputs("]\n", to);
}

static void write_members(const reshard_report *report, FILE *to)
{
    char out[TRACE_FIGURE_BYTES], in[TRACE_FIGURE_BYTES], local[TRACE_FIGURE_BYTES],
        scratch[TRACE_FIGURE_BYTES];
    fprintf(to, "\n rank        out         in      local  sends  receives    scratch\n");
    for (ferry_rank rank = 0; rank < report->info.rank_count; rank++) {
        const ferry_reshard_member member = member_at(report, rank);
        if (has_part(&member))
            fprintf(to, "%5" PRIu32 " %10s %10s %10s %6" PRIu64 " %9" PRIu64 " %10s\n", rank,
                    bytes(out, member.out_bytes), bytes(in, member.in_bytes),
                    bytes(local, member.local_bytes), member.send_count, member.receive_count,
                    bytes(scratch, member.scratch_bytes));
    }
}

void reshard_report_text(const reshard_report *report, FILE *to)
{
    const ferry_reshard_info *info = &report->info;
    char array[TRACE_FIGURE_BYTES], crossing[TRACE_FIGURE_BYTES], local[TRACE_FIGURE_BYTES],
        busiest[TRACE_FIGURE_BYTES], bound[TRACE_FIGURE_BYTES];
    fprintf(to,
            "%s of %s: %" PRIu32 " positions to %" PRIu32 "\n"
            "%s cross in %" PRIu64 " messages, %s are local; the busiest member moves %s, the "
            "bound is %s: %.3f of it\n",
            bytes(array, info->array_bytes), report->shape, info->from_positions,
            info->to_positions, bytes(crossing, info->crossing_bytes), info->message_count,
            bytes(local, info->local_bytes), bytes(busiest, info->busiest_bytes),
            bytes(bound, info->bound_bytes), ratio(info));
    write_members(report, to);
    uint64_t shown = moves_shown(report);
    if (shown != 0)
        fprintf(to, "\n from    pos     to    pos         size  way             box\n");
    for (uint64_t i = 0; i < shown; i++) {
        const ferry_reshard_move move = move_at(report, i);
        write_move(report, &move, to);
    }
    if (shown < info->move_count)
        fprintf(to, "and %" PRIu64 " more moves (--moves)\n", info->move_count - shown);
}

/* ---- JSON ---- */

static void json_list(FILE *to, const char *name, const uint64_t *numbers, size_t count)
{
    fprintf(to, ",\"%s\":[", name);
    for (size_t i = 0; i < count; i++)
        fprintf(to, "%s%" PRIu64, i != 0 ? "," : "", numbers[i]);
    fputc(']', to);
}

static void json_move(const reshard_report *report, const ferry_reshard_move *move, FILE *to)
{
    fprintf(to,
            "{\"from_rank\":%" PRIu32 ",\"from_position\":%" PRIu32 ",\"is_of_target\":%s"
            ",\"to_rank\":%" PRIu32 ",\"to_position\":%" PRIu32 ",\"size_bytes\":%" PRIu64
            ",\"is_packed\":%s,\"is_unpacked\":%s",
            move->source_rank, move->source_position,
            move->side == FERRY_RESHARD_TO ? "true" : "false", move->target_rank,
            move->target_position, move->size_bytes, move->is_packed ? "true" : "false",
            move->is_unpacked ? "true" : "false");
    json_list(to, "offset", move->offset, report->dimension_count);
    json_list(to, "extent", move->extent, report->dimension_count);
    fputc('}', to);
}

static void json_members(const reshard_report *report, FILE *to)
{
    const char *comma = "";
    fputs(",\"members\":[", to);
    for (ferry_rank rank = 0; rank < report->info.rank_count; rank++) {
        const ferry_reshard_member member = member_at(report, rank);
        if (!has_part(&member))
            continue;
        fprintf(to,
                "%s{\"rank\":%" PRIu32 ",\"out_bytes\":%" PRIu64 ",\"in_bytes\":%" PRIu64
                ",\"local_bytes\":%" PRIu64 ",\"sends\":%" PRIu64 ",\"receives\":%" PRIu64
                ",\"scratch_bytes\":%" PRIu64 "}",
                comma, rank, member.out_bytes, member.in_bytes, member.local_bytes,
                member.send_count, member.receive_count, member.scratch_bytes);
        comma = ",";
    }
    fputc(']', to);
}

void reshard_report_json(const reshard_report *report, FILE *to)
{
    const ferry_reshard_info *info = &report->info;
    fprintf(to,
            "{\"array_bytes\":%" PRIu64 ",\"from_positions\":%" PRIu32 ",\"to_positions\":%" PRIu32
            ",\"crossing_bytes\":%" PRIu64 ",\"local_bytes\":%" PRIu64 ",\"messages\":%" PRIu64
            ",\"move_count\":%" PRIu64 ",\"busiest_bytes\":%" PRIu64 ",\"bound_bytes\":%" PRIu64
            ",\"ratio\":%.4f",
            info->array_bytes, info->from_positions, info->to_positions, info->crossing_bytes,
            info->local_bytes, info->message_count, info->move_count, info->busiest_bytes,
            info->bound_bytes, ratio(info));
    json_members(report, to);
    fputs(",\"moves\":[", to);
    uint64_t shown = moves_shown(report);
    for (uint64_t i = 0; i < shown; i++) {
        const ferry_reshard_move move = move_at(report, i);
        fputs(i != 0 ? "," : "", to);
        json_move(report, &move, to);
    }
    fputs("]}\n", to);
}
