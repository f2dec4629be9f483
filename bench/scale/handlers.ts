import type { VirtualMachine } from '../../api/virtual-machine.ts'
import { startHandler } from '../../handler/handler.ts'
import { createNetworkClient } from '../../handler/network-client.ts'
import { LauncherAbsent, type Launcher, type LauncherEvent } from '../../handler/launcher.ts'
import { kubeconfigAccess } from '../../runtime/access.ts'
import { systemClock } from '../../runtime/clock.ts'
import { createEventRecorder } from '../../runtime/events.ts'
import { createKubeClient } from '../../runtime/kube.ts'
import type { DomainReport } from '../../runtime/launcher-api.ts'
import { createLogger } from '../../runtime/log.ts'
import { accessAs, accountOf } from '../../test/apiserver/accounts.ts'

/**
 * The handlers of many nodes in one process, each with a client of its own, over launchers whose guests run and end at
 * once.
 *
 *     node bench/scale/handlers.ts KUBECONFIG NODE…
 */
const [file = '', ...nodeNames] = process.argv.slice(2)
const access = await kubeconfigAccess({ file })
const log = createLogger({ process: 'handler', level: 'warn' })
const clock = systemClock
const launchers = new Map<string, Launcher>()
/** The UIDs of the pods whose launchers have exited. */
const ended = new Set<string>()

function startLauncher(podUID: string): Launcher {
  const followers = new Set<(event: LauncherEvent) => void>()
  const observedAt = () => new Date().toISOString()
  let report: DomainReport = { vmUID: '', phase: 'Waiting', reason: '', observedAt: observedAt() }
  const become = (change: Partial<DomainReport>) => {
    report = { ...report, ...change, observedAt: observedAt() }
    for (const notify of followers) notify('change')
  }
  const present = () => {
    if (ended.has(podUID)) throw new LauncherAbsent(`the launcher of pod ${podUID} has ended`)
    return report
  }
  return {
    async putCapabilities() {},
    async putNetwork() {},
    async putVolumes() {},
    async put(vm: VirtualMachine) {
      present()
      become({ vmUID: vm.metadata.uid ?? '', phase: 'Defined', reason: 'starting', domain: vm.spec.domain as never })
      setImmediate(() => become({ phase: 'Running', reason: 'booted', specDrift: [] }))
      return report
    },
    report: async () => present(),
    async shutdown() {
      present()
      become({ phase: 'Shutoff', reason: 'shutdown', exit: 'Succeeded' })
    },
    async freeze() {},
    async thaw() {},
    async final() {
      ended.add(podUID)
      launchers.delete(podUID)
    },
    hasVolume: async () => !ended.has(podUID),
    watch(signal, onEvent) {
      followers.add(onEvent)
      return new Promise<never>((_resolve, reject) => {
        signal.addEventListener('abort', () => {
          followers.delete(onEvent)
          reject(new Error('aborted'))
        })
      })
    },
  }
}

function launcherOf(podUID: string): Launcher {
  const launcher = launchers.get(podUID) ?? startLauncher(podUID)
  launchers.set(podUID, launcher)
  return launcher
}

for (const nodeName of nodeNames) {
  // Only virtset's accounts can write status, and only those of a node the events of its handler.
  const ofNode = accessAs(accountOf('handler'), access, nodeName)
  const kube = createKubeClient({ access: ofNode, userAgent: 'virtset-handler' })
  const recorder = createEventRecorder({ kube, log, component: 'virtset-handler', instance: nodeName })
  startHandler({
    kube,
    nodeName,
    launcherOf,
    addressesOf: async () => ['192.0.2.1'],
    readCapabilities: async () => undefined,
    network: createNetworkClient('/nonexistent'),
    attachments: { place: async () => false, hasEnded: async () => true },
    recordEvent({ apiVersion, kind, metadata: { namespace, name, uid } }, type, reason, message) {
      const regarding = { apiVersion, kind, name, uid, ...(namespace === undefined ? {} : { namespace }) }
      recorder.record({ regarding, type, reason, message })
    },
    log,
    clock,
  })
}
