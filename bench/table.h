/* SPDX-License-Identifier: Apache-2.0 */
/* The table at the end: ferry beside each rival and each limit. */
#ifndef FRY_BENCH_TABLE_H
#define FRY_BENCH_TABLE_H

/*
 * Reads rows as --json prints them ("-": from stdin) and prints them as a Markdown table: those
 * that are to reach something, and those that compare with a rival. Of a row that comes several
 * times, from several runs, the median is taken. Lines {"run":{..}}, {"demo":{..}} and
 * {"suite":..,"outcome":..}, as script/gpu writes them, are told of, ferry_probe's are left out;
 * where a row is of the emulator, nothing is judged. Fails the bench if the file can't be read.
 */
void bench_table_print(const char *path);

#endif
