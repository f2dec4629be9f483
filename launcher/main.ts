import { readFile, rename, rm, writeFile } from 'node:fs/promises'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import type { Domain } from '../api/domain/domain.ts'
import { canonical } from '../api/domain/canonical.ts'
import { readDomain, writeDisk, writeDomain } from '../api/domain/xml.ts'
import type { VirtualMachineSpec } from '../api/virtual-machine.ts'
import { type Clock, systemClock } from '../runtime/clock.ts'
import { attachedSocketDirectory, type JsonObject, launcherSocketName } from '../runtime/launcher-api.ts'
import { createLogger, type Logger } from '../runtime/log.ts'
import { terminatedExitCode } from '../runtime/probe.ts'
import { storeCapabilities } from './capabilities-cache.ts'
import { readClaimedDevices } from './claimed-device.ts'
import { type AddressServers, serveAddresses } from './address-servers.ts'
import { parseResolvConf } from './dhcp.ts'
import { isJsonObject, jsonOf, specDrift } from './drift.ts'
import { placeDeviceState, stateFiles } from './device-state.ts'
import { createDiskGrowth } from './disk-growth.ts'
import { pinToDedicatedCpus, readAllowedCpus } from './dedicated-cpus.ts'
import { sizeInFileSystem } from './fill-file.ts'
import { ConsoleHub } from './console-hub.ts'
import { GuestFreeze } from './freeze.ts'
import { hasRoom } from './full-disk.ts'
import { HeldDevices } from './held-device.ts'
import { fillHostDevices } from './host-device.ts'
import type { Identity } from './identity.ts'
import { GuestAgent } from './guest-agent.ts'
import { createGuestMetrics } from './guest-metrics.ts'
import { mountsOf } from './guest-mounts.ts'
import { createGuestProbes } from './guest-probe.ts'
import { AttachedVolumes } from './attached-volumes.ts'
import { createAttachedSockets } from './attached-sockets.ts'
import { Life } from './life.ts'
import { lostFilesystems } from './lost-filesystem.ts'
import type { LibvirtEvent } from './libvirt/connection.ts'
import {
  attachDevice,
  changeMedium,
  detachDevice,
  hasQemuDevice,
  openConsole,
  openScreenshot,
  readDiskSize,
  readXml,
  resizeDisk,
} from './libvirt/domain.ts'
import type { OnProgress } from './claim-disk.ts'
import { readStats } from './libvirt/domain-stats.ts'
import { freezeGuest, thawGuest } from './libvirt/freeze.ts'
import { askAgent, readMounts } from './libvirt/guest-info.ts'
import { consoleAlias, hasOpenTray } from './live-domain.ts'
import { Media } from './media.ts'
import { readMemoryUse } from './out-of-memory.ts'
import { beginTpms, finishTpms } from './new-tpm.ts'
import { createPorts } from './port.ts'
import { Refused } from './refused.ts'
import { renderDisks, renderDomain, sharedVolumes, volumeUses, type VolumeSource } from './render.ts'
import { createScreen } from './screen.ts'
import { createScreenshots } from './screenshot.ts'
import { launcherServer } from './server.ts'
import { type Settings, readSettings } from './settings.ts'
import { prepareShared } from './shared-volume.ts'
import { startLibvirt } from './start-libvirt.ts'
import { prepareVolume } from './volume.ts'

/**
 * The launcher: one VM in one pod. tini is PID 1 and reaps QEMU immediately, which libvirt waits for. The launcher
 * starts libvirtd, listens on `launcher.sock` once libvirtd responds, serves the handler, and exits with the VM: 0 if
 * the guest powered off, 143 if the pod was terminated and has a liveness probe, otherwise 1.
 */
async function main(settings: Settings, log: Logger): Promise<void> {
  process.title = 'virt-launcher'
  const clock = systemClock

  const connected = Promise.withResolvers<void>()
  const onHint = (event: LibvirtEvent | undefined) => {
    if (event === undefined) connected.resolve()
    life.hint(event)
  }
  const { client, daemon } = await startLibvirt(settings, { clock, log, onHint })
  const onChange = () => life.hint()
  const guestFreeze = new GuestFreeze({
    freeze: (dom) => client.apart((connection) => freezeGuest(connection, dom)),
    thaw: (dom) => client.apart((connection) => thawGuest(connection, dom)),
    clock,
    log,
    onChange,
  })
  const agent = new GuestAgent({
    ask: (dom, questions) => client.apart((connection) => askAgent(connection, dom, questions)),
    isFrozen: () => guestFreeze.isActive,
    clock,
    log,
    random: Math.random,
    onChange,
  })
  /** Of the volumes, once they are prepared. */
  const sources = new Map<string, VolumeSource>()
  const devices = new HeldDevices(clock)
  const life: Life = new Life({
    client,
    clock,
    log,
    ...(settings.vmUID === undefined ? {} : { vmUID: settings.vmUID }),
    prepare: (spec, vm, onProgress) => prepare(spec, { vm, settings, devices, clock, onProgress, sources }),
    renderDisks: ({ domain }) => renderDisks(domain, sources),
    media: new Media({
      update: (dom, drive) => changeMedium(client, dom, writeDisk(drive)),
      isOpen: async (dom, target) => hasOpenTray(readLive((await readXml(client, dom)) ?? '', log), target),
      clock,
      log,
      onChange,
    }),
    beginTpms,
    finishTpms,
    // The first lines of a guest must not be lost, even if this process gets little CPU.
    onPrepared: () => hub.start(),
    attachedVolumes: new AttachedVolumes({
      attach: (dom, xml) => attachDevice(client, dom, xml),
      detach: (dom, alias) => detachDevice(client, dom, alias),
      hasDevice: async (dom, alias) => (await readXml(client, dom))?.includes(`<alias name='${alias}'/>`) ?? false,
      isInQemu: (dom, alias) => hasQemuDevice(client, dom, alias),
      readMounts: (dom, disk) =>
        mountsOf(() => client.apart((connection) => readMounts(connection, dom, disk)), {
          state: agent.report.agent,
          mayReturn: agent.mayReturn,
          isFrozen: guestFreeze.isActive,
        }),
      sockets: await createAttachedSockets(
        join(settings.socketDirectory, attachedSocketDirectory),
        settings.attachedSockets,
      ),
      clock,
      log,
      onChange,
    }),
    readMemoryUse: () => readMemoryUse(settings.cgroup),
    hasRoom,
    readLostFilesystems: (domain) => lostFilesystems(domain, { pidFiles: settings.libvirtState, processes: '/proc' }),
    growDisks: createDiskGrowth({
      readSize: (dom, target) => readDiskSize(client, dom, target),
      readRoom: sizeInFileSystem,
      resize: (dom, target, bytes) => resizeDisk(client, dom, target, bytes),
      log,
    }),
    agent,
    guestFreeze,
    // In libvirt's order: libvirt refuses a serial console after another console.
    writeXml: (domain) => writeDomain(canonical(domain)),
    readXml: (xml) => readLive(xml, log),
    compare: (domain, xml) => {
      const read = readDomain(xml)
      return 'domain' in read ? specDrift(domain, read.domain) : read.causes.map(({ field }) => ({ field }))
    },
  })
  const hub = new ConsoleHub({
    open: async () => {
      const { dom, spec } = life
      if (dom === undefined) throw new Error('opening the console without a domain')
      const { serials = [], consoles = [] } = spec?.domain.devices ?? {}
      if (serials.length + consoles.length === 0) throw new Refused('NotReady', 'its domain has none')
      // libvirt alone knows the aliases of several serial ports.
      const isOnly = serials.length <= 1
      return openConsole(client, dom, isOnly ? null : consoleAlias(await life.readDomain()))
    },
    clock,
    log,
  })
  life.subscribe(({ phase, exit }) => {
    if (exit !== undefined) {
      devices.release()
      void hub.end()
    } else if (phase !== 'Waiting' && phase !== 'Defined') void hub.start()
  })
  client.start()
  await connected.promise

  let servers: AddressServers | undefined
  const server = launcherServer({
    life,
    clock,
    log,
    sessions: {
      console: (target) => hub.join(target),
      screen: createScreen(async () => (await life.report()).domain, clock),
      port: createPorts({ interfaces: networkInterfaces, clock }),
      screenshot: createScreenshots({
        open: () => {
          if (life.dom === undefined) throw new Refused('NotReady', 'the guest does not run yet')
          return openScreenshot(client, life.dom)
        },
        clock,
        log,
      }),
      metrics: createGuestMetrics({
        readStats: async () => {
          const { dom } = life
          return dom === undefined ? undefined : client.apart((connection) => readStats(connection, dom))
        },
        readDevices: () => readFile('/proc/net/dev', 'utf8'),
        clock,
      }),
    },
    serveAddresses: async (taps) => {
      await servers?.close()
      servers = undefined
      const ofPod = parseResolvConf(await readFile('/etc/resolv.conf', 'utf8'))
      servers = await serveAddresses({ taps, ofPod, clock, log })
    },
    probe: createGuestProbes({
      client,
      readProbes: () => life.spec,
      readDomain: () => life.dom,
      isFrozen: () => guestFreeze.isActive,
      clock,
    }),
    storeCapabilities: (cache) => storeCapabilities(settings.libvirtd['XDG_CACHE_HOME'] ?? '', cache),
  })
  const socket = join(settings.socketDirectory, launcherSocketName)
  await rm(`${socket}.tmp`, { force: true })
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(`${socket}.tmp`, resolve))
  await rename(`${socket}.tmp`, socket)
  log.info({ socket }, 'ready')

  process.on('SIGTERM', () => life.terminate())

  const exit = await life.ended
  const { message } = await life.report().catch(() => ({ message: undefined }))
  if (exit === 'Failed') log.error({ exit, message }, 'the VM has failed')
  else log.info({ exit, message }, 'the VM has ended')
  if (exit === 'Failed' && message !== undefined) await writeTerminationLog(settings, message)
  await rm(socket, { force: true })
  await hub.end()
  client.close()
  await daemon.stop()
  if (life.isTerminatedWithProbe) process.exit(terminatedExitCode)
  process.exit(exit === 'Succeeded' ? 0 : 1)
}

interface Preparation {
  readonly vm: Identity
  readonly settings: Settings
  /** Those of an attempt before this one stay held. */
  readonly devices: HeldDevices
  readonly clock: Clock
  readonly onProgress: OnProgress
  /** Filled with those of the volumes. */
  readonly sources: Map<string, VolumeSource>
}

async function prepare(
  spec: VirtualMachineSpec,
  { vm, settings, devices, clock, onProgress, sources }: Preparation,
): Promise<Domain> {
  const uses = volumeUses(spec)
  const shared = sharedVolumes(spec)
  for (const volume of spec.volumes ?? []) {
    // A claim for the state of devices contains no disk.
    if (volume.name === spec.deviceStateVolume && !uses.has(volume.name)) continue
    const source = shared.has(volume.name)
      ? await prepareShared(volume, settings.volumes)
      : await prepareVolume(volume, {
          directories: settings.volumes,
          vm,
          use: uses.get(volume.name),
          devices,
          clock,
          onProgress,
        })
    sources.set(volume.name, source)
  }
  const state = await stateFiles(spec, vm, settings)
  const rendered = await fillHostDevices(renderDomain(spec.domain, vm, sources), spec.hostDevices, {
    variables: settings.deviceVariables,
    readClaimed: (request) => readClaimedDevices(settings.claimedDevices, spec.resourceClaims ?? [], request),
  })
  const domain = placeDeviceState(rendered, state)
  return spec.dedicatedCPUs === true ? pinToDedicatedCpus(domain, await readAllowedCpus()) : domain
}

/** The live domain for the status. Unknown elements must not prevent the rest of the report. */
function readLive(xml: string, log: Logger): JsonObject | undefined {
  const read = readDomain(xml)
  if ('causes' in read) {
    log.warn({ causes: read.causes }, 'the live domain has unknown elements')
    return undefined
  }
  const json = jsonOf(read.domain)
  return isJsonObject(json) ? json : undefined
}

/** For the pod's status, in case the handler could not read the final report, or the launcher failed earlier. */
async function writeTerminationLog({ terminationLog }: Settings, message: string): Promise<void> {
  // The kubelet reads 4096 bytes. A full disk must not prevent the exit.
  await writeFile(terminationLog, message.slice(0, 4000)).catch(() => {})
}

const settings = readSettings(process.env)
const log = createLogger({ process: 'launcher' })
await main(settings, log).catch(async (error: unknown) => {
  log.fatal({ err: error }, 'the launcher failed')
  await writeTerminationLog(settings, `the launcher failed: ${error instanceof Error ? error.message : String(error)}`)
  process.exit(1)
})
