/*
 * Preloaded into passt. passt isolates itself in namespaces of its own and exits if it cannot create them. A container
 * with the seccomp profile RuntimeDefault and without capabilities cannot, and needs none: the pod is the isolation, and
 * passt runs as QEMU's user. So the system calls that passt uses for this succeed without effect. Its own seccomp filter
 * and the removal of its capabilities are not affected.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <sys/syscall.h>

static long (*libc_syscall)(long, ...);

/* Looked up before passt installs its filter. */
__attribute__((constructor)) static void find_syscall(void) {
  libc_syscall = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
}

int unshare(int flags) {
  (void)flags;
  return 0;
}

int mount(const char *source, const char *target, const char *type, unsigned long flags, const void *data) {
  (void)source, (void)target, (void)type, (void)flags, (void)data;
  return 0;
}

int umount2(const char *target, int flags) {
  (void)target, (void)flags;
  return 0;
}

/* passt calls pivot_root by its number, since libc has no function for it. */
long syscall(long number, ...) {
  if (number == SYS_pivot_root) return 0;
  long argument[6];
  va_list list;
  va_start(list, number);
  for (int i = 0; i < 6; i++) argument[i] = va_arg(list, long);
  va_end(list);
  return libc_syscall(number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
}
