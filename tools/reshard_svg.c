/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The picture of a reshard: a square for each pair of members that exchange bytes, the sender's row
 * and the receiver's column, as dark as it has bytes; behind each row what the member sends, below
 * each column what it receives, with the bound.
 */
#include "tools/reshard_svg.h"

#include "tools/trace_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LEFT_PX 56.0
#define TOP_PX 96.0
#define SQUARE_PX 560.0 /* all of them, each way */
#define CELL_MAX_PX 44.0
#define BAR_PX 160.0
#define GAP_PX 14.0
#define FOOT_PX 40.0
#define NAME_MIN_PX 11.0 /* a cell is named from that size on */

static const char style[] =
    "<style>\n"
    "text{font-family:Arial,\"Liberation Sans\",Helvetica,sans-serif;font-size:12px;fill:#1f2328}\n"
    ".t{font-size:16px;font-weight:bold}.m{fill:#59636e;font-size:11px}\n"
    ".e{text-anchor:end}.i{text-anchor:middle}\n"
    ".c{fill:#2f6db0}.l{fill:#1f7a4d}.o{fill:#2f6db0}.n{fill:#77569e}\n"
    ".r{fill:#f6f8fa}.b{stroke:#c9252d;stroke-width:1.5;stroke-dasharray:4 3}\n"
    "rect:hover{stroke:#0d1117;stroke-width:1.5}\n"
    "</style>\n";

typedef struct picture {
    const reshard_report *report;
    FILE *to;
    ferry_rank *ranks; /* members with a part */
    uint32_t *places;  /* of a rank among these */
    uint32_t count;
    uint64_t *between; /* of two of them: bytes from the first to the second */
    uint64_t most;     /* of these */
    double cell_px, side_px;
} picture;

static double bar_px(const picture *self, uint64_t size)
{
    uint64_t most = self->report->info.busiest_bytes;
    return most != 0 ? BAR_PX * (double)size / (double)most : 0;
}

static void write_frame(const picture *self)
{
    const ferry_reshard_info *info = &self->report->info;
    double width = LEFT_PX + self->side_px + GAP_PX + BAR_PX + FOOT_PX;
    double height = TOP_PX + self->side_px + GAP_PX + BAR_PX + FOOT_PX;
    char crossing[TRACE_FIGURE_BYTES], busiest[TRACE_FIGURE_BYTES], bound[TRACE_FIGURE_BYTES];
    trace_text_bytes(crossing, (double)info->crossing_bytes);
    trace_text_bytes(busiest, (double)info->busiest_bytes);
    trace_text_bytes(bound, (double)info->bound_bytes);
    if (width < 640)
        width = 640;
    fprintf(self->to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"%.0f\" "
            "height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\">\n<title>Reshard of %" PRIu32
            " positions to %" PRIu32
            "</title>\n%s<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
            width, height, width, height, info->from_positions, info->to_positions, style);
    fprintf(self->to, "<text class=\"t\" x=\"16\" y=\"26\">");
    const char *texts[] = {self->report->from, "  \xe2\x86\x92  ", self->report->to};
    for (size_t i = 0; i < 3; i++)
        trace_text_write_xml(self->to, texts[i], strlen(texts[i]));
    fprintf(self->to,
            "</text>\n<text x=\"16\" y=\"46\">%s cross in %" PRIu64
            " messages; the busiest member moves %s, the bound is %s</text>\n"
            "<text class=\"m\" x=\"16\" y=\"64\">rows send, columns receive; green: within a "
            "member; bars: out of and into each, with the bound</text>\n",
            crossing, info->message_count, busiest, bound);
}

static void write_cells(const picture *self)
{
    fprintf(self->to, "<rect class=\"r\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n",
            LEFT_PX, TOP_PX, self->side_px, self->side_px);
    for (uint32_t row = 0; row < self->count; row++) {
        for (uint32_t column = 0; column < self->count; column++) {
            uint64_t size = self->between[(size_t)row * self->count + column];
            char text[TRACE_FIGURE_BYTES];
            if (size == 0)
                continue;
            trace_text_bytes(text, (double)size);
            fprintf(self->to,
                    "<rect class=\"%s\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" "
                    "opacity=\"%.2f\"><title>%" PRIu32 " to %" PRIu32 ": %s</title></rect>\n",
                    row == column ? "l" : "c", LEFT_PX + column * self->cell_px,
                    TOP_PX + row * self->cell_px, self->cell_px * 0.94, self->cell_px * 0.94,
                    0.15 + 0.85 * (double)size / (double)self->most, self->ranks[row],
                    self->ranks[column], text);
        }
    }
}

static void write_member(const picture *self, uint32_t place)
{
    ferry_reshard_member member = FERRY_RESHARD_MEMBER_INIT;
    char out[TRACE_FIGURE_BYTES], in[TRACE_FIGURE_BYTES];
    (void)ferry_reshard_member_at(self->report->reshard, self->ranks[place], &member);
    trace_text_bytes(out, (double)member.out_bytes);
    trace_text_bytes(in, (double)member.in_bytes);
    double along = place * self->cell_px, beyond = self->side_px + GAP_PX;
    fprintf(self->to,
            "<rect class=\"o\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"><title>%" PRIu32
            " sends %s</title></rect>\n"
            "<rect class=\"n\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"><title>%" PRIu32
            " receives %s</title></rect>\n",
            LEFT_PX + beyond, TOP_PX + along, bar_px(self, member.out_bytes), self->cell_px * 0.94,
            self->ranks[place], out, LEFT_PX + along, TOP_PX + beyond, self->cell_px * 0.94,
            bar_px(self, member.in_bytes), self->ranks[place], in);
    if (self->cell_px < NAME_MIN_PX)
        return;
    double middle = along + self->cell_px / 2;
    fprintf(self->to,
            "<text class=\"m e\" x=\"%.1f\" y=\"%.1f\">%" PRIu32 "</text>"
            "<text class=\"m i\" x=\"%.1f\" y=\"%.1f\">%" PRIu32 "</text>\n",
            LEFT_PX - 6, TOP_PX + middle + 4, self->ranks[place], LEFT_PX + middle, TOP_PX - 6,
            self->ranks[place]);
}

static void write_bound(const picture *self)
{
    double at = self->side_px + GAP_PX + bar_px(self, self->report->info.bound_bytes);
    fprintf(self->to,
            "<path class=\"b\" d=\"M%.1f %.1fV%.1f\"/><path class=\"b\" d=\"M%.1f %.1fH%.1f\"/>\n",
            LEFT_PX + at, TOP_PX, TOP_PX + self->side_px, LEFT_PX, TOP_PX + at,
            LEFT_PX + self->side_px);
}

/* Who has a part, and what goes between them. */
static bool gather(picture *self)
{
    const ferry_reshard *reshard = self->report->reshard;
    ferry_reshard_move move = FERRY_RESHARD_MOVE_INIT;
    for (ferry_rank rank = 0; rank < self->report->info.rank_count; rank++) {
        ferry_reshard_member member = FERRY_RESHARD_MEMBER_INIT;
        (void)ferry_reshard_member_at(reshard, rank, &member);
        self->places[rank] = self->count;
        if (member.from_count != 0 || member.to_count != 0)
            self->ranks[self->count++] = rank;
    }
    self->between = calloc((size_t)self->count * self->count, sizeof(*self->between));
    if (!self->between)
        return false;
    for (uint64_t i = 0; ferry_reshard_move_at(reshard, i, &move) == FERRY_OK; i++) {
        uint64_t *at = &self->between[(size_t)self->places[move.source_rank] * self->count +
                                      self->places[move.target_rank]];
        *at += move.size_bytes;
        self->most = *at > self->most ? *at : self->most;
    }
    self->cell_px = SQUARE_PX / self->count;
    if (self->cell_px > CELL_MAX_PX)
        self->cell_px = CELL_MAX_PX;
    self->side_px = self->cell_px * self->count;
    return true;
}

bool reshard_svg_write(const reshard_report *report, FILE *to)
{
    picture self = {.report = report, .to = to};
    self.ranks = calloc(report->info.rank_count, sizeof(*self.ranks));
    self.places = calloc(report->info.rank_count, sizeof(*self.places));
    bool is_gathered = self.ranks && self.places && gather(&self);
    if (is_gathered) {
        write_frame(&self);
        write_cells(&self);
        for (uint32_t i = 0; i < self.count; i++)
            write_member(&self, i);
        write_bound(&self);
        fputs("</svg>\n", to);
    }
    free(self.ranks);
    free(self.places);
    free(self.between);
    return is_gathered;
}
