import { defaultAccess } from '../runtime/access.ts'
import { systemClock } from '../runtime/clock.ts'
import { createEventRecorder } from '../runtime/events.ts'
import { startHealth } from '../runtime/health.ts'
import { createKubeClient } from '../runtime/kube.ts'
import { createLogger, type Logger } from '../runtime/log.ts'
import { maxCapabilitiesBytes } from '../runtime/launcher-api.ts'
import { countEvents, createMetrics, observeReflectors } from '../runtime/metrics.ts'
import { serveMetrics } from '../runtime/metrics-server.ts'
import { createShutdown } from '../runtime/shutdown.ts'
import { offers } from './device-plugin/device.ts'
import { ensureDeviceNode } from './device-plugin/device-node.ts'
import { startDevicePlugins } from './device-plugin/device-plugins.ts'
import { startSessionServer } from './session-server.ts'
import { createSessionAccess } from './session-access.ts'
import { startHandler } from './handler.ts'
import { launcherOf } from './launcher.ts'
import { openLauncherSession } from './launcher-session.ts'
import { createNetworkClient } from './network-client.ts'
import { readPodAddresses } from './pod-address.ts'
import { followProfilePod } from './profile-pod.ts'
import { publishProfile } from './profile.ts'
import { readSettings, type Settings } from './settings.ts'
import { hasAttachmentVolume, placeAttachmentSocket } from './socket.ts'
import { findUnknownGuests, observeUnknownGuests } from './unknown-guests.ts'

/** The only account whose tokens open sessions. */
const webhooksAccount = 'system:serviceaccount:virtset-system:virtset-webhooks'

/**
 * The node handler: reconciles the VMs of its node, offers its devices, publishes the node's profile, serves sessions
 * to guests, and reports unknown guests.
 */
async function main(settings: Settings, log: Logger): Promise<void> {
  const { nodeName, kubeletRoot, devicePlugins, deviceCount, healthPort, metricsPort } = settings
  const clock = systemClock
  const shutdown = createShutdown({ source: process, log, exit: (code) => process.exit(code) })
  const kube = createKubeClient({ access: await defaultAccess(process.env), userAgent: 'virtset-handler' })
  const profilePod = followProfilePod({ kube, nodeName, kubeletRoot, log, clock })
  const registry = createMetrics()
  const recorder = countEvents(
    registry,
    createEventRecorder({ kube, log, component: 'virtset-handler', instance: nodeName }),
  )
  const handler = startHandler({
    kube,
    nodeName,
    launcherOf: (podUID, limits) => launcherOf(kubeletRoot, podUID, limits),
    addressesOf: (podUID) => readPodAddresses(kubeletRoot, podUID),
    readCapabilities: async (type) =>
      (await profilePod.read(`capabilities-${type}.json`, maxCapabilitiesBytes))?.toString(),
    network: createNetworkClient(settings.networkDirectory),
    attachments: {
      place: (pods) => placeAttachmentSocket(kubeletRoot, pods),
      hasEnded: async (podUID) => !(await hasAttachmentVolume(kubeletRoot, podUID)),
    },
    recordEvent: ({ apiVersion, kind, metadata: { namespace, name, uid } }, type, reason, message) => {
      const regarding = { apiVersion, kind, name, uid, ...(namespace === undefined ? {} : { namespace }) }
      recorder.record({ regarding, type, reason, message })
    },
    log,
    clock,
  })
  const sessionServer =
    settings.sessions === undefined
      ? undefined
      : await startSessionServer({
          ...settings.sessions,
          accessOf: createSessionAccess(kube, clock, webhooksAccount),
          namespaceOf: (podUID) =>
            handler.vms.store.list().find(({ status }) => status?.podUID === podUID)?.metadata.namespace,
          open: (podUID, target) => openLauncherSession(kubeletRoot, podUID, target, clock),
          log,
          clock,
        })
  handler.vms.onChange(({ kind, object }) => {
    if (kind === 'deleted' && object.status?.podUID !== undefined) sessionServer?.endSessionsOf(object.status.podUID)
  })
  const published = sessionServer === undefined ? {} : { sessionEndpoint: sessionServer.published }
  const profile = publishProfile({ kube, nodeName, read: (...of) => profilePod.read(...of), ...published, log, clock })
  const unknownGuests = findUnknownGuests({
    kubeletRoot,
    podsOfVms: () => handler.podsOfVms(),
    launcherOf: (podUID, limits) => launcherOf(kubeletRoot, podUID, limits),
    log,
    clock,
  })
  const plugins =
    devicePlugins === undefined
      ? undefined
      : startDevicePlugins({
          offers,
          directory: devicePlugins,
          sysfs: '/sys',
          count: deviceCount,
          ensureNode: ensureDeviceNode,
          log,
          clock,
        })
  observeReflectors(registry, [handler.vms, profile.node, profilePod.pods])
  observeUnknownGuests(registry, unknownGuests)
  const unready = () => (handler.vms.hasSynced() ? [] : ['the VMs of this node are not listed yet'])
  const health = await startHealth({ port: healthPort, registry, log, clock, unready })
  const metrics = await serveMetrics({ port: metricsPort, registry, kube, log, clock })

  shutdown.step('sessions', () => sessionServer?.close())
  shutdown.step('handler', () => handler.stop())
  shutdown.step('device plugins', () => plugins?.stop())
  shutdown.step('unknown guests', () => unknownGuests.stop())
  shutdown.step('profile', () => profile.stop())
  shutdown.step('profile pod', () => profilePod.stop())
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
