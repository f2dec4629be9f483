import { existsSync, mkdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

import { attempt } from './command.ts'
import type { Step } from './progress.ts'

/**
 * A mount namespace that outlives its processes. In it, a node's kubelet and containerd find their usual directories,
 * separate from those of other nodes. Its mounts disappear with it.
 */
export interface Namespace {
  /** The file on which the namespace is mounted. */
  readonly file: string
  /** Usual directory → the directory that is mounted there. */
  readonly directories: Readonly<Record<string, string>>
}

/** Creates the namespace unless it exists. */
export async function ensureNamespace(step: Step, namespace: Namespace, created: string): Promise<void> {
  if (mountPoints().includes(namespace.file)) return
  const holder = dirname(namespace.file)
  mkdirSync(holder, { recursive: true })
  // The kernel pins a namespace only on a mount that no other namespace shares.
  if (!mountPoints().includes(holder)) {
    await step.run(['mount', '--bind', holder, holder])
    await step.run(['mount', '--make-private', holder])
  }
  writeFileSync(namespace.file, '')
  for (const usual of Object.keys(namespace.directories)) ensureDirectory(usual, created)
  // Private first, so that these mounts remain in the namespace; then shared, so that later mounts propagate to pods.
  const script = [
    'mount --make-rprivate /',
    'while [ $# -gt 0 ]; do mkdir -p "$2"; mount --bind "$2" "$1"; shift 2; done',
    'mount --make-rshared /',
  ].join('\n')
  const pairs = Object.entries(namespace.directories).flat()
  await step.run(['unshare', `--mount=${namespace.file}`, 'sh', '-ec', script, 'sh', ...pairs])
}

/** A command that runs `command` in the namespace, under the same PID. */
export function inNamespace(namespace: Namespace, command: readonly string[]): string[] {
  return ['nsenter', `--mount=${namespace.file}`, '--', ...command]
}

/**
 * Unpins the namespaces below a directory. The kernel removes them, and all mounts in them, with the last process
 * inside.
 */
export async function removeNamespaces(step: Step, holder: string): Promise<void> {
  for (const point of mountPoints()
    .filter((each) => each === holder || each.startsWith(`${holder}/`))
    .toReversed())
    await attempt(['umount', '--lazy', point], { log: step.log })
}

/** Creates a directory on the host and records that it did not exist before. */
function ensureDirectory(path: string, created: string): void {
  if (existsSync(path)) return
  mkdirSync(path)
  writeFileSync(created, `${path}\n`, { flag: 'a' })
}

/** Removes the recorded directories, if they are still empty. */
export function removeCreated(created: string): void {
  if (!existsSync(created)) return
  for (const path of readFileSync(created, 'utf8').trim().split('\n').toReversed()) {
    try {
      rmdirSync(path)
    } catch {
      // Another program now uses it, or has removed it.
    }
  }
  rmSync(created)
}

export function mountPoints(): string[] {
  return readFileSync('/proc/self/mountinfo', 'utf8')
    .trim()
    .split('\n')
    .flatMap((line) => line.split(' ')[4] ?? [])
}

/** The directory in which the namespaces of a cluster are mounted. */
export function namespaceHolder(state: string): string {
  return join(state, 'namespaces')
}
