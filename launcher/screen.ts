import type { NetConnectOpts } from 'node:net'
import type { Clock } from '../runtime/clock.ts'
import type { JsonObject } from '../runtime/launcher-api.ts'
import { dial } from './dial.ts'
import { createRelay, type GuestSession } from './guest-session.ts'
import { itemOf, itemsOf } from './live-domain.ts'
import { Refused } from './refused.ts'

/** QEMU stores up to two frames for a viewer that does not read, for which the launcher pod has memory. */
const viewersPerVm = 4

/**
 * Connects viewers with the VNC server of QEMU.
 * @param readDomain the live domain, in which libvirt has recorded where QEMU listens
 */
export function createScreen(
  readDomain: () => Promise<JsonObject | undefined>,
  clock: Clock,
): () => Promise<GuestSession> {
  const relay = createRelay({ most: viewersPerVm, what: 'viewers of its screen', clock })
  return () =>
    relay(async () => {
      const place = vncPlace(await readDomain())
      if (place === undefined) throw noScreen
      try {
        return await dial(place, clock)
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error)
        throw new Refused('NotReady', `the VNC server of QEMU does not accept connections: ${why}`)
      }
    })
}

const noScreen = new Refused(
  'NotReady',
  'the VM has no screen to connect to: it needs a device graphics of type vnc whose listens is not of type none',
)

/** Where QEMU's VNC server listens; undefined if the domain has none, or one without a listener. */
export function vncPlace(domain: JsonObject | undefined): NetConnectOpts | undefined {
  const screen = itemsOf(itemOf(domain, 'devices'), 'graphics').find(({ type }) => type === 'vnc')
  const [place] = itemsOf(screen, 'listens')
  if (place?.['type'] === 'socket' && typeof place['socket'] === 'string') return { path: place['socket'] }
  const port = Number(screen?.['port'])
  if (place?.['type'] !== 'address' || !(port > 0)) return undefined
  const { address } = place
  // A wildcard includes the loopback address of its family.
  if (typeof address !== 'string' || address === '0.0.0.0') return { host: '127.0.0.1', port }
  return { host: address === '::' ? '::1' : address, port }
}
