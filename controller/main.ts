import { defaultAccess } from '../runtime/access.ts'
import { systemClock } from '../runtime/clock.ts'
import { createEventRecorder } from '../runtime/events.ts'
import { startHealth } from '../runtime/health.ts'
import { createKubeClient } from '../runtime/kube.ts'
import { startLeaderElection } from '../runtime/leader-election.ts'
import { createLogger, isLogLevel } from '../runtime/log.ts'
import { countEvents, createMetrics, observeReflectors } from '../runtime/metrics.ts'
import { serveMetrics } from '../runtime/metrics-server.ts'
import { createShutdown } from '../runtime/shutdown.ts'
import { startConfigController } from './config-controller.ts'
import { startController } from './controller.ts'
import { startGroupController } from './group-controller.ts'
import { createEngine } from './engine.ts'
import { watchInventory } from '../inventory/watched.ts'
import { observeController } from './metrics.ts'
import { startPresetController } from './preset-controller.ts'
import { remembering } from './remembering.ts'

const { env } = process
const level = env['LOG_LEVEL'] ?? 'info'
const log = createLogger({ process: 'controller', ...(isLogLevel(level) ? { level } : {}) })
const shutdown = createShutdown({ source: process, log, exit: (code) => process.exit(code) })

const namespace = env['NAMESPACE'] ?? 'virtset-system'
const identity = env['POD_NAME'] ?? `${env['HOSTNAME'] ?? 'controller'}-${process.pid}`
const image = env['LAUNCHER_IMAGE']
if (!image) throw new Error('LAUNCHER_IMAGE must name the image that VMs run in')

const name = 'virtset-controller'
const kube = createKubeClient({ access: await defaultAccess(env), userAgent: name })
const registry = createMetrics()
const events = countEvents(registry, createEventRecorder({ kube, log, component: name, instance: identity }))
const isLeader = () => election.isLeader()
const withMac = (address: string) => controller.machines.store.byIndex('mac', address)
const inventory = watchInventory({ kube, log, clock: systemClock, withMac })
const engine = remembering(createEngine(inventory), inventory)
const controller = startController({ kube, engine, events, log, image, isLeader })
const { machines } = controller
const presets = startPresetController({ kube, inventory, machines, engine, events, log, isLeader })
const configs = startConfigController({ kube, machines: controller.machines, events, log, isLeader })
const groups = startGroupController({ kube, machines: controller.machines, events, log, isLeader })
inventory.onChange(() => controller.reconsiderIncomplete())

/** What is completed here must not miss a preset that was merely not loaded yet, and no VM be left out of a count. */
const lead = () => {
  const begin = async () => {
    await Promise.all([inventory.synced(), controller.machines.synced()])
    // First of all: a VM that took another's place must be seen by whoever finishes the restart before it may go.
    await configs.lead()
    controller.lead()
    presets.lead()
    await groups.lead()
  }
  begin().catch((error: unknown) => {
    if (shutdown.signal.aborted) log.info('stopped before the caches were filled')
    else shutdown.fail('it leads, and could not begin', error)
  })
}
const election = startLeaderElection({
  kube,
  log,
  lease: { namespace, name },
  identity,
  onLeading: lead,
  onLost: (why) => shutdown.fail(why),
})

const own = [controller.machines, controller.pods, configs.configs, groups.groups, controller.nodes]
const reflectors = [...own, ...inventory.reflectors]
observeReflectors(registry, reflectors)
observeController(registry, {
  machines: controller.machines,
  configs: configs.configs,
  groups: groups.groups,
  presets: inventory,
  profiles: () => inventory.capabilities().census(),
  queues: { vms: controller, configs, groups, presets },
  isLeader,
})
const health = await startHealth({
  port: Number(env['HEALTH_PORT'] ?? 8080),
  registry,
  log,
  clock: systemClock,
  unready: () => [
    ...(own.every((reflector) => reflector.hasSynced()) && inventory.hasSynced()
      ? []
      : ['the caches are not filled yet']),
    ...(shutdown.signal.aborted ? ['stopping'] : []),
  ],
})

const metrics = await serveMetrics({ port: env['METRICS_PORT'], registry, kube, log, clock: systemClock })

shutdown.step('presets', () => presets.stop())
shutdown.step('groups', () => groups.stop())
shutdown.step('configs', () => configs.stop())
shutdown.step('VMs', () => controller.stop())
shutdown.step('lease', () => election.stop())
shutdown.step('inventory', () => inventory.stop())
shutdown.step('events', () => events.stop())
shutdown.step('metrics', () => metrics?.close())
shutdown.step('client', () => kube.close())
shutdown.step('health', () => health.close())
