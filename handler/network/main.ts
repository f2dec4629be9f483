import { execFileSync } from 'node:child_process'
import { chmod, mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { natPlugin, redirectPlugin, routedPlugin } from '../../api/tap.ts'
import { systemClock } from '../../runtime/clock.ts'
import { createLanes } from '../../runtime/lanes.ts'
import { createLogger, type Logger } from '../../runtime/log.ts'
import { networkSocketName } from '../../runtime/network-api.ts'
import { createShutdown } from '../../runtime/shutdown.ts'
import type { BuiltIn } from './built-in.ts'
import { nat } from './nat/plugin.ts'
import { runPlugin } from './plugin.ts'
import { findPodGroups, processesOf } from './pod-group.ts'
import { openNodeNetworks, openPodNetwork } from './pod-network.ts'
import { redirect } from './redirect/plugin.ts'
import { routed } from './routed/plugin.ts'
import { networkServer } from './server.ts'
import { readSettings, type Settings } from './settings.ts'

/**
 * Plugins that run at once on the node, and for VMs of one namespace. One of virtset is a shell and a program, and takes
 * 5 MiB; for one of an operator, the memory limit in `daemonset.yaml` has 50 MiB, which Node needs.
 */
const limits = { builtIn: { all: 8, perNamespace: 2 }, others: { all: 4, perNamespace: 2 } }

const builtIn: ReadonlyMap<string, BuiltIn> = new Map([
  [routedPlugin, routed],
  [natPlugin, nat],
  [redirectPlugin, redirect],
])

/** A plugin may ask a router or an IPAM service. */
const slowPluginMs = 10_000

/**
 * The network agent of a node: runs plugins in the network namespaces of launcher pods, for the handler. It has no
 * token, and only root on the node can reach its socket.
 */
async function main(settings: Settings, log: Logger): Promise<void> {
  const { socketDirectory, pluginDirectory, cgroupDirectory } = settings
  const groups = findPodGroups(ownGroup(), cgroupDirectory)
  const nodeNetworks = openNodeNetworks('/proc', process.pid)
  const node = { proc: '/proc', processesOf: (podUID: string) => processesOf(groups, podUID), nodeNetworks }
  const plugins = { builtIn, directory: pluginDirectory, clock: systemClock }
  // An operator's plugin that hangs delays only VMs with such plugins, and few of other namespaces.
  const lanes = { builtIn: createLanes(limits.builtIn), others: createLanes(limits.others, systemClock, slowPluginMs) }
  const server = networkServer({
    openNetwork: (podUID) => openPodNetwork(node, podUID),
    run: (run) => runPlugin(plugins, run),
    lanesOf: (plugin) => (builtIn.has(plugin) ? lanes.builtIn : lanes.others),
    log,
  })
  await mkdir(socketDirectory, { recursive: true, mode: 0o700 })
  await chmod(socketDirectory, 0o700)
  const socket = join(socketDirectory, networkSocketName)
  // That of the agent before.
  await rm(socket, { force: true })
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(socket, resolve))
  log.info({ socket, pluginDirectory, groups }, 'ready')
  const shutdown = createShutdown({ source: process, log, exit: (code) => process.exit(code) })
  shutdown.step('requests', () => new Promise<void>((resolve) => void server.close(() => resolve())))
}

/** By its path on the node, as the container runtime sees it: a container usually sees only what is below its group. */
const ownGroup = (): string =>
  execFileSync('nsenter', [`--cgroup=/proc/${process.ppid}/ns/cgroup`, '--', 'cat', '/proc/self/cgroup'], {
    encoding: 'utf8',
  })

const settings = readSettings(process.env)
const log = createLogger({ process: 'network', level: settings.logLevel })
await main(settings, log).catch((error: unknown) => {
  log.fatal({ err: error }, 'the network agent failed')
  process.exit(1)
})
