/** `make chaos`, with SEED (1) and MINUTES (20) from the environment. Exits with 1 if a guarantee was broken. */
import { resolve } from 'node:path'

import { readSettings } from '../../cluster/settings.ts'
import { kubeconfigOf, processDirectories } from '../../cluster/up.ts'
import { openCluster } from '../cluster/cluster.ts'
import { allOperations } from './operations.ts'
import { play } from './play.ts'
import { prepareStorage } from './storage.ts'

const settings = readSettings(resolve(import.meta.dirname, '../..'), process.env)
process.env['VIRTSET_STATE'] = settings.state
process.env['KUBECONFIG'] = kubeconfigOf(settings)
const [seed, minutes] = [Number(process.env['SEED'] ?? 1), Number(process.env['MINUTES'] ?? 20)]
const startMs = performance.now()
const report = (line: string) => {
  const seconds = Math.round((performance.now() - startMs) / 1000)
  process.stdout.write(`${String(seconds).padStart(5)} s  ${line}\n`)
}

const cluster = await openCluster()
const storage = await prepareStorage(cluster)
try {
  const base = { cluster, directories: processDirectories(settings), storage: storage.path, report }
  const played = await play({ ...base, seed, seconds: minutes * 60, operations: allOperations })
  const { breaches, done, looks, qemus } = played
  report(`seed ${seed}: ${looks} looks, ${qemus} QEMUs, ${breaches.length} broken promises`)
  report(
    Object.entries(done)
      .map(([name, count]) => `${name} ${count}`)
      .join(', '),
  )
  if (breaches.length > 0) process.exitCode = 1
} finally {
  await cluster.close()
  await storage.remove()
}
