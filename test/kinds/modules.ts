import { execFileSync } from 'node:child_process'
import { readFileSync, readdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseManifest } from '../../api/yaml.ts'
import { isRecord } from '../../api/schema.ts'

/** Where projects have their CRDs, in their Go modules. */
const sources = [
  { module: 'github.com/cert-manager/cert-manager', version: 'v1.21.2', folder: 'deploy/crds' },
  { module: 'sigs.k8s.io/gateway-api', version: 'v1.5.1', folder: 'config/crd/standard' },
] as const

/** The folder of a Go module in Go's cache; downloads it once. */
export function moduleFolder(module: string, version: string): string {
  // Outside a module, so that none is changed.
  const options = { cwd: tmpdir(), encoding: 'utf8', maxBuffer: 1 << 20 } as const
  const { Dir } = JSON.parse(execFileSync('go', ['mod', 'download', '-json', `${module}@${version}`], options))
  return Dir
}

/** The CRDs of cert-manager and Gateway API. */
export function otherCrds(): readonly { readonly [key: string]: unknown }[] {
  return sources.flatMap(({ module, version, folder }) => {
    const directory = join(moduleFolder(module, version), folder)
    return readdirSync(directory).flatMap((file) => {
      if (!file.endsWith('.yaml')) return []
      const read = parseManifest(readFileSync(join(directory, file), 'utf8'))
      if (!('values' in read)) throw new Error(`${file} is not YAML`)
      return read.values.filter(isRecord).filter(({ kind }) => kind === 'CustomResourceDefinition')
    })
  })
}
