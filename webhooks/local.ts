import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseAllDocuments } from 'yaml'
import { isRecord } from '../api/schema.ts'
import { createCandidates } from '../presets/candidates.ts'
import { compilePreset } from '../presets/compile.ts'
import type { QuarantinedPreset } from '../presets/compile.ts'
import { systemClock } from '../runtime/clock.ts'
import { createArrivals } from './arrivals.ts'
import { noBudget } from './budget.ts'
import type { EngineCaches } from './caches.ts'
import { noMachines } from './machines.ts'
import type { Certificate } from './server.ts'

const presetKinds: readonly unknown[] = ['VirtualMachinePreset', 'ClusterVirtualMachinePreset']

/** Every preset in the YAML and JSON files of a folder, in place of a cluster's. Namespaces have no labels but their name. */
export async function localCaches(folder: string): Promise<EngineCaches> {
  const candidates = createCandidates()
  const quarantined = new Map<string, QuarantinedPreset>()
  const files = (await readdir(folder)).filter((name) => /\.(ya?ml|json)$/.test(name)).toSorted()
  for (const file of files) {
    for (const document of parseAllDocuments(await readFile(join(folder, file), 'utf8'))) {
      const value: unknown = document.toJS()
      if (!isRecord(value) || !presetKinds.includes(value['kind'])) continue
      const compiled = compilePreset(value)
      if ('preset' in compiled) candidates.set(compiled.preset)
      else quarantined.set(compiled.quarantined.id, compiled.quarantined)
    }
  }
  const namespace = (name: string) => ({ name, labels: { 'kubernetes.io/metadata.name': name } })
  return {
    candidates,
    quarantined,
    arrivals: createArrivals(systemClock),
    machines: noMachines,
    budget: () => noBudget,
    namespace,
    ageMs: () => 0,
  }
}

export async function readCertificate(cert: string, key: string): Promise<Certificate> {
  return { cert: await readFile(cert, 'utf8'), key: await readFile(key, 'utf8') }
}
