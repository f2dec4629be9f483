import { HeldDevices } from '../../launcher/held-device.ts'
import { prepareVolume } from '../../launcher/volume.ts'
import type { Clock } from '../../runtime/clock.ts'

/**
 * Fills the claim of the volume `root` from a web server, as the launcher does, except that no time is waited for. Each
 * message for the user is a line.
 *
 *     node fill-claim-main.ts DIRECTORY URL CHECKSUM
 */
const [directory = '', url = '', checksum = ''] = process.argv.slice(2)

/** A server that is silent is given up after two seconds, and retries come at once. */
const clock: Clock = {
  now: () => 0,
  monotonic: () => 0,
  after(delayMs, run) {
    const timer = setTimeout(run, delayMs === 60_000 ? 2000 : 1)
    return () => clearTimeout(timer)
  },
}
const print = (message: string) => void process.stdout.write(`${message}\n`)
const folder = (name: string) => `${directory}/${name}`
await prepareVolume(
  { name: 'root', persistentVolumeClaim: { claimName: 'data', source: { http: { url, checksum } } } },
  {
    directories: {
      files: folder('volumes'),
      blocks: folder('block'),
      images: folder('images'),
      sources: folder('sources'),
      scratch: folder('scratch'),
    },
    vm: { uid: '5b0c0f4e-6d2a-4c2b-9a53-000000000022', name: 'testvm' },
    use: { isWriter: true, isShared: false },
    devices: new HeldDevices(clock),
    clock,
    onProgress: print,
  },
).catch((error: unknown) => print(error instanceof Error ? error.message : String(error)))
