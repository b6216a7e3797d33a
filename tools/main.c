/* tools/main.c - the `kith` command: finds the subcommand and hands over.
 *
 *     kith SUBCOMMAND [options]      kith help [SUBCOMMAND]      kith --version
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "command.h"

#include <kith/version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const ki_command *const commands[] = {
    &ki_command_run,
    &ki_command_info,
    &ki_command_topo,
    &ki_command_flight,
    &ki_command_bench,
    &ki_command_compare,
    &ki_command_plan,
    &ki_command_schedule,
    &ki_command_train,
    &ki_command_generate,
    &ki_command_tune,
};
#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static const ki_command *command_find(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i]->name, name) == 0) return commands[i];
    return NULL;
}

static void print_overview(FILE *out)
{
    fputs("Usage: kith SUBCOMMAND [options]\n"
          "Process groups, collectives and messages for model-parallel trainers.\n\n"
          "Subcommands:\n",
          out);
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    fprintf(out, "  %-10s %s\n", "help", "Explain a subcommand: kith help run");
    fputs("\nOptions:\n"
          "  --help     this text\n"
          "  --version  version of the command and of the library\n\n"
          "Example: kith run -n 4 -- ./train\n",
          out);
}

static int unknown_command(const char *name)
{
    const char *names[COMMAND_COUNT + 1];
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        names[i] = commands[i]->name;
    names[COMMAND_COUNT] = "help";
    const char *nearest = ki_nearest(name, names, COMMAND_COUNT + 1);
    if (nearest != NULL)
        fprintf(stderr, "kith: there is no subcommand '%s'; did you mean '%s'?\n", name, nearest);
    else
        fprintf(stderr, "kith: there is no subcommand '%s'; 'kith --help' lists them\n", name);
    return KI_EXIT_USAGE;
}

static int print_help(const char *name)
{
    const ki_command *command = name == NULL ? NULL : command_find(name);
    if (command != NULL)
        fputs(command->help, stdout);
    else if (name == NULL || strcmp(name, "help") == 0)
        print_overview(stdout);
    else
        return unknown_command(name);
    return KI_EXIT_OK;
}

static int print_version(void)
{
    printf("kith %s\n", KITH_VERSION_STRING);
    if (strcmp(kith_version(), KITH_VERSION_STRING) != 0) printf("libkith %s\n", kith_version());
    return KI_EXIT_OK;
}

/* `kith NAME --help` anywhere before the words that belong to a program. */
static bool wants_help(int argc, char **argv)
{
    return argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
}

/* Output that could not be written (a full disk) is a failure too; who has said so returned 2 already. */
static int finish(int status)
{
    if ((fflush(stdout) == 0 && !ferror(stdout)) || status == KI_EXIT_USAGE)
        return status;
    perror("kith: cannot write standard output");
    return KI_EXIT_USAGE;
}

static bool uses_streams(const ki_command *command)
{
    return command == &ki_command_train || command == &ki_command_generate || command == &ki_command_bench;
}

/* CUDA has 8 queues for streams unless it is told before it starts. More streams share them, and then work waits for
 * other streams' work that it has nothing to do with: over several ranks, which wait for each other, in a circle. A
 * rank has streams of its layers, of copies and of every group with NCCL. */
static void take_queues(void)
{
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_overview(stderr);
        return KI_EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0)
        return finish(print_help(argc > 2 ? argv[2] : NULL));
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) return finish(print_version());
    const ki_command *command = command_find(name);
    if (command == NULL) return unknown_command(name);
    if (wants_help(argc - 1, argv + 1)) return finish(print_help(name));
    if (uses_streams(command)) take_queues();
    return finish(command->run(argc - 1, argv + 1));
}
