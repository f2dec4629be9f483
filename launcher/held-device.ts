import { close, constants, open } from 'node:fs'
import { stat } from 'node:fs/promises'
import { promisify } from 'node:util'
import { type Clock, sleep } from '../runtime/clock.ts'

/** Another process holds a device, or something on its node does: a file system that is mounted, LVM. */
class DeviceHeld extends Error {
  override name = 'DeviceHeld'
}

export const isHeld = (error: unknown): error is DeviceHeld => error instanceof DeviceHeld

/** Another launcher has a device for a moment when it only looks, and so do programs of the node. */
const attempts = 10
const retryMs = 100

/**
 * Block devices that this process holds. Linux lets one opener of a device have it with O_EXCL, by whichever device
 * node, and does not keep out those who open it without. QEMU's own lock is on the device node, and each container has
 * one of its own.
 */
export class HeldDevices {
  readonly #clock: Clock
  /** File descriptors, by the number of the device. */
  readonly #held = new Map<number, number>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * Holds a device until `release`. No effect if it is held already.
   * @throws DeviceHeld
   */
  async hold(path: string): Promise<void> {
    const { rdev } = await stat(path)
    if (!this.#held.has(rdev)) this.#held.set(rdev, await this.#open(path))
  }

  /** QEMU has ended: the next VM can have the devices. */
  release(): void {
    for (const descriptor of this.#held.values()) close(descriptor, () => {})
    this.#held.clear()
  }

  /**
   * Holds a device during some work.
   * @throws DeviceHeld before it
   */
  async during<T>(path: string, work: () => Promise<T>): Promise<T> {
    if (this.#held.has((await stat(path)).rdev)) return work()
    const descriptor = await this.#open(path)
    try {
      return await work()
    } finally {
      await promisify(close)(descriptor)
    }
  }

  /** @throws DeviceHeld if another process holds the device */
  async check(path: string): Promise<void> {
    await this.during(path, async () => {})
  }

  async #open(path: string): Promise<number> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await promisify(open)(path, constants.O_RDONLY | constants.O_EXCL)
      } catch (error) {
        if (!(error instanceof Error && 'code' in error && error.code === 'EBUSY')) throw error
        if (attempt === attempts) throw new DeviceHeld(error.message, { cause: error })
      }
      await sleep(this.#clock, retryMs)
    }
  }
}
