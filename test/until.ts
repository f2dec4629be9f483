import { setTimeout as delay } from 'node:timers/promises'

/**
 * Waits until `isTrue`, doing `meanwhile` in between, for at most `deadlineMs`; then throws, with `describe`'s words. For what happens on real
 * sockets: a fake clock cannot hurry those.
 */
export async function until(
  isTrue: () => boolean | Promise<boolean>,
  meanwhile: () => unknown = () => {},
  options: { deadlineMs?: number; describe?: () => string } = {},
): Promise<void> {
  const { deadlineMs = 5000, describe } = options
  const startedMs = performance.now()
  while (!(await isTrue())) {
    if (performance.now() - startedMs > deadlineMs) {
      throw new Error(`not within ${deadlineMs} ms: ${describe ? describe() : isTrue.toString()}`)
    }
    await meanwhile()
    await delay(1)
  }
}
