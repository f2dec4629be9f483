import { defaultAccess } from '../runtime/access.ts'
import { systemClock } from '../runtime/clock.ts'
import { createEventRecorder } from '../runtime/events.ts'
import { startHealth } from '../runtime/health.ts'
import { createKubeClient } from '../runtime/kube.ts'
import { createLogger, isLogLevel } from '../runtime/log.ts'
import { countEvents, createMetrics, observeReflectors } from '../runtime/metrics.ts'
import { serveMetrics } from '../runtime/metrics-server.ts'
import { createShutdown } from '../runtime/shutdown.ts'
import { startHandler } from './handler.ts'
import { launcherOf } from './launcher.ts'
import { readPodAddress } from './pod-address.ts'
import { publishProfile } from './profile.ts'

/**
 * The node handler. NODE_NAME: whose VMs; KUBELET_ROOT: the kubelet's root directory as mounted here; PROFILE: the file with what the node
 * can do; HEALTH_PORT; METRICS_PORT; LOG_LEVEL.
 */
async function main(environment: NodeJS.ProcessEnv): Promise<void> {
  const {
    NODE_NAME: nodeName,
    KUBELET_ROOT: kubeletRoot = '/var/lib/kubelet',
    PROFILE: profileFile = '/var/run/virtset/profile/profile.json',
    HEALTH_PORT: port = '8080',
    METRICS_PORT: metricsPort,
    LOG_LEVEL: level = 'info',
  } = environment
  if (!nodeName) throw new Error('NODE_NAME is not set: a handler belongs to a node')

  const log = createLogger({ process: 'handler', ...(isLogLevel(level) ? { level } : {}) })
  const shutdown = createShutdown({ source: process, log, exit: (code) => process.exit(code) })
  const kube = createKubeClient({ access: await defaultAccess(environment), userAgent: 'virtset-handler' })
  const profile = publishProfile({ kube, nodeName, file: profileFile, log, clock: systemClock })
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
    tell: ({ apiVersion, kind, metadata: { namespace, name, uid } }, type, reason, message) => {
      const regarding = { apiVersion, kind, name, uid, ...(namespace === undefined ? {} : { namespace }) }
      recorder.record({ regarding, type, reason, message })
    },
    log,
    clock: systemClock,
  })
  observeReflectors(registry, [handler.machines, profile.node])
  const unready = () => (handler.machines.hasSynced() ? [] : ['the VMs of this node are not read yet'])
  const health = await startHealth({ port: Number(port), registry, log, clock: systemClock, unready })
  const metrics = await serveMetrics({ port: metricsPort, registry, kube, log, clock: systemClock })

  shutdown.step('handler', () => handler.stop())
  shutdown.step('profile', () => profile.stop())
  shutdown.step('events', () => recorder.stop())
  shutdown.step('health', () => health.close())
  shutdown.step('metrics', () => metrics?.close())
  shutdown.step('connections', () => kube.close())
  log.info({ nodeName, kubeletRoot }, 'handling the VMs of this node')
}

await main(process.env)
