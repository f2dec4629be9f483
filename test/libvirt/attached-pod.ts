import { execFileSync } from 'node:child_process'
import { mkdir, rename } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { attachmentSocketName } from '../../api/attachment-path.ts'
import { attachedSocketDirectory } from '../../runtime/launcher-api.ts'
import { eventually } from '../until.ts'
import type { RunningLauncher } from './launcher.ts'
import { confine, libvirtRootfs, makeOwned, makeRunDirectory } from './rootfs.ts'
import { kindOf } from '../../launcher/path-kind.ts'

/**
 * A "pod" that serves a claim, as images/launcher/serve-volume does it in a chroot. It has a network of its own, as each
 * pod has, although nothing here uses one.
 */
export interface AttachedPod {
  readonly podUID: string
  /** The claim, as seen by the test. */
  readonly claim: string
  /** Resolves when it serves the claim. */
  listens(): Promise<void>
  /** Moves its socket to the launcher as the handler does, once it is there. */
  place(launcher: RunningLauncher): Promise<void>
  /** As the kubelet ends it. */
  terminate(): Promise<void>
  /** Its claim remains. */
  kill(): Promise<void>
  readonly exitCode: Promise<number>
  log(): string
  stop(): Promise<void>
}

export async function startAttachedPod(
  podUID: string,
  { claim, env = {} }: { readonly claim?: string; readonly env?: { readonly [name: string]: string } } = {},
): Promise<AttachedPod> {
  const rootfs = libvirtRootfs()
  const directory = await makeRunDirectory(rootfs)
  const project = join(directory.inside, 'project')
  await mkdir(join(directory.outside, 'project'))
  const volume = claim ?? join(directory.outside, 'volume')
  for (const name of ['socket', 'volume']) await makeOwned(join(directory.outside, name))
  // A claim of an earlier pod is seen by its path in the root file system.
  const root = claim === undefined ? directory.inside : dirname(claim).slice(rootfs.length)
  const network = basename(directory.inside)
  execFileSync('ip', ['netns', 'add', network])
  const pod = confine({
    rootfs,
    directory,
    network,
    script: `cd ${project} && exec tini -- images/launcher/serve-volume`,
    env: {
      PATH: `${project}/node_modules/node/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin`,
      VIRTSET_ATTACHMENT_DIR: root,
      VIRTSET_CAPACITY: '32Mi',
      ...env,
    },
    binds: { [project]: resolve(import.meta.dirname, '../..') },
  })
  const log: string[] = []
  pod.process.stdout?.on('data', (chunk: Buffer) => log.push(chunk.toString()))
  pod.process.stderr?.on('data', (chunk: Buffer) => log.push(chunk.toString()))
  const exitCode = new Promise<number>((done) => pod.process.once('exit', (code) => done(code ?? -1)))
  const socket = join(rootfs, root, 'socket', attachmentSocketName)
  const listens = async () => {
    await eventually(`the pod listens: ${log.join('')}`, async () => (await kindOf(socket)) === 'socket')
  }
  return {
    podUID,
    claim: volume,
    listens,
    async place(launcher) {
      const target = join(dirname(launcher.socket), attachedSocketDirectory, `${podUID}.sock`)
      await listens()
      await rename(socket, target)
    },
    async terminate() {
      for (const pid of await pod.pids('tini')) process.kill(pid, 'SIGTERM')
    },
    async kill() {
      pod.process.kill('SIGKILL')
      await pod.ended
    },
    exitCode,
    log: () => log.join(''),
    async stop() {
      await pod.stop()
      execFileSync('ip', ['netns', 'delete', network])
    },
  }
}
