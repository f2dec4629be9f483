import { chmod, mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { builtInPlugins } from '../../api/tap.ts'
import { systemClock } from '../../runtime/clock.ts'
import { createLanes } from '../../runtime/lanes.ts'
import { createLogger, type Logger } from '../../runtime/log.ts'
import { networkSocketName } from '../../runtime/network-api.ts'
import { createShutdown } from '../../runtime/shutdown.ts'
import { runPlugin } from './plugin.ts'
import { openPodNetwork } from './pod-network.ts'
import { networkServer } from './server.ts'
import { readSettings, type Settings } from './settings.ts'

/**
 * Plugins that run at once on the node, and for VMs of one namespace. Those of virtset take 60 MiB each, and those of
 * operators share the rest of the memory limit in `daemonset.yaml`.
 */
const limits = { builtIn: { all: 2, perNamespace: 1 }, others: { all: 4, perNamespace: 2 } }
/** Within the memory that a plugin of virtset may take. */
const heapOptions = ['--max-old-space-size=32', '--max-semi-space-size=1']

/**
 * The network agent of a node: runs plugins in the network namespaces of launcher pods, for the handler. It has no
 * token, and only root on the node can reach its socket.
 */
async function main(settings: Settings, log: Logger): Promise<void> {
  const { socketDirectory, pluginDirectory } = settings
  const clock = systemClock
  const builtIn = new Map(
    builtInPlugins.map((name) => [
      name,
      [process.execPath, ...heapOptions, join(import.meta.dirname, name, 'main.ts')] as const,
    ]),
  )
  // Without it, Node compiles a plugin each time, which takes twice the CPU time.
  const cache = process.env['NODE_COMPILE_CACHE']
  const builtInEnvironment = cache === undefined ? {} : { NODE_COMPILE_CACHE: cache }
  const plugins = { builtIn, builtInEnvironment, directory: pluginDirectory, clock }
  // An operator's plugin that hangs delays only VMs with such plugins.
  const lanes = { builtIn: createLanes(limits.builtIn), others: createLanes(limits.others) }
  const server = networkServer({
    openNetwork: (podUID) => openPodNetwork('/proc', podUID),
    run: (run) => runPlugin(plugins, run),
    lanesOf: (plugin) => (plugins.builtIn.has(plugin) ? lanes.builtIn : lanes.others),
    log,
  })
  await mkdir(socketDirectory, { recursive: true, mode: 0o700 })
  await chmod(socketDirectory, 0o700)
  const socket = join(socketDirectory, networkSocketName)
  // That of the agent before.
  await rm(socket, { force: true })
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(socket, resolve))
  log.info({ socket, pluginDirectory }, 'ready')
  const shutdown = createShutdown({ source: process, log, exit: (code) => process.exit(code) })
  shutdown.step('requests', () => new Promise<void>((resolve) => void server.close(() => resolve())))
}

const settings = readSettings(process.env)
const log = createLogger({ process: 'network', level: settings.logLevel })
await main(settings, log).catch((error: unknown) => {
  log.fatal({ err: error }, 'the network agent failed')
  process.exit(1)
})
