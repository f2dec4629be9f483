import { defaultAccess } from '../runtime/access.ts'
import { systemClock } from '../runtime/clock.ts'
import { createEventRecorder } from '../runtime/events.ts'
import { startHealth } from '../runtime/health.ts'
import { createKubeClient } from '../runtime/kube.ts'
import { createLogger, type Logger } from '../runtime/log.ts'
import { countEvents, createMetrics, observeReflectors } from '../runtime/metrics.ts'
import { serveMetrics } from '../runtime/metrics-server.ts'
import { createShutdown } from '../runtime/shutdown.ts'
import { startHandler } from './handler.ts'
import { launcherOf } from './launcher.ts'
import { readPodAddress } from './pod-address.ts'
import { publishProfile } from './profile.ts'
import { readSettings, type Settings } from './settings.ts'
import { findUnknownGuests, observeUnknownGuests } from './unknown-guests.ts'

/** The node handler: reconciles the VMs of its node, publishes the node's profile, and reports unknown guests. */
async function main(settings: Settings, log: Logger): Promise<void> {
  const { nodeName, kubeletRoot, profileFile, healthPort, metricsPort } = settings
  const clock = systemClock
  const shutdown = createShutdown({ source: process, log, exit: (code) => process.exit(code) })
  const kube = createKubeClient({ access: await defaultAccess(process.env), userAgent: 'virtset-handler' })
  const profile = publishProfile({ kube, nodeName, file: profileFile, log, clock })
  const registry = createMetrics()
  const recorder = countEvents(
    registry,
    createEventRecorder({ kube, log, component: 'virtset-handler', instance: nodeName }),
  )
  const handler = startHandler({
    kube,
    nodeName,
    launcherOf: (podUID, limits) => launcherOf(kubeletRoot, podUID, limits),
    addressOf: (podUID) => readPodAddress(kubeletRoot, podUID),
    recordEvent: ({ apiVersion, kind, metadata: { namespace, name, uid } }, type, reason, message) => {
      const regarding = { apiVersion, kind, name, uid, ...(namespace === undefined ? {} : { namespace }) }
      recorder.record({ regarding, type, reason, message })
    },
    log,
    clock,
  })
  const unknownGuests = findUnknownGuests({
    kubeletRoot,
    podsOfVms: () => handler.podsOfVms(),
    launcherOf: (podUID, limits) => launcherOf(kubeletRoot, podUID, limits),
    log,
    clock,
  })
  observeReflectors(registry, [handler.vms, profile.node])
  observeUnknownGuests(registry, unknownGuests)
  const unready = () => (handler.vms.hasSynced() ? [] : ['the VMs of this node are not listed yet'])
  const health = await startHealth({ port: healthPort, registry, log, clock, unready })
  const metrics = await serveMetrics({ port: metricsPort, registry, kube, log, clock })

  shutdown.step('handler', () => handler.stop())
  shutdown.step('unknown guests', () => unknownGuests.stop())
  shutdown.step('profile', () => profile.stop())
  shutdown.step('events', () => recorder.stop())
  shutdown.step('health', () => health.close())
  shutdown.step('metrics', () => metrics?.close())
  shutdown.step('connections', () => kube.close())
  log.info({ nodeName, kubeletRoot }, 'reconciling the VMs of this node')
}

const settings = readSettings(process.env)
const log = createLogger({ process: 'handler', level: settings.logLevel })
await main(settings, log).catch((error: unknown) => {
  log.fatal({ err: error }, 'the handler failed')
  process.exit(1)
})
