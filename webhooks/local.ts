import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isRecord } from '../api/schema.ts'
import { parseManifest } from '../api/yaml.ts'
import { createCandidates } from '../presets/candidates.ts'
import { compilePreset } from '../presets/compile.ts'
import type { QuarantinedPreset } from '../presets/compile.ts'
import type { Logger } from '../runtime/log.ts'
import type { EngineCaches } from './caches.ts'
import { offlineCaches } from './offline.ts'
import type { Certificate } from './server.ts'

const presetKinds: readonly unknown[] = ['VirtualMachinePreset', 'ClusterVirtualMachinePreset']

/** So many files are read at once. */
const filesAtOnce = 32

/**
 * Every preset in the YAML and JSON files of a folder and those below it, in place of a cluster's. Namespaces have no labels but their name. A file that
 * cannot be read is told and passed over, as broken presets are.
 */
export async function localCaches(folder: string, log: Logger): Promise<EngineCaches> {
  const candidates = createCandidates()
  const quarantined = new Map<string, QuarantinedPreset>()
  const names = await readdir(folder, { recursive: true })
  const files = names.filter((name) => /\.(ya?ml|json)$/.test(name)).toSorted()
  for (let first = 0; first < files.length; first += filesAtOnce) {
    const some = files.slice(first, first + filesAtOnce)
    const texts = await Promise.all(some.map((file) => readFile(join(folder, file), 'utf8')))
    for (const [index, text] of texts.entries()) {
      const read = parseManifest(text)
      if ('problem' in read) log.warn({ file: some[index], problem: read.problem }, 'a file cannot be read')
      else for (const value of read.values) take(value)
    }
  }
  function take(value: unknown): void {
    if (!isRecord(value) || !presetKinds.includes(value['kind'])) return
    const compiled = compilePreset(value)
    if ('preset' in compiled) return candidates.set(compiled.preset)
    const { id, causes } = compiled.quarantined
    quarantined.set(id, compiled.quarantined)
    log.warn({ preset: id, causes }, 'a preset is broken and takes part in nothing')
  }
  return { ...offlineCaches(), candidates, quarantined }
}

export async function readCertificate(cert: string, key: string): Promise<Certificate> {
  return { cert: await readFile(cert, 'utf8'), key: await readFile(key, 'utf8') }
}
