/*
 * Preloaded into passt, to run it in a launcher pod.
 *
 * passt isolates itself in namespaces of its own and exits if it cannot create them. A container with the seccomp
 * profile RuntimeDefault and without capabilities cannot, and needs none: the pod is the isolation, and passt runs as
 * QEMU's user. So the system calls that passt uses for this succeed without effect. Its own seccomp filter and the
 * removal of its capabilities are not affected.
 *
 * passt learns the guest's MAC address from the first frame that the guest sends, and cannot reach it before. A passt
 * that replaces one that ended finds a guest that may be silent for hours. So when QEMU connects, the guest is asked
 * for its MAC address by ARP: whichever of the pod's addresses the guest has, it answers. Newer versions of passt do
 * this themselves.
 *
 * passt crashes if it cannot send a TCP frame without data: before QEMU connects, and when QEMU does not read, as while
 * the guest is paused. After a crash before QEMU connected, nothing starts another passt. So connections to the guest
 * are reset until QEMU connects, and frames for which QEMU's socket has no room are lost, as in any network.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/if_ether.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static long (*libc_syscall)(long, ...);
static int (*libc_accept4)(int, struct sockaddr *, socklen_t *, int);
static ssize_t (*libc_sendmsg)(int, const struct msghdr *, int);

/* QEMU's connection: the only one of its family, and the last one of this process. */
static int guest = -1;
/* Whether it carries frames; that of vhost-user carries commands. */
static int has_frames;

/* A frame as QEMU's stream socket carries it. */
struct arp_frame {
  uint32_t length;
  struct ether_header ethernet;
  struct ether_arp arp;
} __attribute__((packed));

/* One for each address of the pod; a pod with more than one network has a few. */
static struct arp_frame questions[8];
static size_t question_count;

static const uint8_t broadcast[ETH_ALEN] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
/* passt's own address in its network with the guest, where nothing else has one. */
static const uint8_t own[ETH_ALEN] = {0x9a, 0x55, 0x9a, 0x55, 0x9a, 0x55};

/* Without an address of the sender, as RFC 5227 defines a probe, the guest answers and stores nothing. */
static struct arp_frame ask_for(struct in_addr address) {
  struct arp_frame frame = {.length = htonl(sizeof(frame) - sizeof(frame.length))};
  memcpy(frame.ethernet.ether_dhost, broadcast, ETH_ALEN);
  memcpy(frame.ethernet.ether_shost, own, ETH_ALEN);
  frame.ethernet.ether_type = htons(ETHERTYPE_ARP);
  frame.arp.arp_hrd = htons(ARPHRD_ETHER);
  frame.arp.arp_pro = htons(ETHERTYPE_IP);
  frame.arp.arp_hln = ETH_ALEN;
  frame.arp.arp_pln = sizeof(address);
  frame.arp.arp_op = htons(ARPOP_REQUEST);
  memcpy(frame.arp.arp_sha, own, ETH_ALEN);
  memcpy(frame.arp.arp_tpa, &address, sizeof(address));
  return frame;
}

static int uses_vhost_user(int argc, char **argv) {
  for (int i = 1; i < argc; i++)
    if (strcmp(argv[i], "--vhost-user") == 0) return 1;
  return 0;
}

/* Before passt installs its filter. */
__attribute__((constructor)) static void prepare(int argc, char **argv) {
  libc_syscall = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
  libc_accept4 = (int (*)(int, struct sockaddr *, socklen_t *, int))dlsym(RTLD_NEXT, "accept4");
  libc_sendmsg = (ssize_t (*)(int, const struct msghdr *, int))dlsym(RTLD_NEXT, "sendmsg");
  has_frames = !uses_vhost_user(argc, argv);
  struct ifaddrs *list;
  /* A guest with vhost-user recovers by itself. */
  if (!has_frames || getifaddrs(&list) != 0) return;
  for (struct ifaddrs *each = list; each != NULL; each = each->ifa_next) {
    if (question_count == sizeof(questions) / sizeof(questions[0])) break;
    if (each->ifa_addr == NULL || each->ifa_addr->sa_family != AF_INET || each->ifa_flags & IFF_LOOPBACK) continue;
    questions[question_count++] = ask_for(((struct sockaddr_in *)each->ifa_addr)->sin_addr);
  }
  freeifaddrs(list);
}

static int domain_of(int connection) {
  int domain = AF_UNSPEC;
  socklen_t size = sizeof(domain);
  return getsockopt(connection, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 ? domain : AF_UNSPEC;
}

int accept4(int listening, struct sockaddr *address, socklen_t *length, int flags) {
  int accepted = libc_accept4(listening, address, length, flags);
  if (accepted < 0) return accepted;
  if (domain_of(accepted) == AF_UNIX) {
    /* A new connection has room for these frames. */
    struct iovec part = {.iov_base = questions, .iov_len = question_count * sizeof(questions[0])};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (question_count > 0) libc_sendmsg(accepted, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    guest = accepted;
  } else if (guest < 0) {
    struct linger reset = {.l_onoff = 1};
    setsockopt(accepted, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    close(accepted);
    errno = ECONNABORTED;
    return -1;
  }
  return accepted;
}

/* The longest TCP frame without data: after its length, Ethernet's header, IPv6's, and TCP's with all its options. */
enum { LONGEST_WITHOUT_DATA = sizeof(uint32_t) + sizeof(struct ether_header) + 40 + 60 };

/* Sends the bytes of `message` from `offset` until `end`, and waits for room. */
static int send_rest(const struct msghdr *message, size_t offset, size_t end) {
  size_t position = 0;
  for (size_t i = 0; i < message->msg_iovlen; position += message->msg_iov[i++].iov_len) {
    const char *bytes = message->msg_iov[i].iov_base;
    size_t limit = position + message->msg_iov[i].iov_len < end ? position + message->msg_iov[i].iov_len : end;
    while (offset >= position && offset < limit) {
      ssize_t sent = send(guest, bytes + (offset - position), limit - offset, MSG_NOSIGNAL);
      if (sent < 0) return -1;
      offset += sent;
    }
  }
  return 0;
}

/* Reports frames without room as sent if one of them may be a TCP frame without data. */
ssize_t sendmsg(int connection, const struct msghdr *message, int flags) {
  ssize_t result = libc_sendmsg(connection, message, flags);
  if (connection != guest || !has_frames || (result < 0 && errno != EAGAIN)) return result;
  size_t sent = result < 0 ? 0 : result, position = 0, frame = 0, unfinished = 0;
  int has_short = 0;
  for (size_t i = 0; i < message->msg_iovlen; position += message->msg_iov[i++].iov_len) {
    if (position != frame) continue;
    size_t length = sizeof(uint32_t) + ntohl(*(uint32_t *)message->msg_iov[i].iov_base);
    frame += length;
    if (frame <= sent) continue;
    if (position < sent) unfinished = frame;
    else if (length <= LONGEST_WITHOUT_DATA) has_short = 1;
  }
  if (!has_short || (unfinished != 0 && send_rest(message, sent, unfinished) < 0)) return result;
  return position;
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
