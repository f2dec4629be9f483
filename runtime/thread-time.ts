/**
 * The CPU time of this thread, in milliseconds. The kernel adds what a thread uses at a tick or a switch (every 4 or
 * 10 ms), so of shorter work only a part would be seen. When a process asks for the time of all its threads, Linux adds
 * what the asking one has used until then (`thread_group_cputime`, since 4.8). Both calls take 8 µs.
 */
export function threadMs(): number {
  process.cpuUsage()
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}

/**
 * The time for which this thread had the CPU or needed none, in milliseconds: what passes while others have the CPU is
 * left out. On a busy node, a process may have a fifth of a CPU core.
 */
export const availableMs = (): number => threadMs() + performance.eventLoopUtilization().idle
