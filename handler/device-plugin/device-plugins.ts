import { join } from 'node:path'
import type { Clock } from '../../runtime/clock.ts'
import type { Logger } from '../../runtime/log.ts'
import { readNumbers, type DeviceNumbers, type Offer } from './device.ts'
import { createPlugin, type Plugin } from './plugin.ts'
import type { DeviceSpec } from './protocol.ts'
import { readKubelet, register } from './registration.ts'

/** A look costs a few system calls. Until the kubelet knows the devices, it refuses the pods that need them. */
const lookAgainMs = 1000
/** A kubelet that does not receive the list this long after the registration, or has closed it, is asked again. */
const unwatchedMs = 10_000

export interface DevicePlugins {
  /** Resolves when no request and no timer is left. */
  stop(): Promise<void>
}

/** One offer, once the node has its device. */
interface Running {
  readonly plugin: Plugin
  /** The kubelet that it is registered with. */
  kubelet: string | undefined
  /** By the monotonic clock: when it was last watched, or registered. */
  watchedMs: number
}

/**
 * Offers devices of this node to the kubelet as resources `devices.virtset.io/NAME`, each where and while the node has
 * the device, and registers again with a kubelet that has restarted.
 *
 * Nothing is stored: each look compares the devices and the kubelet's socket with what was last seen, so it does not
 * matter what happened between two looks. Containers that have a device are not affected by a restart of the handler.
 *
 * @param options `directory`: the kubelet's directory of device plugins, by the same path as on the host; `count`: the
 *   number of containers that can have each device at once; `ensureNode`: creates a node for the device at a path
 */
export function startDevicePlugins(options: {
  readonly offers: readonly Offer[]
  readonly directory: string
  readonly sysfs: string
  readonly count: number
  readonly ensureNode: (path: string, numbers: DeviceNumbers) => Promise<void>
  readonly log: Logger
  readonly clock: Clock
}): DevicePlugins {
  const { offers, directory, sysfs, count, ensureNode, log, clock } = options
  const running = new Map<Offer, Running>()
  /** The last failure of each offer that was logged. */
  const failures = new Map<Offer, string>()
  let isStopped = false
  let cancel = () => {}

  const allocate = async ({ device, isOptional }: Offer): Promise<readonly DeviceSpec[]> => {
    const numbers = await readNumbers(sysfs, device)
    if (numbers === undefined) {
      if (isOptional) return []
      throw new Error(`this node has no ${device.path}`)
    }
    const hostPath = join(directory, 'virtset', device.name)
    try {
      await ensureNode(hostPath, numbers)
    } catch (error) {
      // The offer of the device itself reports it.
      if (isOptional) return []
      throw error
    }
    return [{ containerPath: device.path, hostPath, permissions: 'rw' }]
  }

  const lookAt = async (offer: Offer, kubelet: string | undefined): Promise<void> => {
    const isPresent = offer.isOptional || (await readNumbers(sysfs, offer.device)) !== undefined
    const known = running.get(offer)
    if (known === undefined && !isPresent) return
    const current = known ?? start(offer)
    const { plugin } = current
    plugin.setHealthy(isPresent)
    if (plugin.isWatched()) current.watchedMs = clock.monotonic()
    const isRegistered =
      current.kubelet === kubelet && clock.monotonic() - current.watchedMs < unwatchedMs && (await plugin.isListening())
    if (kubelet === undefined || isRegistered) return
    // A node that cannot be created must not be offered.
    await allocate(offer)
    await plugin.listen()
    await register(directory, plugin)
    current.kubelet = kubelet
    current.watchedMs = clock.monotonic()
    log.info({ resource: plugin.resourceName, count }, 'offered a device to the kubelet')
  }

  const start = (offer: Offer): Running => {
    const { name } = offer
    const resourceName = `devices.virtset.io/${name}`
    const plugin = createPlugin({
      resourceName,
      name,
      directory,
      count,
      allocate: async () => ({ devices: await allocate(offer) }),
    })
    const started = { plugin, kubelet: undefined, watchedMs: clock.monotonic() }
    running.set(offer, started)
    return started
  }

  const look = async (): Promise<void> => {
    const kubelet = await readKubelet(directory)
    for (const offer of offers) {
      if (isStopped) return
      await lookAt(offer, kubelet).then(
        () => failures.delete(offer),
        (error: unknown) => reportOnce(offer, error),
      )
    }
  }

  const reportOnce = (offer: Offer, error: unknown): void => {
    if (failures.get(offer) === String(error)) return
    failures.set(offer, String(error))
    log.warn({ err: error, device: offer.name }, 'could not offer a device to the kubelet; trying again')
  }

  const next = async (): Promise<void> => {
    await look().catch((error: unknown) => log.warn({ err: error }, 'could not look at the devices of the node'))
    if (isStopped) return
    cancel = clock.after(lookAgainMs, () => {
      current = next()
    })
  }
  let current = next()

  return {
    async stop() {
      isStopped = true
      cancel()
      await current
      for (const { plugin } of running.values()) await plugin.stop()
    },
  }
}
