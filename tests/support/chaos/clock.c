/* A clock that can be moved while a program runs: preloaded, it adds to the time of day what stands in the file that
   MOVED_CLOCK names, a number of seconds of 8 bytes. Sleeping and waiting stay as they are. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long long *moved;

__attribute__((constructor)) static void find(void) {
  const char *name = getenv("MOVED_CLOCK");
  int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
  void *there = file < 0 ? MAP_FAILED : mmap(0, sizeof *moved, PROT_READ, MAP_SHARED, file, 0);
  if (there != MAP_FAILED) moved = there;
  if (file >= 0) close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int result = (int)syscall(SYS_clock_gettime, clock, now);
  if (!result && moved && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *moved;
  return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  (void)zone;
  struct timespec exact;
  int result = clock_gettime(CLOCK_REALTIME, &exact);
  if (!result && now) now->tv_sec = exact.tv_sec, now->tv_usec = exact.tv_nsec / 1000;
  return result;
}

time_t time(time_t *there) {
  struct timespec exact;
  clock_gettime(CLOCK_REALTIME, &exact);
  if (there) *there = exact.tv_sec;
  return exact.tv_sec;
}
