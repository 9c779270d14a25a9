/* Preloaded into a process: its wall clock is ahead of the machine's by TIDEMILL_TEST_CLOCK_AHEAD_S seconds. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static time_t ahead;

__attribute__((constructor)) static void begin(void) {
    const char *seconds = getenv("TIDEMILL_TEST_CLOCK_AHEAD_S");
    ahead = seconds ? atoll(seconds) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && clock == CLOCK_REALTIME) now->tv_sec += ahead;
    return failed;
}
