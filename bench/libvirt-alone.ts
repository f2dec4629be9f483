import { spawn } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from '../launcher/libvirt/client.ts'
import { defineDomain, startDomain } from '../launcher/libvirt/domain.ts'
import { qemuConf } from '../launcher/qemu-conf.ts'
import { readSettings } from '../launcher/settings.ts'
import { systemClock } from '../runtime/clock.ts'

// Run by vm-start.ts in a bare pod of the launcher's image: measures how long libvirtd takes to respond, to define the
// domain in DOMAIN_XML and to start it. Prints milliseconds as JSON, and waits for SIGTERM.

async function dial(path: string): Promise<Socket> {
  for (;;) {
    const socket = await new Promise<Socket | undefined>((resolve) => {
      const attempt = connect(path)
      attempt.once('connect', () => resolve(attempt))
      attempt.once('error', () => resolve(undefined))
    })
    if (socket !== undefined) return socket
    await sleep(2)
  }
}

const settings = readSettings(process.env)
for (const directory of settings.directories) await mkdir(directory, { recursive: true, mode: 0o700 })
await writeFile(settings.qemuConf, qemuConf)
const begin = performance.now()
spawn('libvirtd', [], { env: settings.libvirtd, stdio: 'ignore' })
const responded = Promise.withResolvers<void>()
const client = new Client({
  dial: () => dial(settings.libvirtSocket),
  uri: 'qemu:///session',
  clock: systemClock,
  onHint: () => responded.resolve(),
})
client.start()
await responded.promise
const respondedAt = performance.now()
const domain = await defineDomain(client, process.env['DOMAIN_XML'] ?? '')
const defined = performance.now()
await startDomain(client, domain)
const started = performance.now()
console.log(
  JSON.stringify({ daemonMs: respondedAt - begin, defineMs: defined - respondedAt, startMs: started - defined }),
)
process.on('SIGTERM', () => process.exit())
setInterval(() => {}, 1 << 30)
