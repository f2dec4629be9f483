import { existsSync, mkdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

import { attempt } from './command.ts'
import type { Step } from './progress.ts'

/**
 * A mount namespace that outlives its processes: a node's own view of the machine, in which kubelet and containerd find their usual
 * directories. Two nodes do not meet in them, and when the namespace goes, every mount in it is gone.
 */
export interface Namespace {
  /** The file by which it is entered. */
  readonly file: string
  /** Usual directories, and what stands in their place. */
  readonly directories: Readonly<Record<string, string>>
}

/** Creates the namespace unless it is there. */
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
  // Private first: what is mounted here stays here. Then shared: what is mounted later is seen by pods that ask for it.
  const script = [
    'mount --make-rprivate /',
    'while [ $# -gt 0 ]; do mkdir -p "$2"; mount --bind "$2" "$1"; shift 2; done',
    'mount --make-rshared /',
  ].join('\n')
  const pairs = Object.entries(namespace.directories).flat()
  await step.run(['unshare', `--mount=${namespace.file}`, 'sh', '-ec', script, 'sh', ...pairs])
}

/** A command that runs in the namespace. It becomes the program: its process id is the program's. */
export function inNamespace(namespace: Namespace, command: readonly string[]): string[] {
  return ['nsenter', `--mount=${namespace.file}`, '--', ...command]
}

/** Unpins the namespaces below a directory. The kernel removes them, and all mounts in them, with the last process inside. */
export async function removeNamespaces(step: Step, holder: string): Promise<void> {
  for (const point of mountPoints()
    .filter((each) => each === holder || each.startsWith(`${holder}/`))
    .toReversed())
    await attempt(['umount', '--lazy', point], { log: step.log })
}

/** Creates a directory of the machine and notes that it was not there before. */
function ensureDirectory(path: string, created: string): void {
  if (existsSync(path)) return
  mkdirSync(path)
  writeFileSync(created, `${path}\n`, { flag: 'a' })
}

/** Removes the directories that were noted, if they are still empty. */
export function removeCreated(created: string): void {
  if (!existsSync(created)) return
  for (const path of readFileSync(created, 'utf8').trim().split('\n').toReversed()) {
    try {
      rmdirSync(path)
    } catch {
      // Somebody else has put something there, or taken it away: then it is theirs.
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

/** Where the namespaces of a cluster are pinned. */
export function namespaceHolder(state: string): string {
  return join(state, 'namespaces')
}
