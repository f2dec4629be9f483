import { watchInventory } from '../inventory/watched.ts'
import { defaultAccess } from '../runtime/access.ts'
import { systemClock } from '../runtime/clock.ts'
import { createEventRecorder } from '../runtime/events.ts'
import { fairClient } from '../runtime/fair-client.ts'
import { startHealth } from '../runtime/health.ts'
import { createKubeClient } from '../runtime/kube.ts'
import { startLeaderElection } from '../runtime/leader-election.ts'
import { createLogger, type Logger } from '../runtime/log.ts'
import { countEvents, createMetrics, observeReflectors } from '../runtime/metrics.ts'
import { serveMetrics } from '../runtime/metrics-server.ts'
import { createShutdown } from '../runtime/shutdown.ts'
import { startAttachmentController } from './attachment-controller.ts'
import { startConfigController } from './config-controller.ts'
import { startCapabilitySetController } from './capability-set-controller.ts'
import { createEngine } from './engine.ts'
import { startGroupController } from './group-controller.ts'
import { leadingClient } from './leading-client.ts'
import { observeController } from './metrics.ts'
import { startOrphanController } from './orphan-controller.ts'
import { startPresetController } from './preset-controller.ts'
import { cacheRefusals } from './cached-refusals.ts'
import { readSettings, type Settings } from './settings.ts'
import { startSnapshotController } from './snapshot-controller.ts'
import { startVmController } from './vm-controller.ts'

const name = 'virtset-controller'

/** The controller: watches everything, and acts on VMs, configs, groups and presets while it leads. */
async function main(settings: Settings, log: Logger): Promise<void> {
  const { namespace, identity, launcherImage, healthPort, metricsPort, concurrency, connections } = settings
  const isSharing = settings.sharesCapabilities
  const clock = systemClock
  const shutdown = createShutdown({ source: process, log, exit: (code) => process.exit(code) })
  const access = await defaultAccess(process.env)
  const isLeader = () => election.isLeader()
  // As many again for requests that are late, which give their place in the lanes to others.
  const connected = createKubeClient({ access, userAgent: name, connections: 2 * connections, retries: false })
  const kube = fairClient(leadingClient(connected, isLeader), connections)
  // Events, whose recorder lets namespaces take turns itself, and metrics do not wait behind the requests of a tenant.
  // These do not depend on the leadership: no decision is taken from our events, and each replica reviews the tokens of
  // those who read its metrics.
  const client = createKubeClient({ access, userAgent: name, retries: false })
  // The lease must not wait until slow requests for VMs leave a connection.
  const leaseKube = createKubeClient({ access, userAgent: name, connections: 1 })
  const registry = createMetrics()
  const events = countEvents(registry, createEventRecorder({ kube: client, log, component: name, instance: identity }))
  const inventory = watchInventory({
    kube,
    log,
    clock,
    findWithMac: (address, isWanted) => controller.vms.store.findByIndex('mac', address, isWanted),
  })
  const engine = cacheRefusals(createEngine(inventory), inventory)
  const context = { kube, events, log, isLeader, clock }
  const controller = startVmController({
    ...context,
    engine,
    image: launcherImage,
    concurrency,
    isAwaited: (vm) => configs.awaits(vm),
  })
  const { vms } = controller
  const orphans = startOrphanController({ ...context, vms, pods: controller.pods })
  const presets = startPresetController({ ...context, inventory, vms, engine })
  const configs = startConfigController({ ...context, vms })
  const groups = startGroupController({ ...context, vms })
  const snapshots = startSnapshotController({ ...context, vms })
  const attachments = startAttachmentController({ ...context, vms, pods: controller.pods, image: launcherImage })
  const capabilitySets = startCapabilitySetController({ ...context, inventory, isSharing })
  inventory.onChange((namespace) => controller.reconsiderIncomplete(namespace))

  const lead = async (): Promise<void> => {
    await controller.lead()
    await configs.lead()
    await presets.lead()
    await groups.lead()
    await snapshots.lead()
    await attachments.lead()
    await orphans.lead()
    await capabilitySets.lead()
  }
  const onLeading = () => {
    lead().catch((error: unknown) => {
      if (shutdown.signal.aborted) log.info('stopped while starting to lead')
      else shutdown.fail('the leader could not start', error)
    })
  }
  // The steps wait for requests in progress, but another process acts in 5 s.
  const onLost = (why: string) => shutdown.abandon(why)
  const own = [
    vms,
    controller.pods,
    configs.configs,
    groups.groups,
    groups.budgets,
    controller.nodes,
    snapshots.snapshots,
    attachments.attachments,
  ]
  /** Among others because no VM must be completed, and no usage counted, before all presets are loaded. */
  const ready = (signal: AbortSignal) =>
    Promise.all([inventory.synced(signal), ...own.map((reflector) => reflector.synced(signal))])
  const lease = { namespace, name }
  const election = startLeaderElection({ kube: leaseKube, log, lease, identity, ready, onLeading, onLost })

  observeReflectors(registry, [...own, ...inventory.reflectors])
  observeController(registry, {
    vms,
    configs: configs.configs,
    groups: groups.groups,
    presets: inventory,
    profiles: () => inventory.capabilities().census(),
    queues: { vms: controller, configs, groups, presets, orphans, snapshots, attachments, capabilitySets },
    isLeader,
  })
  const hasSynced = () => own.every((reflector) => reflector.hasSynced()) && inventory.hasSynced()
  const unready = () => [
    ...(hasSynced() ? [] : ['the caches are not synced yet']),
    ...(shutdown.signal.aborted ? ['stopping'] : []),
  ]
  const health = await startHealth({ port: healthPort, registry, log, clock, unready })
  const metrics = await serveMetrics({ port: metricsPort, registry, kube: client, log, clock })

  shutdown.step('capability sets', () => capabilitySets.stop())
  shutdown.step('presets', () => presets.stop())
  shutdown.step('orphans', () => orphans.stop())
  shutdown.step('attachments', () => attachments.stop())
  shutdown.step('snapshots', () => snapshots.stop())
  shutdown.step('groups', () => groups.stop())
  shutdown.step('configs', () => configs.stop())
  shutdown.step('VMs', () => controller.stop())
  shutdown.step('lease', () => election.stop())
  shutdown.step('inventory', () => inventory.stop())
  shutdown.step('events', () => events.stop())
  shutdown.step('metrics', () => metrics?.close())
  shutdown.step('clients', () => Promise.all([kube.close(), client.close()]).then(() => {}))
  shutdown.step('client for the lease', () => leaseKube.close())
  shutdown.step('health', () => health.close())
}

const settings = readSettings(process.env, process.pid)
const log = createLogger({ process: 'controller', level: settings.logLevel })
await main(settings, log).catch((error: unknown) => {
  log.fatal({ err: error }, 'the controller failed')
  process.exit(1)
})
