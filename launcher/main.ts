import { rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Domain } from '../api/domain/domain.ts'
import { canonical } from '../api/domain/canonical.ts'
import { readDomain, writeDomain } from '../api/domain/xml.ts'
import { type MachineSpec, parseMachine } from '../api/machine.ts'
import { systemClock } from '../runtime/clock.ts'
import { type JsonObject, launcherSocketName } from '../runtime/launcher-api.ts'
import { createLogger } from '../runtime/log.ts'
import { isJsonObject, jsonOf, specDrift } from './drift.ts'
import type { Identity } from './identity.ts'
import { Life } from './life.ts'
import type { LibvirtEvent } from './libvirt/connection.ts'
import { openConsole } from './libvirt/domain.ts'
import { readMemoryUse } from './out-of-memory.ts'
import { Refused } from './refused.ts'
import { renderDomain } from './render.ts'
import { launcherServer } from './server.ts'
import { type Settings, readSettings } from './settings.ts'
import { startLibvirt } from './start-libvirt.ts'
import { type VolumeSource, prepareVolume } from './volume.ts'

/**
 * The launcher: one VM in one pod. Under tini, which is PID 1 and reaps QEMU at once (libvirt waits for that); it starts libvirtd,
 * listens on `launcher.sock` when that answers, does what the handler asks, and exits with the VM: 0 if the guest powered off, else 1.
 */
async function main(settings: Settings): Promise<void> {
  process.title = 'virt-launcher'
  const logger = createLogger({ process: 'launcher' })
  const log = (message: string, fields: { [field: string]: unknown }) => logger.info(fields, message)
  const clock = systemClock

  const connected = Promise.withResolvers<void>()
  const onHint = (event: LibvirtEvent | undefined) => {
    if (event === undefined) connected.resolve()
    life.hint()
  }
  const { client, daemon } = await startLibvirt(settings, { clock, log, onHint })
  const life: Life = new Life({
    client,
    clock,
    log,
    ...(settings.vmUID === undefined ? {} : { vmUID: settings.vmUID }),
    prepare: (spec, vm) => prepare(spec, vm, settings),
    readMemoryUse: () => readMemoryUse(settings.cgroup),
    // In libvirt's own order: it refuses a serial console behind another one.
    writeXml: (domain) => writeDomain(canonical(domain)),
    readXml: (xml) => readLive(xml, log),
    compare: (domain, xml) => {
      const read = readDomain(xml)
      return 'domain' in read ? specDrift(domain, read.domain) : read.causes.map(({ field }) => ({ field }))
    },
  })
  client.start()
  await connected.promise

  const server = launcherServer({
    life,
    clock,
    log,
    parseMachine,
    openConsole: async () => {
      if (life.dom === undefined) throw new Refused('NotReady', 'no VirtualMachine is here yet')
      return openConsole(client, life.dom)
    },
  })
  const socket = join(settings.socketDirectory, launcherSocketName)
  await rm(`${socket}.tmp`, { force: true })
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(`${socket}.tmp`, resolve))
  await rename(`${socket}.tmp`, socket)
  log('ready', { socket })

  process.on('SIGTERM', () => life.terminate())

  const exit = await life.ended
  log('the VM has ended', { exit })
  await rm(socket, { force: true })
  client.close()
  await daemon.stop()
  process.exit(exit === 'Succeeded' ? 0 : 1)
}

async function prepare(spec: MachineSpec, vm: Identity, settings: Settings): Promise<Domain> {
  const sources = new Map<string, VolumeSource>()
  for (const volume of spec.volumes ?? []) {
    sources.set(volume.name, await prepareVolume(volume, { directories: settings.volumes, vm }))
  }
  return renderDomain(spec.domain, vm, sources)
}

/** The live domain for the status; what the description does not know yet is no reason to report nothing else. */
function readLive(
  xml: string,
  log: (message: string, fields: { [field: string]: unknown }) => void,
): JsonObject | undefined {
  const read = readDomain(xml)
  if ('causes' in read) {
    log('the live domain holds what the description does not know', { causes: read.causes })
    return undefined
  }
  const json = jsonOf(read.domain)
  return isJsonObject(json) ? json : undefined
}

await main(readSettings(process.env))
