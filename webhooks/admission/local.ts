import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isRecord } from '../../api/schema.ts'
import { parseManifest } from '../../api/yaml.ts'
import type { Inventory } from '../../inventory/inventory.ts'
import { inventoryOf, presetsOf, type Manifest } from '../../inventory/manifests.ts'
import type { Logger } from '../../runtime/log.ts'
import type { Certificate } from '../server.ts'

const filesAtOnce = 32

/**
 * The presets in the YAML and JSON files of a folder and its subfolders, instead of a cluster's. Unreadable files and
 * broken presets are logged and skipped.
 */
export async function readInventory(folder: string, log: Logger): Promise<Inventory> {
  const manifests: Manifest[] = []
  const names = await readdir(folder, { recursive: true })
  const files = names.filter((name) => /\.(ya?ml|json)$/.test(name)).toSorted()
  for (let first = 0; first < files.length; first += filesAtOnce) {
    const some = files.slice(first, first + filesAtOnce)
    const texts = await Promise.all(some.map((file) => readFile(join(folder, file), 'utf8')))
    for (const [index, text] of texts.entries()) {
      const read = parseManifest(text)
      if ('problem' in read) log.warn({ file: some[index], problem: read.problem }, 'a file cannot be read')
      else manifests.push(...read.values.filter(isRecord))
    }
  }
  const presets = presetsOf(manifests, 'default')
  for (const [preset, { causes }] of presets.quarantined) log.warn({ preset, causes }, 'a broken preset is quarantined')
  return inventoryOf(presets)
}

export async function readCertificate(cert: string, key: string): Promise<Certificate> {
  return { cert: await readFile(cert, 'utf8'), key: await readFile(key, 'utf8') }
}
