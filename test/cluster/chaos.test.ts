import { resolve } from 'node:path'

import { expect, test } from 'vitest'

import { readSettings } from '../../cluster/settings.ts'
import { processDirectories } from '../../cluster/up.ts'
import { quickOperations } from '../chaos/operations.ts'
import { play } from '../chaos/play.ts'
import { prepareStorage } from '../chaos/storage.ts'
import { openCluster } from './cluster.ts'

test('keeps its guarantees while VMs, launchers and components are killed for half a minute', async () => {
  const directories = processDirectories(readSettings(resolve(import.meta.dirname, '../..'), process.env))
  const cluster = await openCluster()
  const storage = await prepareStorage(cluster)
  const lines: string[] = []
  const report = (line: string) => lines.push(line)
  try {
    const played = await play({
      cluster,
      directories,
      storage: storage.path,
      report,
      seed: 1,
      seconds: 30,
      operations: quickOperations,
    })
    expect(played.breaches, lines.join('\n')).toEqual([])
    expect(played.qemus).toBeGreaterThan(0)
  } finally {
    await cluster.close()
    await storage.remove()
  }
})
